"""The layer over ranks equals the layer on one device, whatever is copied where; broken on purpose, its checks turn red."""

import itertools
import random

import numpy as np
import pytest
import torch
from one_rank_fabric import Network, Silent
from recorded import failed

from core.errors import BadInput
from core.hardware import ACCELERATORS
from core.moe.routers import expert_capacity, route, seat
from core.recording import Recorder, Recording, first_difference
from core.simulation import parse
from core.training import expert_parallel as module
from core.training import expert_parallel_routing as routing
from core.training.expert_parallel import Layer, expert_parallel
from core.training.expert_parallel_setup import Job, distinct_deviation, expected_distinct

SMALL = {"tokens": 96, "experts": 16, "top_k": 3, "hidden": 64, "ffn": 32, "ranks": 4}
OUTPUT = ["output, largest difference", "output of a sample, largest difference"]


def run(seed=0, **params):
    rec = Recording("expert_parallel", seed=seed)
    expert_parallel.run(parse(expert_parallel.params, {**SMALL, **params}), Recorder(rec))
    rec.state = "finished"
    return rec


# equal to one device -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("copies", "skew", "more"),
    itertools.product(
        ("expert", "rank", "node"),
        (0.0, 1.5),
        ({}, {"node_size": 2}, {"node_size": 2, "node_limit": 1}, {"capacity_factor": 1.0}, {"capacity_factor": 0.5, "capacity": "rank"}),
    ),
)
def test_output_equals_the_layer_on_one_device(copies, skew, more):
    rec = run(copies=copies, skew=skew, **more)
    assert not failed(rec)
    assert set(OUTPUT) <= {check.name for check in rec.checks}


@pytest.mark.parametrize("copies", ["expert", "rank", "node"])
@pytest.mark.parametrize(("ranks", "tokens", "node_size"), [(1, 5, 8), (2, 7, 1), (8, 3, 4), (16, 100, 4)])
def test_tokens_that_ranks_do_not_divide_and_ranks_without_tokens_work(copies, ranks, tokens, node_size):
    assert not failed(run(copies=copies, ranks=ranks, tokens=tokens, node_size=node_size))


@pytest.mark.parametrize("copies", ["expert", "rank", "node"])
def test_a_rank_that_gets_no_token_takes_part_all_the_same(copies):
    rec = run(copies=copies, skew=60, top_k=1, node_size=2)  # every token chooses expert 0
    assert not failed(rec)
    titles = [rec.title(i) for i in range(len(rec))]
    assert sum("gets no token: its experts have nothing to do" in title for title in titles) == 3
    assert rec.fact("max_over_mean_load") == 4
    assert rec.fact("distinct_ranks_per_token") == 1


