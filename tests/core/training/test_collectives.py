"""The collectives simulation: values, contributors, bytes and time of every pair, its moments, and what it refuses."""

from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from recorded import failed, runs_of
from threaded_ranks import run_ranks

from core.errors import BadInput
from core.fabric import SimulatedFabric, hop_text, mover, ring
from core.fabric.clock import Clocks
from core.fabric.schedules import algorithms_of, build
from core.recording import first_difference

OPS = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all")
PAIRS = [(op, algorithm) for op in OPS for algorithm in algorithms_of(op)]


run = runs_of("collectives")


def panel(rec, title):
    return next(p.view for p in rec.panels if p.title.startswith(title))


def titled(rec, start):
    return next(i for i in range(len(rec)) if rec.title(i).startswith(start))


# values, bytes, time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7, 8])
def test_every_pair_holds_its_checks_for_sizes_that_divide_and_that_do_not(op, algorithm, ranks):
    for elements in (1, 5 * ranks, 35):
        rec = run(op=op, algorithm=algorithm, ranks=ranks, elements=elements, dtype="int64")
        assert not failed(rec)
        assert len(rec.checks) >= 6
        assert not any("{" in rec.title(i) + rec.detail(i) for i in range(len(rec)))
        times = [rec.time(i) for i in range(len(rec))]
        assert times == sorted(times)


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "bf16", "fp16", "int64"])
@pytest.mark.parametrize("ranks", [3, 64])
def test_every_format_is_exact_or_within_the_rounding_bound(dtype, ranks):
    rec = run(dtype=dtype, ranks=ranks, elements=70)
    assert not failed(rec)
    exact = any(check.name == "values on every rank, largest difference" for check in rec.checks)
    assert exact == (dtype != "bf16" or ranks == 3)


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
@pytest.mark.parametrize(("ranks", "node_size"), [(6, 3), (8, 4), (4, 4), (4, 1)])
def test_two_link_levels_hold_their_checks(op, algorithm, ranks, node_size):
    rec = run(op=op, algorithm=algorithm, ranks=ranks, node_size=node_size, elements=48)
    assert not failed(rec)
    assert ("bytes_between_nodes" in rec.facts) == (node_size < ranks)


@pytest.mark.parametrize(("op", "share"), [("all_reduce", 2), ("reduce_scatter", 1), ("all_gather", 1), ("all_to_all", 1)])
def test_bytes_and_bandwidths_are_those_of_nccl_tests(op, share):
    size = 4 * (1 << 20)
    rec = run(op=op, algorithm="direct", ranks=8, elements=1 << 20, dtype="fp32")
    assert rec.fact("bytes_sent_per_rank") == share * 7 / 8 * size
    assert rec.fact("algorithm_bandwidth") == pytest.approx(size / rec.fact("time"))
    assert rec.fact("bus_bandwidth") == pytest.approx(size / rec.fact("time") * share * 7 / 8)


def test_without_latency_worth_naming_the_bus_bandwidth_of_a_ring_is_that_of_its_link():
    for op in ("all_reduce", "reduce_scatter", "all_gather"):
        rec = run(op=op, ranks=10**4, elements=10**14)
        assert rec.fact("bus_bandwidth") == pytest.approx(450e9, rel=0.01)


def test_a_tree_says_its_total_and_its_busiest_rank():
    rec = run(algorithm="tree", ranks=8, elements=100)
    assert rec.fact("bytes_sent_per_rank") == 3 * 400
    assert rec.fact("bytes_sent_total") == 2 * 7 * 400
    assert rec.fact("rounds") == 6


def test_64_ranks_in_a_ring_take_8064_hops():
    rec = run(ranks=64, elements=6400)
    assert rec.fact("hops") == 8064
    assert rec.fact("rounds") == 126
    assert not failed(rec)


def test_small_arrays_want_few_rounds_and_large_ones_few_bytes():
    def time(algorithm, elements):
        return run(algorithm=algorithm, ranks=16, elements=elements).fact("time")

    assert time("recursive_doubling", 16) < time("tree", 16) < time("ring", 16)
    assert time("ring", 10**9) < time("recursive_doubling", 10**9) < time("tree", 10**9)


# torch's own collectives ---------------------------------------------------------------------------------------------------


def test_results_equal_torchs_collectives_on_the_same_values():
    ranks, shard = 4, 3
    whole = {rank: torch.randint(-99, 99, (ranks * shard,), generator=torch.Generator().manual_seed(rank)) for rank in range(ranks)}

    def body(rank):
        mine, found = whole[rank], {}
        found["all_reduce"] = mine.clone()
        dist.all_reduce(found["all_reduce"])
        found["reduce_scatter"] = torch.empty(shard, dtype=mine.dtype)
        dist.reduce_scatter(found["reduce_scatter"], list(mine.clone().split(shard)))
        gathered = [torch.empty(shard, dtype=mine.dtype) for _ in range(ranks)]
        dist.all_gather(gathered, mine[:shard].clone())
        found["all_gather"] = torch.cat(gathered)
        blocks = [torch.empty(shard, dtype=mine.dtype) for _ in range(ranks)]
        dist.all_to_all(blocks, list(mine.clone().split(shard)))
        found["all_to_all"] = torch.cat(blocks)
        found["broadcast"] = mine.clone()
        dist.broadcast(found["broadcast"], 0)
        return found

    theirs = run_ranks(ranks, body)
    for op, algorithm in PAIRS:
        if op != "reduce":
            ours = moved(op, algorithm, whole, shard)
            assert all(torch.equal(ours[rank], theirs[rank][op]) for rank in range(ranks)), (op, algorithm)


