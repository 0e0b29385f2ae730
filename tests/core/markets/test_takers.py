"""Which steps belong to one taker: against plain loops over small cases and over real days."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.markets.lobster.reader import find_source, read_messages
from core.markets.readers import forms
from core.markets.readers.forms import OrderEvents
from core.markets.takers import OrderTakers, Sweeps
from core.simulation import record

DATA = Path(__file__).resolve().parents[3] / "../shared/data"
ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["fill", "rest", "other"]), st.sampled_from([-1, 0, 1])), max_size=25
).map(lambda rows: sorted(rows, key=lambda row: row[0]))  # fmt: skip


def plainly(rows):
    """Row by row: a fill goes on with the fill before at its time and side; what is left of the taker rests on the other side."""
    out = []
    for at, (time, kind, side) in enumerate(rows):
        before = rows[at - 1] if at else (None, "", 0)
        follows = before[0] == time and before[1] == "fill"
        same_side = side == before[2] or 0 in (side, before[2])
        out.append(follows and ((kind == "fill" and same_side) or (kind == "rest" and side == -before[2] != 0)))
    return out


@settings(max_examples=300, deadline=None)
@given(ROWS, st.lists(st.integers(0, 25), max_size=4))
def test_sweeps_are_those_of_a_loop_wherever_blocks_are_cut(rows, cuts):
    sweeps, found = Sweeps(), []
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    for first, end in itertools.pairwise(edges):
        part = rows[first:end]
        kinds = np.array([row[1] for row in part])
        found += sweeps(
            np.array([row[0] for row in part]), kinds == "fill", kinds == "rest", np.array([row[2] for row in part])
        ).tolist()  # fmt: skip
    assert found == plainly(rows)


def test_times_a_nanosecond_apart_are_two_takers():
    time = np.array([1_700_000_000_000_000_001, 1_700_000_000_000_000_001, 1_700_000_000_000_000_002], dtype=np.int64)
    every = np.ones(3, dtype=bool)
    sweeps = Sweeps()
    assert sweeps(time, every, ~every, np.ones(3, dtype=int)).tolist() == [False, True, False]
    assert sweeps(time[2:], every[2:], ~every[2:], np.ones(1, dtype=int)).tolist() == [True]
    assert sweeps(time[2:] + 1, every[2:], ~every[2:], np.ones(1, dtype=int)).tolist() == [False]


def events(rows):
    """(action, side, last, time): the other columns play no part."""
    action, side, last, time = (np.array(column) for column in zip(*rows, strict=True))
    zero = np.zeros(len(rows), dtype=np.int64)
    return OrderEvents(time, zero, action, zero, side, zero, zero, last.astype(bool), zero.astype(bool))


def test_records_of_an_exchanges_event_with_a_trade_belong_together():
    rows = [
        (forms.ADD, 1, 1, 1),
        (forms.TRADE, 1, 0, 2), (forms.FILL, -1, 0, 2), (forms.FILL, -1, 0, 2), (forms.CANCEL, -1, 0, 2), (forms.CANCEL, -1, 1, 2),
        (forms.CANCEL, 1, 0, 3), (forms.ADD, 1, 1, 3),
        (forms.EXECUTE, 1, 1, 4), (forms.EXECUTE, 1, 1, 4), (forms.ADD, -1, 1, 4), (forms.ADD, 1, 1, 4),
    ]  # fmt: skip
    block = events(rows)
    want = [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0]
    assert OrderTakers()(block, block.side).tolist() == [bool(n) for n in want]


@pytest.mark.skipif(not (DATA / "lobster").is_dir(), reason="the LOBSTER sample days are not here (../shared/data/lobster)")
def test_sweeps_of_a_lobster_day_are_those_of_a_loop():
    path = str(DATA / "lobster" / "LOBSTER_SampleFile_GOOG_2012-06-21_10.zip")
    made = record("order_book", {"file": path})
    day = read_messages(find_source(path, "", sure=False))
    kinds = {1: "rest", 4: "fill", 5: "fill"}
    rows = list(zip(day.time.tolist(), [kinds.get(k, "other") for k in day.type.tolist()], day.direction.tolist(), strict=True))
    joined = plainly(rows)
    assert list(made.joins.steps) == [step for step, with_before in enumerate(joined) if with_before]
    assert sum(with_before and row[1] == "fill" for with_before, row in zip(joined, rows, strict=True)) == 3695
    volume = made.facts["volume"].column(len(made))
    step = made.joins.steps[100]
    number = made.joins.number(step)
    assert made.joins.first(number) < step <= made.joins.last(number)
    assert volume[step] > volume[step - 1], "each match has its own numbers"


@pytest.mark.skipif(not (DATA / "databento").is_dir(), reason="the Databento days are not here (../shared/data/databento)")
def test_every_fill_of_a_databento_day_belongs_to_a_trade():
    made = record("order_book", {"file": str(DATA / "databento" / "esh4-glbx-mdp3-20231225.mbo.dbn.zst")})
    event = made.columns["event"]
    names = [event.texts[code] for code in event.array(len(made)).tolist()]
    alone = 0
    for step, name in enumerate(names):
        if name == "fill":
            number = made.joins.number(step)
            alone += "trade" not in names[made.joins.first(number) : made.joins.last(number) + 1]
    assert alone == 0 and names.count("fill") == 6371
