"""The simulated fabric moves real values hop by hop, counts what it sends and keeps a clock per rank and stream."""

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.fabric import SimulatedFabric, ring


class Wire(msgspec.Struct, frozen=True):
    latency: float = 0.5
    bandwidth: float = 4.0  # bytes a second


def tensors(ranks, elements, dtype=torch.int64):
    generator = torch.Generator().manual_seed(ranks * 1000 + elements)
    return {rank: torch.randint(-(10**6), 10**6, (elements,), generator=generator).to(dtype) for rank in range(ranks)}


def copies(held):
    return {rank: tensor.clone() for rank, tensor in held.items()}


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("elements", [1, 6, 35])
class TestCollectivesEqualWholeArrayArithmetic:
    def test_all_reduce_is_the_sum_and_leaves_its_inputs_alone(self, ranks, elements):
        held = tensors(ranks, elements)
        before = copies(held)
        got = SimulatedFabric(ranks).all_reduce(held).wait()
        want = torch.stack(list(before.values())).sum(0)
        assert all(torch.equal(got[rank], want) for rank in range(ranks))
        assert all(torch.equal(held[rank], before[rank]) for rank in range(ranks))

    def test_all_reduce_may_write_over_its_inputs(self, ranks, elements):
        held = tensors(ranks, elements)
        want = torch.stack(list(held.values())).sum(0)
        SimulatedFabric(ranks).all_reduce(held, out=held).wait()
        assert all(torch.equal(held[rank], want) for rank in range(ranks))

    def test_reduce_scatter_then_all_gather_is_all_reduce(self, ranks, elements):
        held, fabric = tensors(ranks, elements), SimulatedFabric(ranks)
        owned = fabric.reduce_scatter(held).wait()
        want = torch.stack(list(held.values())).sum(0)
        assert all(torch.equal(owned[r], part) for r, part in enumerate(want.split(ring.chunk_sizes(elements, ranks))))
        gathered = fabric.all_gather(owned).wait()
        assert all(torch.equal(gathered[rank], want) for rank in range(ranks))

    def test_broadcast_gives_everyone_the_root_either_way(self, ranks, elements):
        for algorithm in ("ring", "direct"):
            for root in range(ranks):
                held = tensors(ranks, elements)
                want = held[root].clone()
                SimulatedFabric(ranks).broadcast(held, root, algorithm=algorithm).wait()
                assert all(torch.equal(held[rank], want) for rank in range(ranks))


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_every_rank_contributes_to_every_chunk_exactly_once(ranks):
    bits = {rank: torch.full((2 * ranks + 1,), 1 << rank) for rank in range(ranks)}
    got = SimulatedFabric(ranks).all_reduce(bits).wait()
    assert all((got[rank] == (1 << ranks) - 1).all() for rank in range(ranks))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_uneven_chunks_reduce_scatter_and_gather(sizes):
    ranks = len(sizes)
    held, fabric = tensors(ranks, sum(sizes)), SimulatedFabric(ranks)
    owned = fabric.reduce_scatter(held, sizes=sizes).wait()
    want = torch.stack(list(held.values())).sum(0)
    assert [owned[rank].numel() for rank in range(ranks)] == sizes
    assert torch.equal(torch.cat([owned[rank] for rank in range(ranks)]), want)
    assert torch.equal(fabric.all_gather(owned, sizes=sizes).wait()[0], want)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(st.integers(0, 5), min_size=n, max_size=n), min_size=n, max_size=n)))
def test_all_to_all_transposes_chunks_of_any_length(sizes):
    ranks = len(sizes)
    chunks = {r: [torch.full((sizes[r][p],), 100 * r + p) for p in range(ranks)] for r in range(ranks)}
    fabric = SimulatedFabric(ranks)
    got = fabric.all_to_all(chunks).wait()
    assert all(torch.equal(got[p][r], chunks[r][p]) for r in range(ranks) for p in range(ranks))
    for r in range(ranks):
        assert fabric.traffic[r].bytes_sent == 8 * sum(sizes[r][p] for p in range(ranks) if p != r)


def test_bf16_sums_round_in_ring_order_and_average_divides_the_finished_sum():
    ranks, shard = 4, 3
    held = {rank: torch.randn(ranks * shard, generator=torch.Generator().manual_seed(rank)).bfloat16() for rank in range(ranks)}
    got = SimulatedFabric(ranks).reduce_scatter(held, "avg").wait()
    for chunk in range(ranks):
        part = slice(chunk * shard, (chunk + 1) * shard)
        total = held[(chunk + 1) % ranks][part]
        for distance in (2, 3, 4):
            total = total + held[(chunk + distance) % ranks][part]
        assert torch.equal(got[chunk], total / ranks)


@pytest.mark.parametrize("ranks", [1, 2, 4, 7])
def test_wire_bytes_and_elements_follow_the_published_counts(ranks):
    elements = 28 * ranks
    size, share = 8 * elements, (ranks - 1) / ranks
    for call, wire, handed in (
        (lambda f, t: f.all_reduce(t), 2 * share * size, 2 * elements),
        (lambda f, t: f.reduce_scatter(t), share * size, elements),
        (lambda f, t: f.all_gather({rank: x[:28] for rank, x in t.items()}), share * size, elements),
        (lambda f, t: f.all_to_all({rank: x.split(28) for rank, x in t.items()}), share * size, elements),
    ):
        fabric = SimulatedFabric(ranks)
        call(fabric, tensors(ranks, elements)).wait()
        assert {t.bytes_sent for t in fabric.traffic.values()} == {round(wire)}
        assert {t.elements for t in fabric.traffic.values()} == {handed}