def test_fp8_dispatch_rounds_what_travels_and_nothing_else():
    rec = run(dispatch_format="fp8")
    assert not failed(rec)
    x = torch.randn(5, 300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rounded = module.as_sent(x, "fp8")
    assert 0 < float((rounded - x).abs().max() / x.abs().max()) < 2**-4
    assert module.as_sent(x, "bf16") is x


@pytest.mark.parametrize("copies", ["expert", "rank", "node"])
@pytest.mark.parametrize("capacity", ["global", "rank"])
def test_a_rank_needs_no_other_rank_in_its_process(copies, capacity):
    params = {**SMALL, "copies": copies, "capacity": capacity, "capacity_factor": 1.0, "skew": 0.5, "node_size": 2}
    job = Job.of(parse(expert_parallel.params, params))
    whole = Layer(job, Recorder(Recording("expert_parallel")))
    want = whole.forward()

    def program(fabric):
        alone = Layer(job, Recorder(Recording("expert_parallel")))
        alone.fabric, alone.story = fabric, Silent()
        alone.tokens = alone.local(alone.whole)
        out = alone.forward()
        assert set(out) == {fabric.rank}
        return float((out[fabric.rank] - want[fabric.rank]).abs().max())

    assert max(Network(4).run(program)) < 1e-12


# routing -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("experts", "top_k", "parts", "want"), [(256, 8, 8, 5.295), (256, 8, 32, 7.27), (8, 2, 1, 1.0), (4, 4, 4, 4.0)])
def test_expected_distinct_ranks_are_the_published_ones(experts, top_k, parts, want):
    assert expected_distinct(experts, top_k, parts) == pytest.approx(want, abs=0.005)
    assert run(experts=experts, top_k=top_k, ranks=parts).fact("distinct_ranks_per_token[expected]") == pytest.approx(want, abs=0.005)


def test_expected_distinct_ranks_equal_counting_all_subsets():
    subsets = list(itertools.combinations(range(12), 4))
    distinct = np.array([len({expert // 3 for expert in subset}) for subset in subsets])
    assert expected_distinct(12, 4, 4) == pytest.approx(distinct.mean())
    assert distinct_deviation(12, 4, 4) == pytest.approx(distinct.std())


def test_measured_distinct_ranks_come_close_to_it():
    rec = run(tokens=8192, experts=256, top_k=8, ranks=8)
    assert rec.fact("distinct_ranks_per_token") == pytest.approx(5.295, abs=0.05)
    assert "distinct ranks of a token, mean" in [check.name for check in rec.checks]


def test_without_skew_every_expert_is_as_likely_and_with_it_the_weights_are_those_said():
    generator = torch.Generator().manual_seed(1)
    first = routing.skewed_logits(40_000, 4, 0.0, generator).argmax(1)
    assert torch.bincount(first).tolist() == pytest.approx([10_000] * 4, rel=0.05)
    skewed = routing.skewed_logits(40_000, 4, 1.0, generator).argmax(1)
    weights = np.array([1, 1 / 2, 1 / 3, 1 / 4])
    assert torch.bincount(skewed).tolist() == pytest.approx((40_000 * weights / weights.sum()).tolist(), rel=0.05)


def test_a_token_goes_to_the_nodes_whose_best_experts_suit_it_most():
    draw = random.Random(4)
    logits = torch.tensor([[draw.gauss(0, 1) for _ in range(16)] for _ in range(50)], dtype=torch.float64)
    limited = routing.node_limited(logits, 4, nodes=4, limit=2)
    for row, kept in zip(torch.softmax(logits, 1).tolist(), limited.tolist(), strict=True):
        scores = [sum(sorted(row[4 * node : 4 * node + 4])[-2:]) for node in range(4)]
        best = sorted(range(4), key=lambda node: -scores[node])[:2]
        assert [value > -np.inf for value in kept] == [expert // 4 in best for expert in range(16)]
    assert torch.equal(routing.node_limited(logits, 4, nodes=4, limit=0), logits)


def test_no_token_goes_to_more_nodes_than_the_limit():
    rec = run(ranks=8, node_size=2, node_limit=2, tokens=500, top_k=4)
    assert not failed(rec)
    assert rec.fact("distinct_nodes_per_token") <= 2
    assert run(ranks=8, node_size=2, tokens=500, top_k=4).fact("distinct_nodes_per_token") > 2


def test_seats_counted_over_all_ranks_equal_seating_all_tokens_at_once():
    logits = routing.skewed_logits(60, 8, 0.7, torch.Generator().manual_seed(2))
    whole = route("mixtral", logits, 3)
    want = seat(whole, expert_capacity(0.8, 60, 3, 8), "choice").kept
    parts = {rank: route("mixtral", part, 3) for rank, part in enumerate(torch.split(logits, [25, 20, 15]))}
    fabric = module.SimulatedFabric(3)
    kept = routing.seats_for_all(fabric, parts, 0.8, 60)
    assert torch.equal(torch.cat([kept[rank] for rank in range(3)]), want)
    assert not want.all()


def test_seats_of_each_rank_drop_at_least_as_much_as_seats_for_all():
    for skew, seed in itertools.product((0.0, 0.5, 1.0), range(3)):
        dropped = [
            run(seed, tokens=128, skew=skew, capacity_factor=1.0, capacity=capacity).fact("dropped_tokens")
            for capacity in ("global", "rank")
        ]
        assert 0 < dropped[0] <= dropped[1]


# bytes ---------------------------------------------------------------------------------------------------------------------


def test_bytes_of_a_token_are_those_of_deepseek_v3():
    rec = run(ranks=32, node_size=4, experts=256, top_k=8, hidden=7168, ffn=2048, dispatch_format="fp8", node_limit=4, copies="node")
    assert rec.fact("bytes_per_copy[dispatch]") == 7168 + 224
    assert rec.fact("bytes_per_copy[combine]") == 14336
    assert rec.fact("bytes_per_token") == 173_824
    assert rec.fact("bytes_per_token[between_nodes]") == 86_912
    between = rec.fact("dispatch_bytes[between_nodes]") + rec.fact("combine_bytes[between_nodes]")
    assert between <= SMALL["tokens"] * 86_912


def test_bytes_of_a_token_are_those_of_mixtral():
    rec = run(experts=8, top_k=2, ranks=8, hidden=4096, ffn=14336)
    assert rec.fact("bytes_per_token") == 32_768


def test_every_copy_saved_is_a_rank_that_a_token_needs_once():
    sizes = {"ranks": 8, "tokens": 4000, "experts": 64, "top_k": 8}
    plain, once = run(**sizes), run(**sizes, copies="rank")
    copy = plain.fact("bytes_per_copy[dispatch]")
    assert plain.fact("dispatch_bytes") == pytest.approx(4000 * 8 * copy * 7 / 8, rel=0.02)
    assert once.fact("dispatch_bytes") == pytest.approx(4000 * once.fact("distinct_ranks_per_token") * copy * 7 / 8, rel=0.02)
    assert plain.fact("combine_bytes") == plain.fact("dispatch_bytes")
    assert plain.fact("bytes_with_backward") == 4 * plain.fact("dispatch_bytes")


def test_passing_on_inside_the_node_saves_the_links_between_nodes():
    sizes = {"ranks": 16, "node_size": 4, "tokens": 1000, "experts": 64, "top_k": 8}
    direct, passed = (run(**sizes, copies=copies) for copies in ("rank", "node"))
    assert passed.fact("dispatch_bytes[between_nodes]") < 0.6 * direct.fact("dispatch_bytes[between_nodes]")
    assert passed.fact("dispatch_bytes") > direct.fact("dispatch_bytes")
    assert passed.fact("dispatch_time") < direct.fact("dispatch_time")


# time and what is shown ----------------------------------------------------------------------------------------------------


def test_the_hottest_rank_sets_the_length_of_both_all_to_alls():
    even, skewed = (run(tokens=4000, hidden=7168, ffn=2048, skew=skew) for skew in (0.0, 1.0))
    ratio = skewed.fact("max_over_mean_load")
    assert ratio > 1.5
    assert skewed.fact("dispatch_time") / even.fact("dispatch_time") == pytest.approx(ratio, rel=0.15)
    assert skewed.fact("combine_time") / even.fact("combine_time") == pytest.approx(ratio, rel=0.15)
    step = next(i for i in range(len(skewed)) if "is the hottest" in skewed.title(i))
    assert skewed.values(step)["rank"] == 0
    column = [skewed.panels[0].view.at(step).cells[source, 0] for source in range(1, 4)]
    assert all(cell.role == "bad" for cell in column)
    assert sum(cell.value for cell in column) == skewed.values(step)["received"] == skewed.fact("dispatch_bytes[hottest]")


def test_both_all_to_alls_open_hop_by_hop_with_the_times_they_had():
    rec = run(tokens=400)
    lanes = rec.panels[4].view
    spans = [lanes.get(i) for i in range(len(lanes))]
    for text in ("A2A0", "A2A1"):
        mine = [span for span in spans if span.text == text]
        child = lanes.child(mine[0].index)
        assert child is not None and not failed(child)
        assert max(child.time(i) or 0.0 for i in range(len(child))) <= max(span.end for span in mine) * (1 + 1e-9)
        assert child.fact("time") == pytest.approx(max(span.end for span in mine) - min(span.start for span in mine), rel=1e-6)


def test_experts_take_the_longer_of_their_arithmetic_and_their_weights():
    few, many = (run(ranks=1, tokens=tokens, hidden=2048, ffn=1024, experts=16, top_k=2) for tokens in (16, 65536))
    h100 = ACCELERATORS["h100"]
    matrix = 2048 * 1024
    assert many.fact("expert_time") == pytest.approx(6 * 2 * 65536 * matrix / h100.flops["bf16"])
    weights, rows = 3 * matrix * 16 * 2, 32 * (2 * 2048 + 3 * 1024) * 2
    assert few.fact("expert_time") == pytest.approx((weights + rows) / h100.bandwidth, rel=0.2)


def test_bytes_between_ranks_on_screen_add_up_to_the_fact():
    rec = run()
    step = next(i for i in range(len(rec)) if rec.title(i).startswith("All-to-all: a copy"))
    messages = rec.panels[2].view.at(step).messages
    assert sum(message.size for message in messages) == rec.fact("dispatch_bytes")
    at = next(i for i in range(len(rec)) if "is the hottest" in rec.title(i))
    grid = rec.panels[0].view.at(at).cells
    assert {(m.source, m.target): m.size for m in messages} == {key: cell.value for key, cell in grid.items() if cell.value}


def test_two_levels_of_links_cost_what_they_are():
    inside = run(ranks=4, node_size=4, tokens=2000, hidden=4096)
    across = run(ranks=4, node_size=2, tokens=2000, hidden=4096)
    assert inside.fact("dispatch_bytes") == across.fact("dispatch_bytes")
    assert across.fact("dispatch_time") > 3 * inside.fact("dispatch_time")


@pytest.mark.parametrize("ranks", [1, 2, 8, 16])
@pytest.mark.parametrize("copies", ["expert", "node"])
def test_steps_follow_time_and_say_numbers_instead_of_fields(ranks, copies):
    rec = run(ranks=ranks, copies=copies, node_size=2 if ranks > 1 else 1, capacity_factor=1.0)
    times = [rec.time(i) for i in range(len(rec))]
    assert times == sorted(times)
    assert not any("{" in rec.title(i) + rec.detail(i) for i in range(len(rec)))
    assert all(rec.title(i) and rec.detail(i) and "nan" not in rec.detail(i).split() for i in range(len(rec)))


def test_one_rank_sends_nothing():
    rec = run(ranks=1)
    assert rec.fact("dispatch_bytes") == rec.fact("combine_bytes") == rec.fact("dispatch_time") == 0
    assert rec.fact("max_over_mean_load") == rec.fact("distinct_ranks_per_token") == 1


def test_the_same_seed_records_the_same():
    assert first_difference(run(), run()) is None
    assert run().fact("dispatch_bytes") != run(seed=1).fact("dispatch_bytes")


# broken on purpose ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", ["expert", "rank", "node"])
def test_chunks_sent_to_the_wrong_rank_are_caught(monkeypatch, copies):
    honest = module.SimulatedFabric.all_to_all
    monkeypatch.setattr(
        module.SimulatedFabric,
        "all_to_all",
        lambda self, chunks, **more: honest(self, {(r + 1) % self.size: c for r, c in chunks.items()}, **more),
    )
    try:
        wrong = failed(run(copies=copies))
    except (RuntimeError, IndexError, ValueError):  # a rank that has not the expert asked for
        return
    assert OUTPUT[0] in wrong


def test_gates_that_are_forgotten_are_caught(monkeypatch):
    honest = module.sparse_forward
    monkeypatch.setattr(module, "sparse_forward", lambda x, e, gates, *rest, **more: honest(x, e, torch.ones_like(gates), *rest, **more))
    assert set(OUTPUT) <= set(failed(run()))


def test_outputs_put_back_instead_of_added_up_are_caught(monkeypatch):
    def put(self, dim, index, source):
        self[index] = source
        return self

    monkeypatch.setattr(torch.Tensor, "index_add_", put)
    rec = Recording("expert_parallel")
    job = Job.of(parse(expert_parallel.params, SMALL))
    layer = Layer(job, Recorder(rec))
    out = layer.forward()
    monkeypatch.undo()
    module.checks.against_one_device(Recorder(rec), layer, out)
    assert set(OUTPUT) <= set(failed(rec))


def test_a_token_sent_once_but_used_by_one_expert_only_is_caught(monkeypatch):
    honest = routing.one_per_target

    def first_only(rows, target, ranks):
        sent = honest(rows, target, ranks)
        keep = (sent.rows.experts >= 0).int().cumsum(1) == 1
        return sent._replace(rows=sent.rows._replace(experts=torch.where(keep, sent.rows.experts, -1)))

    monkeypatch.setattr(module, "one_per_target", first_only)
    wrong = failed(run(copies="rank"))
    assert OUTPUT[0] in wrong
    assert "rows computed by the wrong rank or not at all" in wrong


def test_a_token_sent_twice_to_a_rank_is_caught(monkeypatch):
    monkeypatch.setattr(module, "one_per_target", routing.one_per_expert)
    wrong = failed(run(copies="rank"))
    assert "dispatch bytes" in wrong and "combine bytes" in wrong
    assert OUTPUT[0] not in wrong


def test_a_rank_that_does_not_know_the_others_counts_is_caught(monkeypatch):
    monkeypatch.setattr(
        module, "seats_for_all", lambda fabric, r, factor, tokens: {k: routing.seats_of_rank(v, factor) for k, v in r.items()}
    )
    assert "choices kept or dropped otherwise" in failed(run(capacity_factor=1.0, skew=0.5))


def test_a_router_that_ignores_the_node_limit_is_caught(monkeypatch):
    monkeypatch.setattr(module, "node_limited", lambda logits, *rest: logits)
    assert "most nodes of a token" in failed(run(ranks=8, node_size=2, node_limit=1, tokens=400, experts=32))


def test_an_uneven_router_called_uniform_is_caught(monkeypatch):
    monkeypatch.setattr(module, "skewed_logits", lambda t, e, skew, generator: routing.skewed_logits(t, e, 1.0, generator))
    assert "distinct ranks of a token, mean" in failed(run(tokens=4000))


# input ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"experts": 18}, "a multiple of 4, nearest 16 and 20"),
        ({"experts": 3, "top_k": 1}, "a multiple of 4, nearest 4"),
        ({"top_k": 17}, "from 1 to 16"),
        ({"top_k": 65, "experts": 128}, "from 1 to 64"),
        ({"ranks": 8, "node_size": 3}, "a divisor of 8, nearest 2 and 4"),
        ({"ranks": 8, "node_size": 2, "node_limit": 5}, "from 0 to 4"),
        ({"ranks": 8, "node_size": 1, "node_limit": 1}, "at least 2, or 0"),
        ({"ranks": 10**6}, "from 1 to 64"),
        ({"ranks": 0}, "from 1 to 64"),
        ({"tokens": 2**20, "top_k": 8}, "up to 1,048,576 rows"),
        ({"tokens": 0}, "tokens"),
        ({"copies": "twice"}, "expert, rank, node"),
        ({"skew": -1}, "skew"),
        ({"capacity_factor": -0.5}, "capacity_factor"),
        ({"node_link": "infiniband"}, "infiniband_ndr"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_the_nearest_that_work(params, said):
    with pytest.raises(BadInput) as error:
        run(**params)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
