"""A data file is recognised by what is in it, and one that is not is described."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from core.errors import BadInput
from core.recognise import KINDS, recognise
from core.scenario import find
from core.simulation import families

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
MESSAGES = "34200.017459617,5,0,1,2238200,-1\n34200.18960767,1,11885113,21,2238100,1\n34200.190226476,4,11885113,21,2238100,1\n"
BOOK = "2239500,100,2231800,100\n2239500,100,2238100,21\n2239500,100,2237500,100\n"
CONFIG_OPENS = ("memory", {"model": None}) if "memory" in families() else ("zero", {"model": None})


def npy(shape: tuple[int, ...], descr: str = "<f4") -> bytes:
    """A NumPy file by hand, after the published format (version 1.0)."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    count = 1
    for side in shape:
        count *= side
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(count * int(descr[-1]))


def safetensors(**shapes: tuple[int, ...]) -> bytes:
    header, offset = {}, 0
    for name, shape in shapes.items():
        size = 4
        for side in shape:
            size *= side
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(offset)


def made(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def zipped(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "."), text)
    return path


def test_a_lobster_message_file_opens_the_order_book(tmp_path):
    path = made(tmp_path / "whatever.txt", MESSAGES)
    assert recognise(path) == ("order_book", {"file": str(path)})


def test_a_lobster_zip_opens_the_order_book(tmp_path):
    path = zipped(tmp_path / "day.zip", X_message_1__csv=MESSAGES, X_orderbook_1__csv=BOOK)
    assert recognise(path) == ("order_book", {"file": str(path)})


@pytest.mark.parametrize("name", ["GOOG_2012-06-21_10", "AMZN_2012-06-21_1"])
def test_real_lobster_days_open_the_order_book(name):
    path = DATA / "lobster" / f"LOBSTER_SampleFile_{name}.zip"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    assert recognise(path) == ("order_book", {"file": str(path)})


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2},
        {"model_type": "gpt2", "n_embd": 64, "n_layer": 2},
        {"hidden_size": 64, "num_hidden_layers": 2},
        {"model_type": "llama4", "text_config": {"hidden_size": 64}},
    ],
)
def test_a_config_opens_the_memory_of_training_it(tmp_path, config):
    path = made(tmp_path / "any_name", json.dumps(config))
    simulation, params = recognise(path)
    assert simulation == CONFIG_OPENS[0] and params == {"model": str(path)}


def test_real_configs_are_recognised_and_their_manifest_is_not():
    folder = DATA / "models"
    if not folder.exists():
        pytest.skip(f"{folder} is not here")
    for path in folder.glob("*.json"):
        if path.name == "MANIFEST.json":
            with pytest.raises(BadInput, match="a JSON object"):
                recognise(path)
        else:
            assert recognise(path)[0] == CONFIG_OPENS[0], path.name


def test_a_config_goes_to_memory_where_that_simulation_exists(tmp_path, monkeypatch):
    path = made(tmp_path / "config.json", '{"model_type": "llama"}')
    monkeypatch.setattr("core.recognise.families", lambda: {"zero": "training", "memory": "training"})
    assert recognise(path)[0] == "memory"
    monkeypatch.setattr("core.recognise.families", lambda: {"zero": "training"})
    assert recognise(path)[0] == "zero"


def test_router_logits_open_dispatch(tmp_path):
    for path in (
        made(tmp_path / "a.npy", npy((16, 8))),
        made(tmp_path / "b.npy", npy((2, 16, 8), "<f8")),
        made(tmp_path / "c.safetensors", safetensors(router_logits=(16, 8))),
        zipped(tmp_path / "d.pt", **{"d/data__pkl": "x", "d/data/0": "y"}),
    ):
        assert recognise(path) == ("dispatch", {"logits": str(path)}), path


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("empty.csv", b"", "an empty file"),
        ("notes.txt", "\n\nDear diary, today\nnothing", "text whose first line is 'Dear diary, today'"),
        ("blank.txt", " \n\n", "text without a single letter"),
        ("ids.npy", npy((16,), "<i8"), "a NumPy array of <i8 with shape (16,)"),
        ("model.safetensors", safetensors(weight=(4, 4), bias=(4,)), "a safetensors file of weight [4, 4], bias [4]"),
        ("keys.json", '{"one": 1, "two": 2}', "a JSON object with one, two"),
        ("list.json", "[1, 2]", "a JSON list"),
        ("broken.json", '{"model_type": "llama",\n "hidden_size": }', "text that is not JSON: Expecting value: line 2"),
        ("data.bin", bytes(range(200, 250)) + b"\0", "binary data that starts with c8 c9"),
        ("book.gz", b"\x1f\x8b\x08\0\0\0", "gzip data"),
        ("mbo.dbn", b"DBN\x09" + bytes(40), "a Databento DBN file"),
        ("cut.zip", b"PK\x03\x04\x14\0\0\0\x08\0", "a zip archive that does not open"),
        ("old.pt", pickle.dumps({"a": 1}), "a Python pickle"),
    ],
)
def test_what_cannot_be_opened_is_described_in_one_line(tmp_path, name, content, found):
    path = made(tmp_path / name, content)
    with pytest.raises(BadInput) as caught:
        recognise(path)
    line = str(caught.value)
    assert line.startswith(str(path)) and found in line and "\n" not in line
    assert "a LOBSTER message file" in line and "config.json" in line and "router logits" in line


def test_a_zip_of_other_things_lists_them(tmp_path):
    with pytest.raises(BadInput, match=r"a zip archive of a\.txt, b\.txt, c\.txt and 1 more"):
        recognise(zipped(tmp_path / "x.zip", a__txt="1", b__txt="2", c__txt="3", d__txt="4"))


def test_directories_and_pipes_are_not_read(tmp_path):
    with pytest.raises(BadInput, match="found a directory"):
        recognise(tmp_path)
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer
    with pytest.raises(BadInput, match="not a regular file"):
        recognise(tmp_path / "pipe")


def test_a_character_cut_by_the_first_block_is_still_text(tmp_path):
    path = made(tmp_path / "long.txt", "x" * 4095 + "é" * 100)
    with pytest.raises(BadInput, match="text whose first line"):
        recognise(path)


def test_every_row_names_a_parameter_its_simulation_has():
    from core.simulation import fields, load

    for kind in KINDS:
        if kind.simulation in families():
            assert kind.parameter in {field.name for field in fields(load(kind.simulation).params)}, kind


def test_find_opens_a_data_file_by_its_content(tmp_path):
    path = made(tmp_path / "message.csv", MESSAGES)
    scenario = find(str(path))
    assert scenario.simulation == "order_book" and scenario.params == {"file": str(path)} and scenario.title == "message.csv"


def test_recognising_is_cheap(tmp_path):
    made(tmp_path / "a.npy", npy((16, 8)))
    made(tmp_path / "m.csv", MESSAGES)
    code = (
        "import sys; from core.recognise import recognise; recognise('a.npy'); recognise('m.csv'); "
        "print([m for m in ('torch', 'numpy', 'numba', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.strip() == "[]"