def test_a_ring_broadcast_costs_every_sender_the_array_and_the_last_rank_nothing():
    fabric = SimulatedFabric(4)
    fabric.broadcast(tensors(4, 8), root=1).wait()
    assert fabric.traffic[0].bytes_sent == 0  # rank 0 ends the chain 1, 2, 3, 0
    assert {fabric.traffic[rank].bytes_sent for rank in (1, 2, 3)} == {64}


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_time_is_alpha_times_steps_plus_wire_bytes_over_bandwidth(ranks):
    wire, size = Wire(), 8 * 4 * ranks
    fabric = SimulatedFabric(ranks, wire)
    fabric.all_reduce(tensors(ranks, 4 * ranks)).wait()
    steps = 2 * (ranks - 1)
    assert fabric.now() == pytest.approx(wire.latency * steps + steps / ranks * size / wire.bandwidth)


def test_scale_charges_time_but_not_bytes():
    plain, scaled = SimulatedFabric(2, Wire(latency=0.0)), SimulatedFabric(2, Wire(latency=0.0), scale=10.0)
    for fabric in (plain, scaled):
        fabric.all_reduce(tensors(2, 4)).wait()
    assert scaled.now() == pytest.approx(10 * plain.now())
    assert scaled.traffic[0].bytes_sent == plain.traffic[0].bytes_sent


def test_a_collective_overlaps_with_compute_issued_after_it_until_somebody_waits():
    fabric = SimulatedFabric(2, Wire(latency=0.0, bandwidth=1.0))
    lanes = fabric.lanes()
    fabric.draw(lanes)
    for rank in fabric.ranks:
        fabric.compute(rank, 3.0, "backward", "B{n}", 1)
    work = fabric.all_reduce(tensors(2, 2), n=1)  # 16 bytes on the wire, 16 s, from t = 3
    for rank in fabric.ranks:
        fabric.compute(rank, 5.0, "backward", "B{n}", 0)
    assert fabric.now() == 8.0
    work.wait()
    assert fabric.now() == 19.0
    assert fabric.clocks.waited.tolist() == [11.0, 11.0]
    spans = [lanes.get(index) for index in range(len(lanes))]
    assert [(s.start, s.end, s.role, s.text) for s in spans if s.lane == 1] == [(3.0, 19.0, "comm", "AR1")]
    assert [(s.start, s.end) for s in spans if s.lane == 0] == [(0.0, 3.0), (3.0, 8.0)]


def test_a_late_rank_holds_up_the_ring():
    fabric = SimulatedFabric(3, Wire(latency=1.0, bandwidth=float("inf")))
    fabric.compute(2, 10.0, "forward")
    fabric.reduce_scatter(tensors(3, 3)).wait()
    assert fabric.now() >= 12.0
    assert np.all(fabric.clocks.comm >= 10.0)


def test_messages_arrive_in_order_and_take_the_links_time():
    fabric = SimulatedFabric(3, Wire(latency=0.5, bandwidth=8.0))
    fabric.compute(0, 2.0, "forward")
    fabric.send(0, 1, torch.tensor([7])).wait()
    fabric.send(0, 1, torch.tensor([8])).wait()
    first = fabric.recv(1, 0, torch.zeros(1, dtype=torch.int64)).wait()
    assert first.item() == 7
    assert fabric.clocks.compute[1] == 3.5  # sent at 2, half a second of latency, 8 bytes in a second
    assert fabric.recv(1, 0, torch.zeros(1, dtype=torch.int64)).wait().item() == 8
    assert fabric.traffic[0].bytes_sent == 16


def test_what_was_never_sent_or_does_not_fit_is_refused():
    fabric = SimulatedFabric(2)
    with pytest.raises(RuntimeError, match="never sent"):
        fabric.recv(1, 0, torch.zeros(1))
    fabric.send(0, 1, torch.zeros(2))
    with pytest.raises(ValueError, match="receives"):
        fabric.recv(1, 0, torch.zeros(1))
    with pytest.raises(ValueError, match="hosts"):
        fabric.all_reduce({0: torch.zeros(2)})
    with pytest.raises(ValueError, match="as many elements"):
        fabric.all_reduce({0: torch.zeros(2), 1: torch.zeros(3)})
    with pytest.raises(ValueError, match="add up"):
        fabric.reduce_scatter({0: torch.zeros(2), 1: torch.zeros(2)}, sizes=[1, 2])


def test_a_chunk_sent_to_the_wrong_rank_shows_in_the_sum(monkeypatch):
    monkeypatch.setattr(ring, "next_rank", ring.previous_rank)
    held = tensors(4, 8)
    got = SimulatedFabric(4).all_reduce(held).wait()
    assert not torch.equal(got[0], torch.stack(list(held.values())).sum(0))