def moved(op, algorithm, whole, shard):
    fabric, ranks = SimulatedFabric(len(whole)), range(len(whole))
    held = {rank: whole[rank].clone() for rank in ranks}
    if op == "all_gather":
        return fabric.all_gather({rank: held[rank][:shard] for rank in ranks}, algorithm=algorithm).wait()
    if op == "all_to_all":
        got = fabric.all_to_all({rank: held[rank].split(shard) for rank in ranks}, algorithm=algorithm).wait()
        return {rank: torch.cat(got[rank]) for rank in ranks}
    if op == "broadcast":
        return fabric.broadcast(held, 0, algorithm=algorithm).wait()
    return getattr(fabric, op)(held, algorithm=algorithm).wait()


# what is shown ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_halfway_through_all_reduce_each_rank_owns_exactly_its_finished_chunk(algorithm):
    rec = run(algorithm=algorithm, ranks=4, elements=40)
    step = titled(rec, "Halfway: each rank owns exactly one finished chunk")
    assert rec.phase(step).name == "reduce-scatter" and rec.phase(step + 1).name == "all-gather"
    counts = panel(rec, "Ranks whose values are in a chunk").at(step).cells
    assert {place for place, cell in counts.items() if cell.value} == {(r, r) for r in range(4)}
    assert all(counts[r, r].value == 4 and counts[r, r].role == "good" for r in range(4))
    scattered = run(op="reduce_scatter", algorithm=algorithm, ranks=4, elements=40)
    values, same = (panel(r, "First value").at(i).cells for r, i in ((rec, step), (scattered, len(scattered) - 1)))
    assert [values[r, r].value for r in range(4)] == [same[r, r].value for r in range(4)]
    assert rec.fact("bytes_sent_per_rank", step) * 2 == rec.fact("bytes_sent_per_rank")
    assert rec.fact("finished_chunks", step) == 4


def test_contributions_grow_by_one_a_hop():
    rec = run(ranks=5, elements=25)
    counts = panel(rec, "Ranks whose values")
    for hop in range(1, 5):
        step = titled(rec, f"Reduce-scatter, hop {hop} of 4")
        assert max(cell.value for cell in counts.at(step).cells.values()) == hop + 1
        messages = panel(rec, "Messages").at(step).messages
        assert [(m.source, m.target, m.size) for m in messages] == [(r, (r + 1) % 5, 20.0) for r in range(5)]


def test_values_at_the_end_are_the_same_everywhere_and_sum_what_was_there_at_first():
    rec = run(ranks=4, elements=8, dtype="int64")
    values = panel(rec, "First value")
    first, last = values.at(0).cells, values.at(len(rec) - 1).cells
    for chunk in range(4):
        assert {last[rank, chunk].value for rank in range(4)} == {sum(first[rank, chunk].value for rank in range(4))}


def test_links_carry_one_message_at_a_time_and_know_their_step():
    rec = run(ranks=6, elements=60, algorithm="recursive_doubling")
    lanes = panel(rec, "Links")
    for lane in range(len(lanes.lanes)):
        spans = lanes.in_window(lane, 0.0, float("inf"))
        assert all(one.end <= two.start for one, two in pairwise(spans))
    assert len(lanes) == 2 * rec.fact("hops")
    assert all(lanes.get(i).step < len(rec) for i in range(len(lanes)))


def test_the_listing_lights_the_round_that_runs():
    rec = run(ranks=4, elements=8)
    step = titled(rec, "All-gather, hop 2")
    frame = panel(rec, "Schedule").at(step)
    assert next(frame.lines[k] for k in frame.lit).startswith("all-gather 2: 0→1 c3")


def test_the_same_seed_records_the_same_steps():
    assert first_difference(run(elements=64), run(elements=64)) is None


# broken on purpose --------------------------------------------------------------------------------------------------------


def test_a_chunk_sent_to_the_wrong_rank_is_caught(monkeypatch):
    monkeypatch.setattr(ring, "next_rank", ring.previous_rank)
    wrong = failed(run(elements=64))
    assert "chunks with a missing or foreign contributor" in wrong
    assert "values on every rank, largest difference" in wrong


def test_a_mover_that_forgets_to_add_is_caught(monkeypatch):
    monkeypatch.setattr(mover.Mover, "_reduce", mover.Mover._copy)
    assert "values on every rank, largest difference" in failed(run(elements=64))


