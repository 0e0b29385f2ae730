"""A collective's span opens hop by hop, with the very tensors that were there when it was issued."""

import pytest
import torch

from core.fabric import SimulatedFabric, drill
from core.fabric.mover import Mover
from core.hardware import LINKS
from core.recording import Recording
from core.views import Axis, Gantt


def drawn(ranks, **kind):
    fabric = SimulatedFabric(ranks, LINKS["nvlink_a100"], **kind)
    lanes = fabric.lanes()
    fabric.draw(lanes)
    return fabric, lanes


def held_values(child, step):
    """(rank, chunk) -> the first value shown at ``step``."""
    view = next(panel.view for panel in child.panels if panel.title.startswith("First value"))
    return {place: cell.value for place, cell in view.at(step).cells.items() if cell.value is not None}


def failed(child):
    return [check.name for check in child.checks if not check.ok]


def test_a_span_opens_what_was_issued_though_its_tensors_have_changed_since():
    fabric, lanes = drawn(4)
    tensors = {rank: torch.arange(8.0) + 10 * rank for rank in range(4)}
    fabric.compute(0, 1.0, "forward")
    fabric.all_reduce(tensors, "avg", out=tensors, n=3).wait()
    for tensor in tensors.values():
        tensor.fill_(-1.0)
    span = next(lanes.get(i) for i in range(len(lanes)) if lanes.get(i).text == "AR3")
    child = lanes.child(span.index)
    assert child.state == "finished"
    assert child.params == {"op": "all_reduce", "algorithm": "ring", "ranks": 4, "elements": 8, "dtype": "float32"}
    assert held_values(child, 0) == {(rank, chunk): 2 * chunk + 10.0 * rank for rank in range(4) for chunk in range(4)}
    last = held_values(child, len(child) - 1)
    assert last == {(rank, chunk): 2 * chunk + 15.0 for rank in range(4) for chunk in range(4)}
    assert not failed(child) and len(child.checks) == 3


def test_hops_run_in_the_time_of_the_span_and_send_its_bytes():
    fabric, lanes = drawn(3, scale=1000.0)
    fabric.compute(1, 2e-3, "forward")
    before = fabric.traffic[0].bytes_sent
    fabric.reduce_scatter({rank: torch.ones(5) for rank in range(3)}).wait()
    spans = [lanes.get(i) for i in lanes.children]
    child = lanes.child(spans[0].index)
    assert child.time(len(child) - 1) == pytest.approx(max(span.end for span in spans), rel=1e-12)
    sent = max(t.bytes_sent for t in fabric.traffic.values()) - before
    assert child.fact("bytes_sent_per_rank") == 1000 * sent
    assert child.fact("scale") == 1000


def test_every_rank_opens_the_same_recording_made_once_and_only_when_asked(monkeypatch):
    made = []
    honest = drill.Drill._record
    monkeypatch.setattr(drill.Drill, "_record", lambda self: made.append(self) or honest(self))
    fabric, lanes = drawn(3)
    fabric.all_gather({rank: torch.ones(2) for rank in range(3)}).wait()
    assert not made
    opened = {id(lanes.child(i)) for i in [*lanes.children, *lanes.children]}
    assert len(opened) == 1 and len(made) == 1


def test_other_spans_open_nothing_and_a_finished_recording_opens_as_it_is():
    fabric, lanes = drawn(2)
    fabric.compute(0, 1.0, "forward")
    assert lanes.child(0) is None
    gantt, inner = Gantt(Axis.of("lane")), Recording("inner")
    assert gantt.child(gantt.span(0, 0, 1, "comm", child=inner)) is inner
    assert gantt.child(gantt.span(0, 1, 2, "comm", child=lambda: inner)) is inner
    assert gantt.child(7) is None


@pytest.mark.parametrize("algorithm", ["ring", "tree", "recursive_doubling", "direct"])
def test_every_algorithm_opens(algorithm):
    fabric, lanes = drawn(5)
    fabric.all_reduce({rank: torch.randn(7) for rank in range(5)}, algorithm=algorithm).wait()
    child = lanes.child(next(iter(lanes.children)))
    assert child.params["algorithm"] == algorithm and not failed(child)


def test_blocks_of_any_length_and_shape_open():
    fabric, lanes = drawn(3)
    chunks = {r: [torch.full((r + 1, p), 10.0 * r + p) for p in range(3)] for r in range(3)}
    fabric.all_to_all(chunks).wait()
    child = lanes.child(next(iter(lanes.children)))
    assert not failed(child)
    assert held_values(child, len(child) - 1) == {(p, r): 10.0 * r + p for r in range(3) for p in range(3) if p}


def test_a_broadcast_opens_with_the_root_alone_holding_anything():
    fabric, lanes = drawn(4)
    fabric.broadcast({rank: torch.full((8,), float(rank)) for rank in range(4)}, 2).wait()
    child = lanes.child(next(iter(lanes.children)))
    assert {rank for rank, _ in held_values(child, 0)} == {2}
    assert set(held_values(child, len(child) - 1).values()) == {2.0} and not failed(child)


def test_a_large_collective_keeps_the_first_of_every_chunk_and_charges_all_of_it():
    fabric, lanes = drawn(4)
    elements = drill.WHOLE_BYTES
    tensors = {rank: torch.arange(elements, dtype=torch.float32) % 97 + rank for rank in range(4)}
    fabric.all_reduce(tensors).wait()
    child = lanes.child(next(iter(lanes.children)))
    assert child.fact("values_kept") == drill.SLICE_BYTES // (16 * 4)
    assert child.params["elements"] == elements
    assert child.fact("bytes_sent_per_rank") == fabric.traffic[0].bytes_sent
    assert child.time(len(child) - 1) == pytest.approx(fabric.now())
    assert not failed(child)


def test_one_run_keeps_no_more_than_its_bound(monkeypatch):
    monkeypatch.setattr(drill, "TOTAL_BYTES", 100)
    fabric, lanes = drawn(2)
    for _ in range(3):
        fabric.all_reduce({rank: torch.ones(8) for rank in range(2)}).wait()
    assert len(lanes.children) == 2 * 2  # 64 bytes each: the third one comes too late


def test_nothing_is_kept_when_nothing_is_drawn():
    fabric = SimulatedFabric(2, LINKS["nvlink_a100"])
    fabric.all_reduce({rank: torch.ones(8) for rank in range(2)}).wait()
    assert fabric._keeper.bytes == 0


def test_values_that_are_not_added_are_noticed_inside(monkeypatch):
    fabric, lanes = drawn(3)
    fabric.all_reduce({rank: torch.randn(6) for rank in range(3)}).wait()
    monkeypatch.setattr(Mover, "_reduce", Mover._copy)
    assert failed(lanes.child(next(iter(lanes.children)))) == ["values on every rank, in units of the rounding bound"]
