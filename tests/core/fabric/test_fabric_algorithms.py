"""Every algorithm of the simulated fabric gives the values of whole-array arithmetic, on one link level or two."""

import msgspec
import pytest
import torch

from core.errors import BadInput
from core.fabric import SimulatedFabric, mover, ring
from core.fabric.schedules import algorithms_of

RANKS = [1, 2, 3, 5, 7, 8]


class Wire(msgspec.Struct, frozen=True):
    latency: float = 0.0
    bandwidth: float = 1.0  # bytes a second


def tensors(ranks, elements, dtype=torch.int64):
    generator = torch.Generator().manual_seed(ranks * 1000 + elements)
    return {rank: torch.randint(-(10**6), 10**6, (elements,), generator=generator).to(dtype) for rank in range(ranks)}


def total(held):
    return torch.stack(list(held.values())).sum(0)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("elements", [0, 1, 6, 35])
class TestValues:
    @pytest.mark.parametrize("algorithm", algorithms_of("all_reduce"))
    def test_all_reduce_into_new_tensors_or_over_its_inputs(self, algorithm, ranks, elements):
        held = tensors(ranks, elements)
        want, before = total(held), {rank: tensor.clone() for rank, tensor in held.items()}
        got = SimulatedFabric(ranks).all_reduce(held, algorithm=algorithm).wait()
        assert all(torch.equal(got[rank], want) and torch.equal(held[rank], before[rank]) for rank in range(ranks))
        SimulatedFabric(ranks).all_reduce(held, algorithm=algorithm, out=held).wait()
        assert all(torch.equal(held[rank], want) for rank in range(ranks))

    @pytest.mark.parametrize("algorithm", algorithms_of("reduce_scatter"))
    def test_reduce_scatter_and_its_average(self, algorithm, ranks, elements):
        held = tensors(ranks, elements)
        before = {rank: tensor.clone() for rank, tensor in held.items()}
        parts = total(held).split(ring.chunk_sizes(elements, ranks))
        got = SimulatedFabric(ranks).reduce_scatter(held, algorithm=algorithm).wait()
        assert all(torch.equal(got[rank], parts[rank]) and torch.equal(held[rank], before[rank]) for rank in range(ranks))
        mean = SimulatedFabric(ranks).reduce_scatter({r: t.double() for r, t in held.items()}, "avg", algorithm=algorithm).wait()
        assert all(torch.equal(mean[rank], parts[rank].double() / ranks) for rank in range(ranks))

    @pytest.mark.parametrize("algorithm", algorithms_of("all_gather"))
    def test_all_gather(self, algorithm, ranks, elements):
        shards = dict(enumerate(tensors(1, elements)[0].split(ring.chunk_sizes(elements, ranks))))
        got = SimulatedFabric(ranks).all_gather(shards, algorithm=algorithm).wait()
        assert all(torch.equal(got[rank], tensors(1, elements)[0]) for rank in range(ranks))

    @pytest.mark.parametrize("algorithm", algorithms_of("reduce"))
    def test_reduce_gives_the_root_the_sum_and_nobody_else_anything(self, algorithm, ranks, elements):
        held = tensors(ranks, elements)
        for root in {0, ranks // 2, ranks - 1}:
            got = SimulatedFabric(ranks).reduce(held, root, algorithm=algorithm).wait()
            assert list(got) == [root]
            assert torch.equal(got[root], total(held))

    @pytest.mark.parametrize("algorithm", algorithms_of("broadcast"))
    def test_broadcast(self, algorithm, ranks, elements):
        for root in {0, ranks // 2, ranks - 1}:
            held = tensors(ranks, elements)
            want = held[root].clone()
            SimulatedFabric(ranks).broadcast(held, root, algorithm=algorithm).wait()
            assert all(torch.equal(held[rank], want) for rank in range(ranks))


@pytest.mark.parametrize("algorithm", algorithms_of("all_reduce"))
def test_an_average_divides_the_finished_sum_on_every_rank(algorithm):
    held = tensors(6, 13, torch.float64)
    got = SimulatedFabric(6).all_reduce(held, "avg", algorithm=algorithm).wait()
    assert all(torch.equal(got[rank], total(held) / 6) for rank in range(6))


def test_an_algorithm_that_does_not_exist_for_a_collective_is_refused_by_name():
    with pytest.raises(BadInput, match=r"no tree all_gather.*ring, recursive_doubling, direct"):
        SimulatedFabric(4).all_gather({rank: torch.zeros(1) for rank in range(4)}, algorithm="tree")


def test_own_chunk_sizes_are_for_algorithms_that_cut_the_array():
    held = tensors(2, 6)
    for algorithm in ("ring", "direct"):
        fabric = SimulatedFabric(2)
        fabric.all_reduce(held, sizes=[6, 0], algorithm=algorithm).wait()
        assert [fabric.traffic[rank].bytes_sent for rank in (0, 1)] == [48, 48]
    got = SimulatedFabric(2).all_reduce(held, sizes=[6, 0], algorithm="tree").wait()
    assert torch.equal(got[1], total(held))


def test_a_message_between_nodes_takes_the_slower_link():
    fabric = SimulatedFabric(4, Wire(), inter_link=Wire(latency=100.0), node_size=2)
    fabric.send(0, 1, torch.zeros(1, dtype=torch.int64))
    assert fabric.clocks.comm.tolist() == [8.0, 0.0, 0.0, 0.0]
    fabric.send(2, 1, torch.zeros(1, dtype=torch.int64))
    assert fabric.clocks.comm.tolist() == [8.0, 0.0, 108.0, 0.0]


def test_one_slow_link_sets_the_pace_of_the_whole_ring():
    held = tensors(4, 4)
    near, far = SimulatedFabric(4, Wire()), SimulatedFabric(4, Wire(), inter_link=Wire(bandwidth=0.1), node_size=2)
    for fabric in (near, far):
        fabric.all_reduce(held).wait()
    assert far.clocks.compute.min() >= 10 * near.now() * 4 / 6
    assert far.now() == 10 * near.now()
    assert far.traffic[0].bytes_sent == near.traffic[0].bytes_sent


def test_an_empty_message_is_not_sent_and_waits_for_nobody():
    fabric = SimulatedFabric(2, Wire(latency=1.0))
    fabric.compute(1, 50.0, "forward")
    fabric.all_gather({0: torch.zeros(0), 1: torch.zeros(0)}).wait()
    assert fabric.clocks.compute.tolist() == [0.0, 50.0]


def test_busy_adds_up_what_the_comm_stream_carries():
    fabric = SimulatedFabric(2, Wire())
    for _ in range(2):
        fabric.all_reduce(tensors(2, 2)).wait()
    assert fabric.clocks.busy.tolist() == [32.0, 32.0]


@pytest.mark.parametrize("algorithm", algorithms_of("all_reduce"))
def test_a_sum_that_forgets_a_rank_differs(monkeypatch, algorithm):
    honest = mover.Mover.round
    monkeypatch.setattr(mover.Mover, "round", lambda self, transfers: [0, *honest(self, transfers[1:])])
    held = tensors(4, 8)
    fabric = SimulatedFabric(4)
    got = fabric.all_reduce(held, algorithm=algorithm).wait()
    assert not all(torch.equal(got[rank], total(held)) for rank in range(4))
