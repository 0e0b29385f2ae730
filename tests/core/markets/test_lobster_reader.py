"""Reading LOBSTER files: every way to hand them in, and one clear line for everything that is not one."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from lobster_sample import sample_day, write_day

from core.errors import BadInput
from core.markets.lobster import reader as lobster
from core.markets.lobster.reader import find_source, looks_like_lobster, read_messages, read_orderbook

DATA = Path(__file__).resolve().parents[3] / "../shared/data/lobster"


def read(path, **how):
    source = find_source(path, **how)
    events = read_messages(source)
    return events, np.concatenate(list(read_orderbook(source, len(events))))


def partner(message: Path) -> Path:
    return message.with_name(message.name.replace("message", "orderbook"))


def as_zip(message: Path, *, drop_book=False, name="day.zip") -> Path:
    path = message.with_name(name)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(message.parent.glob("*.csv")):
            if not (drop_book and "orderbook" in file.name):
                archive.write(file, file.name)
        archive.writestr("ReadMe.txt", "LOBSTER\r\n")
    return path


def refused(path, *words, **how):
    """The message is one line that holds every word."""
    with pytest.raises(BadInput) as caught:
        read(path, **how)
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text, f"{word!r} not in {text!r}"


def edit(path: Path, line: int, text: str) -> Path:
    lines = path.read_text().splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def message(tmp_path):
    return write_day(tmp_path)


def test_zip_message_and_orderbook_file_all_mean_the_same_day(message):
    expected_messages, expected_rows = sample_day()
    book = partner(message)
    for path in (message, book, as_zip(message)):
        events, rows = read(path)
        assert rows.tolist() == expected_rows
        assert events.type.tolist() == [row[1] for row in expected_messages]
        assert [f"{t:.9f}" for t in events.time] == [row[0] for row in expected_messages]
        assert events.price.tolist() == [row[4] for row in expected_messages]


def test_small_blocks_read_the_same_as_one(message, monkeypatch):
    whole = read(message)
    for size in (1, 7, 100):
        monkeypatch.setattr(lobster, "_BLOCK_BYTES", size)
        events, rows = read(message)
        assert np.array_equal(rows, whole[1]) and np.array_equal(events.time, whole[0].time)


def test_windows_line_ends_and_a_missing_last_one_are_fine(tmp_path):
    message = write_day(tmp_path, newline="\r\n")
    expected = sample_day()[1]
    assert read(message)[1].tolist() == expected
    message.write_bytes(message.read_bytes().rstrip())
    assert read(message)[1].tolist() == expected


def test_message_file_alone_has_no_orderbook(message):
    partner(message).unlink()
    assert find_source(message).orderbook == ""


def test_symbol_picks_one_day_of_a_zip_with_several(tmp_path):
    message = write_day(tmp_path)
    for file in list(tmp_path.glob("TEST*.csv")):
        file.with_name(file.name.replace("TEST", "OTHER")).write_bytes(file.read_bytes())
    path = as_zip(message)
    refused(path, "holds 2 message files", "symbol", "OTHER_2024")
    source = find_source(path, "OTHER")
    assert source.message.startswith("OTHER") and source.orderbook.startswith("OTHER")
    refused(path, "'NOBODY' in its name", symbol="NOBODY")


def test_unoccupied_levels_and_halts_are_read(tmp_path):
    messages, rows = sample_day(seed=3, events=600, levels=5)
    assert any(9_999_999_999 in row for row in rows) and any(row[1] == 7 for row in messages)
    write_day(tmp_path, seed=3, events=600, levels=5)
    assert read(next(tmp_path.glob("*message*")))[1].tolist() == rows


# what is refused -----------------------------------------------------------------------------------------------------


def test_missing_empty_and_folder_are_refused(tmp_path):
    refused(tmp_path / "no.csv", "no such file")
    (tmp_path / "empty.csv").write_bytes(b"")
    refused(tmp_path / "empty.csv", "is empty")
    refused(tmp_path, "folder")


def test_truncated_or_damaged_zip_is_refused(message):
    path = as_zip(message)
    content = path.read_bytes()
    for cut in (10, len(content) // 2, len(content) - 5):
        path.write_bytes(content[:cut])
        refused(path, "damaged zip")
    at = content.index(b"message_3.csv") + 60
    path.write_bytes(content[:at] + bytes(b ^ 0x55 for b in content[at : at + 200]) + content[at + 200 :])
    refused(path, "damaged zip")


def test_zip_without_a_message_file_is_refused(tmp_path):
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "hello")
    refused(path, "no LOBSTER message file", "no CSV file")


def test_binary_junk_is_refused_with_its_byte(tmp_path):
    path = tmp_path / "x_message_1.csv"
    path.write_bytes(b"34200.1,1,\x00\xff\xfe" * 500)
    refused(path, "binary data at byte 10")


def test_file_of_another_kind_is_refused_with_its_first_line(tmp_path):
    path = tmp_path / "trades.csv"
    path.write_text("timestamp,price,amount\n1,2,3\n")
    refused(path, "line 1", "timestamp,price", "6 columns")


@pytest.mark.parametrize(
    ("line", "text", "words"),
    [
        (5, "34201.0,1,7,100,10000", ("line 5", "5 columns", "6 columns")),
        (5, "34201.0,1,7,100,ten,1", ("line 5", "column 5 is 'ten'", "a number")),
        (5, "", ("line 5", "an empty line")),
        (1, "34200.0,9,7,100,10000,1", ("line 1", "type 9", "hidden execution")),
        (5, "34201.0,1.5,7,100,10000,1", ("line 5", "type 1.5")),
        (5, "34201.0,1,7,0,10000,1", ("line 5", "size 0", "above 0")),
        (5, "34201.0,1,7,-3,10000,1", ("line 5", "size -3")),
        (5, "34201.0,1,7,100,0,1", ("line 5", "price 0", "above 0")),
        (5, "34201.0,1,7,100,-5,1", ("line 5", "price -5", "above 0")),
        (5, "34201.0,1,7,100,10000,2", ("line 5", "direction 2")),
        (5, "34201.0,1,7.5,100,10000,1", ("line 5", "order id 7.5")),
        (5, "nan,1,7,100,10000,1", ("line 5", "time nan", "seconds")),
        (5, "34000.0,1,7,100,10000,1", ("line 5", "time goes back", "34000.000000000")),
    ],
)
def test_broken_message_line_is_named(message, line, text, words):
    refused(edit(message, line, text), message.name, *words)


@pytest.mark.parametrize(
    ("line", "change", "words"),
    [
        (9, lambda row: row[:-1], ("line 9", "11 columns", "12 columns")),
        (9, lambda row: ["x", *row[1:]], ("line 9", "column 1 is 'x'", "a whole number")),
        (9, lambda row: ["1.5", *row[1:]], ("line 9", "column 1 is '1.5'", "a whole number")),
        (9, lambda row: ["0", *row[1:]], ("line 9", "price 0", "column 1")),
        (9, lambda row: [row[0], "-4", *row[2:]], ("line 9", "size -4", "column 2")),
        (300, lambda row: [row[4], row[5], row[2], row[3], row[0], row[1], *row[6:]], ("line 300", "order of price")),
        (1, lambda row: row[:-1], ("line 1", "11 columns", "4 columns a level")),
    ],
)
def test_broken_orderbook_line_is_named(message, line, change, words):
    book = partner(message)
    row = book.read_text().splitlines()[line - 1].split(",")
    refused(edit(book, line, ",".join(change(row))) and message, book.name, *words)


@pytest.mark.parametrize(("rows", "words"), [(399, "399 rows"), (401, "more than 400 rows")])
def test_row_counts_that_differ_are_refused(message, rows, words):
    book = partner(message)
    lines = book.read_text().splitlines()
    book.write_text("\n".join([*lines, lines[-1]][:rows]) + "\n")
    refused(message, book.name, words, "400 rows, one for each message")


def test_orderbook_file_alone_is_refused(message):
    message.unlink()
    refused(next(message.parent.glob("*orderbook*")), "without its message file")


def test_first_line_is_judged_as_lobster_when_the_user_says_so(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("34200.0,9,7,100,10000,1\n")
    refused(path, "line 1", "not a LOBSTER row")
    refused(path, "line 1", "type 9", sure=True)


def test_very_long_line_is_refused_before_it_fills_the_memory(message):
    message.write_bytes(message.read_bytes()[:200] + b"1" * (6 << 20))
    refused(message, message.name)


# recognising -----------------------------------------------------------------------------------------------------------


def test_recogniser_knows_lobster_from_everything_else(message, tmp_path):
    book = next(tmp_path.glob("*orderbook*"))
    assert looks_like_lobster(message) and looks_like_lobster(book) and looks_like_lobster(as_zip(message))
    others = {"a.csv": "time,price\n1,2\n", "b.json": '{"hidden_size": 4}', "c.csv": "1,2,3,4\n", "d.bin": "PK\x03\x04junk", "e.csv": ""}
    for name, text in others.items():
        (tmp_path / name).write_text(text)
        assert not looks_like_lobster(tmp_path / name), name
    assert not looks_like_lobster(tmp_path / "missing") and not looks_like_lobster(tmp_path)


@pytest.mark.parametrize(("day", "events"), [("GOOG_2012-06-21_10", 147_916), ("GOOG_2012-06-21_1", 49_482), ("AMZN_2012-06-21_1", 57_515)])
def test_real_days_are_read_whole(day, events):
    path = DATA / f"LOBSTER_SampleFile_{day}.zip"
    if not path.exists():
        pytest.skip("the LOBSTER sample days are not here (../shared/data/lobster)")
    assert looks_like_lobster(path)
    messages, rows = read(path)
    assert len(messages) == len(rows) == events
