"""Attention over ranks equals attention on one device, under every split and method; broken on purpose, its checks turn red."""

from itertools import pairwise, product

import msgspec
import pytest
import torch
from one_rank_fabric import Network, Silent
from recorded import failed

from core.attention import online_softmax
from core.errors import BadInput
from core.fabric import ring
from core.hardware import LINKS
from core.recording import Recorder, Recording, first_difference
from core.simulation import parse
from core.training import context_parallel as module
from core.training import context_parallel_checks as checks
from core.training import context_parallel_ring as ring_module
from core.training import context_parallel_splits as splits
from core.training import context_parallel_ulysses as ulysses_module
from core.training.context_parallel import Run, context_parallel
from core.training.context_parallel_setup import Job

SMALL = {"sequence": 48, "heads": 4, "kv_heads": 2, "head_dim": 4}
SPLITS = ("contiguous", "zigzag", "striped")
METHODS = ("ring", "all_gather", "ulysses")


def run(seed=0, **params):
    rec = Recording("context_parallel", seed=seed)
    context_parallel.run(parse(context_parallel.params, {**SMALL, **params}), Recorder(rec))
    rec.state = "finished"
    return rec


# equal to one device -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("split", "method", "causal"), product(SPLITS, METHODS, (True, False)))
def test_output_and_gradients_equal_attention_on_the_whole_sequence(split, method, causal):
    rec = run(ranks=2, split=split, method=method, causal=causal, batch=2)
    assert not failed(rec)
    assert {"output, largest difference", "dq, largest difference", "dk, largest difference", "dv, largest difference"} <= {
        check.name for check in rec.checks
    }
    assert rec.fact("max_error") < 1e-12


@pytest.mark.parametrize(("ranks", "split", "method"), product((1, 3, 4, 8), SPLITS, METHODS))
def test_every_number_of_ranks_holds_its_checks(ranks, split, method):
    rec = run(ranks=ranks, split=split, method=method, heads=2 * ranks, kv_heads=ranks)
    assert not failed(rec)


@pytest.mark.parametrize("kv_heads", [1, 2, 4, 0])
@pytest.mark.parametrize("rope", ["global", "off"])
def test_grouped_keys_and_values_and_rope_change_nothing_about_it(kv_heads, rope):
    assert not failed(run(ranks=4, split="zigzag", kv_heads=kv_heads, rope=rope))


@pytest.mark.parametrize(("split", "method"), product(SPLITS, METHODS))
def test_positions_counted_from_zero_on_every_rank_are_visibly_wrong(split, method):
    rec = run(ranks=2, split=split, method=method, rope="local")
    assert not failed(rec)
    assert rec.fact("max_error") > 1e-3


@pytest.mark.parametrize(("method", "split", "causal"), product(METHODS, SPLITS, (True, False)))
def test_chunks_of_a_single_token_work(method, split, causal):
    rec = run(ranks=4, sequence=8 if split == "zigzag" else 4, method=method, split=split, causal=causal, kv_heads=4)
    assert not failed(rec)


def test_many_ranks_get_one_step_a_hop_and_the_same_answer():
    rec = run(ranks=16, sequence=64, split="contiguous")
    assert not failed(rec)
    assert "16 ranks" not in rec.title(0)
    assert any(rec.title(i) == "Hop 3: 13 ranks compute, 3 have nothing left to do" for i in range(len(rec)))


