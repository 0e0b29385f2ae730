"""No reader waits for a pipe or reads a device without end, and a damaged archive is one line whatever broke in it."""

from __future__ import annotations

import io
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from core import scenario
from core.errors import BadInput
from core.markets.lobster.reader import find_source, looks_like_lobster, read_messages, read_orderbook
from core.moe.router_logits import looks_like_logits, read_router_logits
from core.recognise import recognise
from core.transformer import read_config

READERS: dict[str, Callable[[Path], object]] = {
    "scenario.toml": scenario.read,
    "config.json": read_config,
    "message.csv": find_source,
    "day.zip": find_source,
    "logits.npy": read_router_logits,
    "logits.pt": read_router_logits,
    "logits.safetensors": read_router_logits,
}
MESSAGES = "34200.01,5,0,1,2238200,-1\n34200.18,1,11885113,21,2238100,1\n34200.19,4,11885113,21,2238100,1\n"
BOOK = "2239500,100,2231800,100\n2239500,100,2238100,21\n2239500,100,2237500,100\n"


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused_and_never_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(BadInput, match="found a pipe"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", READERS)
def test_a_device_is_refused_and_never_read(tmp_path, name):
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(BadInput, match="found a device"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", READERS)
def test_a_name_that_no_file_can_have_is_one_line(tmp_path, name):
    for odd in (f"a\0{name}", "x" * 3000 + name):
        with pytest.raises(BadInput) as refused:
            READERS[name](tmp_path / odd)
        assert "\n" not in str(refused.value) and "\0" not in str(refused.value)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_archive_is_read_or_refused_and_nothing_else(tmp_path, method):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", method) as archive:
        archive.writestr("A_message_1.csv", MESSAGES)
        archive.writestr("A_orderbook_1.csv", BOOK)
    path = tmp_path / "day.zip"
    for seed in range(200):
        draw = random.Random(seed)
        content = bytearray(whole.getvalue())
        for _ in range(draw.choice((1, 2, 5))):
            at = draw.randrange(len(content))
            if draw.random() < 0.5:
                content[at] = draw.randrange(256)
            else:
                del content[at : at + draw.randrange(1, 20)]
        path.write_bytes(content)
        looks_like_lobster(path)
        looks_like_logits(path)
        try:
            recognise(path)
            source = find_source(path)
            events = read_messages(source)
            list(read_orderbook(source, len(events)) if source.orderbook else [])
        except BadInput as error:
            assert "\n" not in str(error)
