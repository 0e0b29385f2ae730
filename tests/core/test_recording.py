"""The data model: what a write belongs to, how values are read back, and what readers see while it grows."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cells import Cells
from core.errors import Cancelled
from core.recording import Recorder, Recording, first_difference
from core.views import Axis, Breakdown, Exchange, Gantt, Heatmap, Ladder, Listing, Plot, Resting, Table
from core.views import Column as TableColumn


def fresh() -> tuple[Recording, Recorder]:
    recording = Recording("made_up")
    return recording, Recorder(recording)


def test_titles_are_filled_from_the_steps_values_with_their_units():
    recording, rec = fresh()
    rec.step("Rank {rank} sends {size:bytes}", "It takes {t:s}, {share:%} of the step", rank=2, size=28e9, t=0.00125, share=0.2727)
    assert recording.title(0) == "Rank 2 sends 28 GB"
    assert recording.detail(0) == "It takes 1.25 ms, 27.3 % of the step"
    assert recording.values(0) == {"rank": 2, "size": 28e9, "t": 0.00125, "share": 0.2727}


def test_writes_belong_to_the_step_that_closes_them():
    recording, rec = fresh()
    grid = rec.panel("Grid", Heatmap(Axis(size=1), Axis(size=2)))
    grid.set(0, 0, 1.0)
    rec.fact("held", 1)
    rec.step("first")
    grid.set(0, 1, 2.0)
    rec.fact("held", 2)
    rec.step("second")
    assert [cell.value for cell in grid.at(0).row(0)] == [1.0, None]
    assert [cell.value for cell in grid.at(1).row(0)] == [1.0, 2.0]
    assert [recording.fact("held", step) for step in (0, 1)] == [1, 2]


def test_facts_written_after_the_last_step_hold_at_the_end_only():
    recording, rec = fresh()
    rec.step("a")
    rec.step("b")
    rec.fact("total", 7)
    recording.state = "finished"
    assert [f.name for f in recording.facts_at(0)] == []
    assert recording.fact("total") == 7
    assert recording.facts["total"].column(2)[-1] == 7


def test_block_of_steps_equals_the_same_steps_one_by_one():
    one, rec = fresh()
    for k in range(6):
        title = "buy {n}" if k % 2 else "sell {n}"
        rec.step(title, "at {price}", time=float(k), n=k, price=k / 4, side="b" if k % 2 else "s")
    block, rec = fresh()
    k = np.arange(6)
    sides = ["b" if i % 2 else "s" for i in range(6)]
    rec.steps([("sell {n}", "at {price}"), ("buy {n}", "at {price}")], k % 2, k.astype(float), n=k, price=k / 4, side=sides)
    assert [one.title(i) + one.detail(i) for i in range(6)] == [block.title(i) + block.detail(i) for i in range(6)]
    assert [one.values(i) for i in range(6)] == [block.values(i) for i in range(6)]
    assert first_difference(one, block) is None


def test_block_templates_carry_only_the_names_they_mention_and_the_common_tags():
    recording, rec = fresh()
    rec.steps([("trade {price}", ""), ("cancel {order}", "")], [0, 1], price=np.array([5, 0]), order=np.array([0, 9]), tag=np.array([1, 1]))
    assert recording.values(0) == {"price": 5, "tag": 1}
    assert recording.values(1) == {"order": 9, "tag": 1}


@given(st.lists(st.one_of(st.integers(-(2**60), 2**60), st.floats(allow_nan=False, width=32)), min_size=1, max_size=40))
def test_a_column_gives_back_what_was_put_in(values):
    recording, rec = fresh()
    for value in values:
        rec.step("{x}", x=value)
    wide = any(isinstance(v, float) for v in values)
    assert [recording.values(i)["x"] for i in range(len(values))] == [float(v) if wide else v for v in values]


def test_text_and_number_under_one_name_is_refused():
    _, rec = fresh()
    rec.step("{x}", x=1)
    with pytest.raises(TypeError, match="'x'"):
        rec.step("{x}", x="one")


def test_first_difference_is_the_first_step_whose_template_or_values_differ():
    def run(changed: int) -> Recording:
        recording, rec = fresh()
        for k in range(5):
            rec.step("step {k} by {who}", k=k, who="ann" if k != changed else "bob")
        return recording

    assert first_difference(run(-1), run(-1)) is None
    assert first_difference(run(-1), run(3)) == 3
    shorter, rec = fresh()
    rec.step("step {k} by {who}", k=0, who="ann")
    assert first_difference(run(-1), shorter) == 1


def test_checks_compare_numbers_within_tolerance_and_never_accept_nan():
    recording, rec = fresh()
    assert rec.check("close", 1.0001, 1.0, 0.001)
    assert not rec.check("far", 1.1, 1.0, 0.001)
    assert not rec.check("nan", float("nan"), float("nan"))
    assert rec.check("text", "abc", "abc")
    assert recording.checks[2].got is None


def test_an_abandoned_run_stops_at_its_next_step():
    recording, rec = fresh()
    rec.step("a")
    recording.cancel()
    for call in (lambda: rec.step("b"), lambda: rec.progress(0.5), lambda: rec.steps([("c", "")], [0])):
        with pytest.raises(Cancelled):
            call()
    assert len(recording) == 1


def test_a_reader_never_sees_half_a_step_while_the_recording_grows():
    recording, rec = fresh()
    grid = rec.panel("Grid", Heatmap(Axis(size=4), Axis(size=4)))
    wrong: list[str] = []

    def read() -> None:
        while recording.state == "recording":
            if count := len(recording):
                step = count - 1
                if recording.title(step) != f"step {step}" or grid.at(step).cells[(0, 0)].value != step:
                    wrong.append(recording.title(step))

    reader = threading.Thread(target=read)
    reader.start()
    for k in range(3000):
        grid.set(0, 0, k)
        rec.step("step {k}", k=k)
    recording.state = "finished"
    reader.join()
    assert not wrong


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.one_of(st.none(), st.integers(0, 9))), max_size=700), st.integers(0, 900)
)
def test_keyframed_cells_equal_a_replay_from_zero(writes, step):
    cells: Cells[int, int] = Cells()
    replayed: dict[int, int] = {}
    now = 0
    for advance, key, value in writes:
        now += advance
        cells.write(now, key, value)
        if now <= step:
            replayed.pop(key, None) if value is None else replayed.__setitem__(key, value)
    assert cells.at(step) == replayed


def test_cells_refuse_to_go_back_in_time():
    cells: Cells[int, int] = Cells()
    cells.write(5, 0, 1)
    with pytest.raises(ValueError, match="forward"):
        cells.write(4, 0, 1)


@pytest.mark.parametrize("block", [False, True])
def test_gantt_finds_the_spans_of_a_window_and_the_one_of_a_step(block):
    _, rec = fresh()
    gantt = rec.panel("Schedule", Gantt(Axis("rank {i}", 3)))
    rng = np.random.default_rng(1)
    lane = rng.integers(0, 3, 200)
    start = np.zeros(200)
    free = np.zeros(3)
    for k in range(200):
        start[k] = free[lane[k]] + rng.integers(0, 3)
        free[lane[k]] = start[k] + 1 + rng.integers(0, 3)
    end = start + 1
    order = np.lexsort((lane, start))
    lane, start, end = lane[order], start[order], end[order]
    steps = np.arange(200)
    if block:
        zeros = np.zeros(200, dtype=int)
        gantt.spans(lane, start, end, zeros, zeros, steps, steps, roles=["forward"], texts=["F{n}"])
    else:
        for k in range(200):
            gantt.span(int(lane[k]), start[k], end[k], "forward", "F{n}", k, step=k)
    for low, high in ((0, 5), (7, 31), (100, 1000)):
        for row in range(3):
            expected = [k for k in range(200) if lane[k] == row and start[k] < high and end[k] > low]
            assert [span.index for span in gantt.in_window(row, low, high)] == expected
    assert gantt.at(17).span == 17
    assert gantt.at(17).lane == lane[17]
    assert gantt.get(17).text == "F17"
    covering = [k for k in range(200) if lane[k] == 1 and start[k] <= 20.5 < end[k]]
    assert gantt.span_at(1, 20.5) == (covering[0] if covering else -1)


def test_views_at_a_step_are_equal_when_nothing_changed_and_differ_when_something_did():
    _, rec = fresh()
    table = rec.panel("T", Table([TableColumn("rank"), TableColumn("bytes", "bytes")]))
    bars = rec.panel("B", Breakdown(Axis("rank {i}", 2), [("parameters", "parameter")], capacity=80.0))
    exchange = rec.panel("E", Exchange(Axis("rank {i}", 2)))
    listing = rec.panel("L", Listing(["a", "b"]))
    ladder = rec.panel("P", Ladder())
    plot = rec.panel("C", Plot("step", "held"))
    curve = plot.curve("rank 0", "forward")
    table.row(0, 5.0)
    bars.set(0, 0, 3.0)
    exchange.send(0, 1, 10)
    listing.light(0)
    ladder.level("bid", 10.0, 5, [Resting(1, 5)])
    plot.point(curve, 0, 1)
    rec.step("a")
    rec.step("nothing happens")
    listing.light(1)
    ladder.level("bid", 10.0, 0)
    table.set(0, 1, 6.0)
    rec.step("b")
    for view in (table, bars, listing, ladder, plot, exchange):
        assert view.at(1) == view.at(1)
    assert table.at(0) == table.at(1) != table.at(2)
    assert listing.at(0) == listing.at(1) != listing.at(2)
    assert [level.price for level in ladder.at(1).bids] == [10.0]
    assert ladder.at(2).bids == ()
    assert [m.target for m in exchange.at(0).messages] == [1]
    assert exchange.at(1).messages == ()
    assert plot.at(2).cursor == 0
    assert bars.maximum == 3.0


def test_phases_begin_at_the_step_being_written():
    recording, rec = fresh()
    rec.phase("warm-up")
    rec.step("a")
    rec.step("b")
    rec.phase("steady")
    rec.step("c")
    assert [recording.phase(i).name for i in range(3)] == ["warm-up", "warm-up", "steady"]