def test_online_softmax_gives_softmax_even_where_the_first_tiles_are_masked():
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(2, 6, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    state = online_softmax.SoftmaxState.of(q)
    for columns in (slice(4, 6), slice(2, 4), slice(0, 2)):  # the last keys first: most rows see nothing at the start
        online_softmax.update(state, q, k[:, columns], v[:, columns], mask[:, columns])
    out, lse = online_softmax.finish(state)
    scores = (q @ k.transpose(-1, -2) / 2).masked_fill(~mask, -torch.inf)
    assert torch.allclose(out, torch.softmax(scores, -1) @ v, atol=1e-14)
    assert torch.allclose(lse, torch.logsumexp(scores, -1), atol=1e-14)


@pytest.mark.parametrize(("method", "split"), product(METHODS, SPLITS))
def test_a_rank_needs_no_other_rank_in_its_process(method, split):
    params = parse(context_parallel.params, {**SMALL, "ranks": 4, "kv_heads": 4, "method": method, "split": split})
    job = Job.of(params)
    whole = checks.Whole.draw(job, torch.Generator().manual_seed(1), "cpu")

    def program(fabric):
        alone = object.__new__(Run)
        alone.job, alone.fabric, alone.device, alone.story, alone.views = job, fabric, "cpu", Silent(), Silent()
        alone.work, alone.busy, alone.counted, alone.miscounted = ({fabric.rank: 0} for _ in range(4))
        alone.miscounted = 0
        attention = module.METHODS[method](alone)
        out = attention.forward(alone.rotated(alone.local(whole.q)), alone.rotated_keys(alone.local(whole.kv)))
        grad_q, grad_kv = attention.backward(alone.local(whole.grad_out))
        got = (out, alone.rotated(grad_q, back=True), alone.rotated_keys(grad_kv, back=True))
        want = [alone.local(tensor) for tensor in (whole.out, whole.grad_q, whole.grad_kv)]
        assert set(out) == {fabric.rank}
        return max(checks._distance(one, other) for one, other in zip(got, want, strict=True))

    assert max(Network(4).run(program)) < 1e-12


# work ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("split", "ranks", "causal"), product(SPLITS, (1, 2, 3, 4), (True, False)))
def test_closed_form_of_unmasked_elements_equals_counting_them(split, ranks, causal):
    sequence = 24
    for rank, source in product(range(ranks), repeat=2):
        for queries, keys in product(splits.chunks(split, sequence, ranks, rank), splits.chunks(split, sequence, ranks, source)):
            positions = [range(c.first, c.last + 1, c.step) for c in (queries, keys)]
            counted = sum(not causal or key <= query for query, key in product(*positions))
            assert splits.unmasked(queries, keys, causal=causal) == counted
            halves = sum(key == query for query, key in product(*positions)) / 2 if causal else 0
            assert splits.work(queries, keys, causal=causal) == counted - halves


@pytest.mark.parametrize("split", SPLITS)
def test_chunks_share_out_every_position_once(split):
    held = [range(c.first, c.last + 1, c.step) for rank in range(4) for c in splits.chunks(split, 48, 4, rank)]
    assert sorted(position for part in held for position in part) == list(range(48))


@pytest.mark.parametrize(("ranks", "sequence"), [(2, 32), (4, 1024), (8, 4096), (4, 32768)])
def test_imbalance_is_two_minus_one_over_p_contiguous_and_exactly_one_zigzag(ranks, sequence):
    assert run(ranks=ranks, sequence=sequence, split="contiguous").fact("imbalance") == 2 - 1 / ranks
    assert run(ranks=ranks, sequence=sequence, split="zigzag").fact("imbalance") == 1
    assert run(ranks=ranks, sequence=sequence, split="striped").fact("imbalance") == pytest.approx(1 + (ranks - 1) / sequence, abs=1e-12)


def test_striped_imbalance_is_the_published_one():
    rec = run(ranks=4, sequence=1024, split="striped")
    assert round(rec.fact("imbalance"), 3) == 1.003
    work = [rec.fact(f"work_per_rank[{rank}]") for rank in range(4)]
    assert work == sorted(work) and sum(work) == 4 * 1024**2 / 2
    assert rec.fact("work_per_rank") == work[3]


def test_without_a_mask_every_split_is_balanced():
    assert all(run(split=split, causal=False).fact("imbalance") == 1 for split in SPLITS)


# bytes and time --------------------------------------------------------------------------------------------------------------


def test_the_three_methods_send_what_their_formulas_say():
    sizes = {"ranks": 4, "sequence": 1024, "heads": 8, "kv_heads": 8, "head_dim": 16}
    whole = 1024 * 8 * 16  # N h
    ring_run, gather, ulysses = (run(method=method, **sizes) for method in METHODS)
    assert ring_run.fact("comm_elements_per_rank[forward]") == 3 / 4 * 2 * whole
    assert ring_run.fact("comm_bytes_per_rank[forward]") == gather.fact("comm_bytes_per_rank[forward]") == 3 / 4 * 2 * whole * 2
    assert ring_run.fact("comm_bytes_per_rank") == 3 * ring_run.fact("comm_bytes_per_rank[forward]")  # K, V, then K, V, dK, dV
    assert gather.fact("comm_bytes_per_rank") == 2 * gather.fact("comm_bytes_per_rank[forward]")
    assert ulysses.fact("comm_elements_per_rank[forward]") == 4 * whole / 4
    assert ulysses.fact("comm_bytes_per_rank[forward]") == 3 / 4 * 4 * whole / 4 * 2
    assert gather.fact("kv_bytes_held") == 2 * whole * 2
    assert ring_run.fact("kv_bytes_held") == 2 * whole * 2 * 3 / 4  # its own, the one in use, the one arriving


@pytest.mark.parametrize(
    ("params", "tokens"), [({"causal": False}, 1040), ({"split": "zigzag"}, 2080), ({"split": "zigzag", "kv_heads": 8}, 520)]
)
def test_minimum_block_is_the_published_one(params, tokens):
    rec = run(**{"sequence": 4096, "heads": 32, "kv_heads": 0, "head_dim": 128, "accelerator": "a100", "link": "nvlink_a100", **params})
    assert rec.fact("minimum_block") == pytest.approx(tokens)


@pytest.mark.parametrize("params", [{"causal": False}, {"split": "zigzag"}, {"split": "striped"}, {"split": "zigzag", "kv_heads": 8}])
def test_blocks_above_the_minimum_hide_the_forward_messages_and_shorter_ones_do_not(monkeypatch, params):
    without_latency = msgspec.structs.replace(LINKS["nvlink_a100"], latency=0.0)  # the published condition has none
    monkeypatch.setitem(LINKS, "nvlink_a100", without_latency)
    sizes = {"ranks": 4, "heads": 32, "kv_heads": 0, "head_dim": 128, **params}
    need = run(**sizes, sequence=4096).fact("minimum_block")
    longer, shorter = (8 * round(factor * need * 4 / 8) for factor in (1.03, 0.97))
    assert run(**sizes, sequence=longer).fact("exposed_comm_time[forward]") == pytest.approx(0, abs=1e-12)
    assert run(**sizes, sequence=shorter).fact("exposed_comm_time[forward]") > 1e-7


def test_zigzag_takes_as_much_less_time_as_it_is_better_balanced():
    sizes = {"ranks": 4, "sequence": 2**20, "heads": 32, "kv_heads": 8, "head_dim": 128}
    contiguous, zigzag = (run(**sizes, split=split) for split in ("contiguous", "zigzag"))
    assert contiguous.fact("forward_time") / zigzag.fact("forward_time") == pytest.approx(1.75, rel=1e-3)
    assert contiguous.fact("idle_fraction") == pytest.approx(1 - 1 / 1.75, rel=1e-2)
    assert zigzag.fact("idle_fraction") < 0.01


def test_one_rank_sends_nothing_and_waits_for_nothing():
    for method in METHODS:
        rec = run(ranks=1, method=method)
        assert rec.fact("comm_bytes_per_rank") == rec.fact("exposed_comm_time") == 0
        assert rec.fact("imbalance") == 1


# what is shown -----------------------------------------------------------------------------------------------------------


def test_early_ranks_have_nothing_left_to_do_from_the_first_hop_on():
    rec = run(ranks=4, split="contiguous")
    idle = [(rec.values(i)["hop"], rec.values(i)["rank"]) for i in range(len(rec)) if "nothing left to do: K" in rec.title(i)]
    assert idle == [(hop, rank) for hop in range(4) for rank in range(hop)]
    tiles = rec.panels[0].view.at(len(rec)).cells
    assert [[tiles[rank, hop].role for hop in range(4)] for rank in range(4)] == [
        ["forward"] * (rank + 1) + ["idle"] * (3 - rank) for rank in range(4)
    ]
    assert [[tiles[rank, hop].value for hop in range(4)] for rank in range(4)] == [
        [0.5] + [1.0] * rank + [0.0] * (3 - rank) for rank in range(4)
    ]


@pytest.mark.parametrize("split", ["zigzag", "striped"])
def test_balanced_splits_have_work_for_every_rank_on_every_hop(split):
    rec = run(ranks=4, split=split, sequence=1024)
    tiles = rec.panels[0].view.at(len(rec)).cells
    assert len(tiles) == 4 * 8
    assert all(cell.value == pytest.approx(0.5, abs=0.002) for cell in tiles.values())


def test_the_next_block_travels_while_this_one_is_computed_and_lanes_hold_one_thing_at_a_time():
    rec = run(ranks=4, split="zigzag", sequence=32768)
    lanes = rec.panels[4].view
    spans = [lanes.get(i) for i in range(len(lanes))]
    first, sent = (next(s for s in spans if s.lane == lane) for lane in (0, 1))
    assert (first.text, sent.text) == ("K0", "S0")
    assert first.start == sent.start == 0 < sent.end < first.end
    for lane in range(len(lanes.lanes)):
        mine = sorted((s.start, s.end) for s in spans if s.lane == lane)
        assert all(one[1] <= other[0] + 1e-15 for one, other in pairwise(mine))


@pytest.mark.parametrize(("method", "name"), [("all_gather", "AG0"), ("ulysses", "A2A0")])
def test_a_collective_opens_hop_by_hop(method, name):
    rec = run(ranks=4, kv_heads=4, method=method)
    lanes = rec.panels[4].view
    opened = [lanes.child(i) for i in range(len(lanes)) if lanes.get(i).text == name]
    assert len(opened) >= 4 and all(child is not None and child.state == "finished" for child in opened)
    assert not failed(opened[0])


def test_bytes_on_a_rank_follow_the_blocks_it_has():
    rec = run(ranks=4, split="zigzag")
    bars = rec.panels[3].view
    at = {name: number for number, (name, _) in enumerate(bars.parts)}
    block = 2 * 48 / 4 * 2 * 4 * 2  # K and V, tokens, heads, numbers, BF16
    others = [bars.at(i).cells.get((0, at["others' K, V"])) for i in range(len(rec))]
    assert max(cell.value for cell in others if cell) == 2 * block
    assert others[-1].value == 0
    assert bars.at(len(rec)).cells[0, at["own K, V"]].value == block


@pytest.mark.parametrize(("method", "ranks"), product(METHODS, (1, 2, 12)))
def test_steps_follow_time_and_say_numbers_instead_of_fields(method, ranks):
    rec = run(method=method, ranks=ranks, heads=12, kv_heads=12)
    times = [rec.time(i) for i in range(len(rec))]
    assert times == sorted(times)
    assert not any("{" in rec.title(i) + rec.detail(i) for i in range(len(rec)))
    assert all(rec.title(i) and rec.detail(i) for i in range(len(rec)))


def test_the_same_seed_records_the_same_and_another_seed_does_not():
    assert first_difference(run(), run()) is None
    assert run().fact("max_error") != run(seed=1).fact("max_error")


# broken on purpose ---------------------------------------------------------------------------------------------------------

OUTPUT = "output, largest difference"
GRADIENTS = ["dq, largest difference", "dk, largest difference", "dv, largest difference"]


def test_a_block_sent_the_wrong_way_round_the_ring_is_caught(monkeypatch):
    monkeypatch.setattr(ring_module.ring, "next_rank", ring.previous_rank)
    with pytest.raises(RuntimeError, match="never sent"):
        run(ranks=4)


def test_a_block_that_is_taken_for_another_is_caught(monkeypatch):
    monkeypatch.setattr(ring_module.Ring, "source", lambda self, rank, hop: (rank + hop) % self.fabric.size)
    assert OUTPUT in failed(run(ranks=4, split="zigzag"))


def test_an_old_output_that_is_not_scaled_down_is_caught(monkeypatch):
    honest = online_softmax.update

    def unscaled(state, q, k, v, mask=None):
        before = state.o.clone()
        maximum = state.m.clone()
        honest(state, q, k, v, mask)
        shrink = torch.exp(maximum - state.m).nan_to_num(nan=0.0).unsqueeze(-1)
        state.o.add_(before * (1 - shrink))

    monkeypatch.setattr(module, "update", unscaled)
    assert OUTPUT in failed(run(ranks=4))


def test_gradients_that_do_not_come_home_are_caught(monkeypatch):
    honest = ring_module.Ring.send_after
    monkeypatch.setattr(
        ring_module.Ring, "send_after", lambda self, grad, hop: {} if hop == self.fabric.size - 1 else honest(self, grad, hop)
    )
    wrong = failed(run(ranks=4))
    assert {"dk, largest difference", "dv, largest difference"} <= set(wrong)
    assert "dq, largest difference" not in wrong
    assert "bytes on the wire of the rank that sent most" in wrong


def test_averaged_instead_of_summed_gradients_are_caught(monkeypatch):
    honest = module.SimulatedFabric.reduce_scatter
    monkeypatch.setattr(
        module.SimulatedFabric, "reduce_scatter", lambda self, tensors, op="sum", **more: honest(self, tensors, "avg", **more)
    )
    assert failed(run(ranks=4, method="all_gather")) == GRADIENTS[1:]


def test_heads_put_together_in_the_wrong_order_are_caught(monkeypatch):
    honest = ulysses_module.Ulysses.exchange
    monkeypatch.setattr(
        ulysses_module.Ulysses, "exchange", lambda self, parts, name: {r: got[::-1] for r, got in honest(self, parts, name).items()}
    )
    assert OUTPUT in failed(run(ranks=2, method="ulysses"))


def test_a_rotation_that_is_not_undone_is_caught(monkeypatch):
    honest = Run.rotated
    monkeypatch.setattr(Run, "rotated", lambda self, tensors, back=False: tensors if back else honest(self, tensors))
    assert failed(run(ranks=4)) == GRADIENTS[:2]


def test_a_mask_that_hides_the_diagonal_is_caught(monkeypatch):
    honest = Run._tiles

    def strict(self, rank, source, count=True):
        tiles = honest(self, rank, source, count=count)
        return [(rows, columns, None if mask is None else mask.tril(-1) | (torch.arange(len(mask)) == 0)) for rows, columns, mask in tiles]

    monkeypatch.setattr(Run, "_tiles", strict)
    assert OUTPUT in failed(run(ranks=4))


def test_a_tile_that_is_forgotten_is_caught(monkeypatch):
    honest = Run._tiles

    def lazy(self, rank, source, count=True):
        return [] if (rank, source) == (3, 1) else honest(self, rank, source, count=count)

    monkeypatch.setattr(Run, "_tiles", lazy)
    assert {OUTPUT, "score elements not masked, over all ranks and hops"} <= set(failed(run(ranks=4)))


# input ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"ranks": 4, "sequence": 1001}, "a multiple of 4, nearest 1,000 and 1,004"),
        ({"ranks": 4, "sequence": 1004, "split": "zigzag"}, "a multiple of 8, nearest 1,000 and 1,008"),
        ({"ranks": 3, "sequence": 1000, "split": "striped"}, "a multiple of 3, nearest 999 and 1,002"),
        ({"ranks": 8, "sequence": 4}, "a multiple of 8, nearest 8"),
        ({"ranks": 4, "method": "ulysses", "heads": 6, "kv_heads": 6}, "a multiple of 4, nearest 4 and 8"),
        ({"ranks": 4, "method": "ulysses", "heads": 8, "kv_heads": 2}, "kv_heads"),
        ({"heads": 6, "kv_heads": 4}, "a divisor of 6, nearest 3 and 6"),
        ({"head_dim": 5}, "an even number, nearest 4 and 6"),
        ({"ranks": 0}, "from 1 to 64"),
        ({"ranks": 10**6}, "from 1 to 64"),
        ({"sequence": 0}, "sequence"),
        ({"split": "zigzack"}, "contiguous, zigzag, striped"),
        ({"method": "tree"}, "ring, all_gather, ulysses"),
        ({"link": "nvlink_a10"}, "nvlink_a100"),
        ({"accelerator": "a1000"}, "a100"),
    ],
)
def test_sizes_that_the_ranks_do_not_divide_are_refused_with_the_nearest_that_work(params, said):
    with pytest.raises(BadInput) as error:
        run(**params)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_longest_sequences_are_counted_in_full_and_computed_small():
    rec = run(ranks=64, sequence=2**27, heads=128, kv_heads=64, head_dim=128, split="zigzag")
    assert not failed(rec)
    assert rec.fact("imbalance") == 1
    assert rec.fact("computed_sequence") == 1024
    assert sum(rec.fact(f"work_per_rank[{r}]") for r in range(16)) if "work_per_rank[0]" in rec.facts else True
    assert rec.fact("work_per_rank") == 2.0**54 / 2 * 128 / 64


def test_the_tensors_that_stand_for_the_full_size_keep_split_and_groups():
    full = {"ranks": 6, "sequence": 60000, "heads": 48, "kv_heads": 12, "head_dim": 128, "batch": 3}
    for method in METHODS:
        job = Job.of(parse(context_parallel.params, {**full, "method": method}))
        assert job.small.sequence % 12 == 0 and job.small.sequence < 1024
        assert job.small.heads // job.small.kv_heads == 4
        assert method != "ulysses" or job.small.kv_heads % 6 == 0