def test_a_rank_added_twice_is_caught(monkeypatch):
    honest = ring.reduce_scatter
    monkeypatch.setattr(ring, "reduce_scatter", lambda n: (honest(n)[0], *honest(n)))
    assert {"contributions that arrived twice", "messages", "rounds"} & set(failed(run(ranks=3, elements=64)))


def test_bytes_that_are_not_counted_are_caught(monkeypatch):
    honest = mover.Mover.round
    monkeypatch.setattr(mover.Mover, "round", lambda self, transfers: [size // 2 for size in honest(self, transfers)])
    wrong = failed(run(elements=64))
    assert {"bytes on the wire, all ranks, counted hop by hop", "bytes of the busiest rank", "time from the clocks"} <= set(wrong)


def test_messages_that_wait_for_nobody_are_caught(monkeypatch):
    honest = Clocks.round
    monkeypatch.setattr(Clocks, "round", lambda self, at, *ends: honest(self, at * 0, *ends))
    assert "time from the clocks" in failed(run(elements=64))


def test_a_link_that_is_not_told_apart_is_caught(monkeypatch):
    honest = Clocks.costs

    def near(self, source, target, size):
        return honest(self, source, source, size)

    monkeypatch.setattr(Clocks, "costs", near)
    assert "time from the clocks" in failed(run(ranks=8, node_size=4, elements=64))


# input --------------------------------------------------------------------------------------------------------------------


def test_a_million_ranks_are_answered_by_formula_with_a_note():
    rec = run(ranks=10**6, elements=10**9)
    assert rec.fact("values_moved") is False
    assert "moved one by one" in rec.facts["values_moved"].note
    assert rec.facts["time"].kind == rec.facts["hops"].kind == "formula"
    assert rec.fact("hops") == 2 * 10**6 * (10**6 - 1)
    assert rec.fact("bytes_sent_per_rank") == pytest.approx(2 * (1 - 1e-6) * 4e9)
    assert len(rec) == 1 and not failed(rec)
    assert run(ranks=8, elements=10**12).fact("values_moved") is False


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
def test_the_formula_continues_what_is_moved(monkeypatch, op, algorithm):
    params = {"op": op, "algorithm": algorithm, "ranks": 6, "elements": 600}
    counted = run(**params)
    monkeypatch.setattr("core.training.collectives_setup.MOST_MESSAGES", 0)
    formula = run(**params)
    assert formula.fact("values_moved") is False
    for name in ("bytes_sent_per_rank", "bytes_sent_total", "hops", "rounds", "time", "algorithm_bandwidth", "bus_bandwidth"):
        assert formula.fact(name) == pytest.approx(counted.fact(name), rel=1e-12), name


def test_one_rank_has_nothing_to_send_and_no_bandwidth():
    for op, algorithm in PAIRS:
        rec = run(op=op, algorithm=algorithm, ranks=1, elements=4)
        assert (rec.fact("hops"), rec.fact("bytes_sent_per_rank"), rec.fact("time")) == (0, 0, 0.0)
        assert rec.fact("bus_bandwidth") is None
        assert not failed(rec)


def test_more_ranks_than_elements_leave_some_chunks_empty():
    rec = run(ranks=5, elements=2)
    assert not failed(rec)
    assert rec.fact("hops") == 2 * 2 * 4
    assert rec.fact("finished_chunks") == 25
    assert panel(rec, "First value").at(0).cells[0, 4].text == "–"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"op": "all_to_all"}, "there is no ring all_to_all; allowed: for all_to_all: direct"),
        ({"op": "all_gather", "algorithm": "tree"}, "tree exists for all_reduce, broadcast, reduce"),
        ({"op": "broadcast", "algorithm": "recursive_doubling"}, "ring, tree, direct"),
        ({"op": "gather"}, "all_reduce, reduce_scatter"),
        ({"ranks": 0}, "ranks"),
        ({"ranks": 10**8}, "ranks"),
        ({"elements": 0}, "elements"),
        ({"ranks": 6, "node_size": 4}, "such as 4 or 8"),
        ({"link": "nvlink_h10"}, "nvlink_h100"),
        ({"inter_link": "infiniband"}, "collectives.inter_link"),
        ({"dtype": "fp8"}, "fp64, fp32"),
    ],
)
def test_input_that_cannot_be_used_is_refused_in_one_line(params, said):
    with pytest.raises(BadInput) as error:
        run(**params)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_every_phase_and_pair_has_its_words():
    for op, algorithm in PAIRS:
        schedule = build(op, algorithm, 7)
        assert all((algorithm, phase.name) in hop_text.ROUND for phase in schedule.phases)
        assert schedule.settled in (0, len(schedule.phases)) or schedule.phases[schedule.settled - 1].name in hop_text.HALFWAY
    assert set(hop_text.START) == set(hop_text.DONE) == set(OPS)
