"""fsdp2 equals PyTorch's fully_shard and unsharded training; broken on purpose, its checks turn red."""

import json
from itertools import pairwise

import pytest
import torch
from recorded import failed, runs_of
from threaded_ranks import calls_of_this_rank, run_ranks
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from core.errors import BadInput
from core.fabric import ring
from core.recording import Recorder, Recording, first_difference
from core.simulation import load, parse, record
from core.training import fsdp2 as module
from core.training import mlp
from core.training.fsdp2 import Training, train
from core.training.fsdp2_memory import Memory
from core.training.fsdp2_setup import Job
from core.training.fsdp2_shards import Group, rows_of
from core.training.fsdp2_twin import flatten
from core.training.zero_twin import make_optimizer
from core.transformer import read_config

SMALL = {"hidden": 8, "layers": 2, "batch": 4, "outputs": 5}
NAN = "NaN or infinite elements anywhere, though all that was freed became NaN"
GRADIENTS = "averaged gradients of all steps, largest error"
LEFT = "bytes of activations, gathered parameters and gradients after the last step"


run = runs_of("fsdp2", **SMALL)


def trained(**params):
    done = train(parse(load("fsdp2").params, {**SMALL, **params}), Recorder(Recording("fsdp2")))
    done.rec.recording.state = "finished"
    return done


# torch's own ---------------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.blocks = nn.ModuleList([Block(job.params.hidden) for _ in job.blocks])
        self.full = job.root is not None
        if self.full:
            self.norm = nn.LayerNorm(job.params.hidden)
            self.head = nn.Linear(job.params.hidden, job.outputs)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) if self.full else x


def ours(name):
    return name.replace("blocks.", "block ") if name.startswith("blocks.") else f"root.{name}"


def torchs(**params):
    """What fully_shard does with the same values and tokens on every rank: shapes, counts, gradients, states."""
    job = Job.of(parse(load("fsdp2").params, {**SMALL, **params}))
    p, rec = job.params, Recorder(Recording("fsdp2"))
    start = flatten({group.name: mlp.initial(group.shapes, rec.generator, "cpu", p.layers) for group in job.groups})
    batches = mlp.batches(p.ranks, p.batch, p.hidden, job.outputs, p.steps, rec.generator, "cpu")
    policy = MixedPrecisionPolicy(param_dtype=job.dtype, reduce_dtype=torch.float32)

    def body(rank):
        model = Model(job)
        model.load_state_dict({name: start[ours(name)] for name in model.state_dict()})
        for block in model.blocks:
            fully_shard(block, mp_policy=policy, reshard_after_forward=p.reshard_after_forward)
        fully_shard(model, mp_policy=policy)
        named = {ours(name): parameter for name, parameter in model.named_parameters()}
        shapes = {name: tuple(parameter.to_local().shape) for name, parameter in named.items()}
        kind = torch.optim.AdamW if p.optimizer == "adamw" else torch.optim.SGD
        optimizer = kind(named.values(), lr=module_rate(p.optimizer), foreach=False)
        gradients, counts = [], []
        for batch in batches:
            before = calls_of_this_rank()
            mlp.loss_of(model(batch.x[rank].to(job.dtype)).float(), batch.target[rank]).backward()
            made = calls_of_this_rank() - before
            counts.append([made["all_gather"], made["reduce_scatter"]])
            gradients.append({name: parameter.grad.to_local().clone() for name, parameter in named.items()})
            optimizer.step()
            optimizer.zero_grad()
        states = {name: parameter.to_local().detach().clone() for name, parameter in named.items()}
        squares = {name: optimizer.state[q]["exp_avg_sq"].to_local() for name, q in named.items() if "exp_avg_sq" in optimizer.state[q]}
        return shapes, counts, gradients, states, squares

    return run_ranks(p.ranks, body)


def module_rate(optimizer):
    return make_optimizer(optimizer, [torch.zeros(1)]).param_groups[0]["lr"]


def squares(done, group, rank):
    return {name: done.optimizers[rank].state[shard]["exp_avg_sq"] for name, shard in done.shards[group.name, rank].items()}


def joined(per_rank):
    return {name: torch.cat([values[name] for values in per_rank]) for name in per_rank[0]}


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("param_dtype", ["fp32", "bf16"])
def test_shards_counts_gradients_and_states_equal_torchs_fully_shard(optimizer, param_dtype):
    params = {"ranks": 4, "optimizer": optimizer, "param_dtype": param_dtype, "steps": 2}
    theirs, mine = torchs(**params), trained(**params)
    for rank, (shapes, counts, *_) in enumerate(theirs):
        held = {f"{group.name}.{name}": tuple(t.shape) for group in mine.job.groups for name, t in mine.shards[group.name, rank].items()}
        assert held == shapes
        assert counts == [[5, 3], [5, 3]]
    rec = mine.rec.recording
    assert (rec.fact("all_gathers"), rec.fact("reduce_scatters")) == (5, 3)
    room = 1e-5 if param_dtype == "fp32" else 2e-2  # in BF16 the second step starts from parameters that may round otherwise
    for step in range(2):
        want = joined([rank[2][step] for rank in theirs])
        assert mlp.largest_error(flatten(mine.gradients[step]), want)[0] < (1e-5 if step == 0 else room)
    masters = flatten(mine.put_together(lambda group, rank: mine.shards[group.name, rank]))
    assert mlp.largest_error(masters, joined([rank[3] for rank in theirs]))[0] < room
    if optimizer == "adamw":
        mine_too = flatten(mine.put_together(lambda group, rank: squares(mine, group, rank)))
        assert mlp.largest_error(mine_too, joined([rank[4] for rank in theirs]))[0] < room


@pytest.mark.parametrize(
    ("params", "gathers", "reduces"),
    [
        ({}, 5, 3),
        ({"root_parameters": False}, 4, 2),
        ({"reshard_after_forward": False}, 3, 3),
        ({"reshard_after_forward": False, "root_parameters": False}, 2, 2),
        ({"layers": 3}, 7, 4),
    ],
)
def test_collectives_are_counted_as_torch_counts_them(params, gathers, reduces):
    assert all(rank[1] == [[gathers, reduces]] for rank in torchs(ranks=2, steps=1, **params))
    rec = run(ranks=2, **params)
    assert (rec.fact("all_gathers"), rec.fact("reduce_scatters")) == (gathers, reduces)
    assert not failed(rec)


def test_five_rows_on_four_ranks_are_two_two_one_and_none():
    assert [rows_of(5, 4, rank).stop - rows_of(5, 4, rank).start for rank in range(4)] == [2, 2, 1, 0]
    done = trained(ranks=4)
    assert [tuple(done.shards["root", rank]["head.weight"].shape) for rank in range(4)] == [(2, 8), (2, 8), (1, 8), (0, 8)]
    rows = done.rec.recording.panels[3].view
    head = rows.rows.names.index("root head.weight")
    cells = [rows.at(0).cells[head, rank] for rank in range(4)]
    assert [cell.text for cell in cells] == ["2", "2", "1", "0"]
    assert cells[3].role == "padding"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_what_is_cut_packed_and_unpacked_is_whole_again(ranks):
    shapes = {"a": (5, 3), "b": (1,), "c": (7, 2, 2), "d": (4,)}
    group, generator = Group("x", shapes, ranks), torch.Generator().manual_seed(ranks)
    whole = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    flats = [group.pack(group.cut(whole, rank), torch.float32) for rank in range(ranks)]
    back = group.unpack(torch.cat(flats))
    assert all(torch.equal(back[name], whole[name]) for name in shapes)
    gradients = group.pack_gradients(whole, torch.float32)
    assert torch.equal(gradients, torch.cat(flats))
    views = [group.views(chunk, rank) for rank, chunk in enumerate(gradients.split(group.shard))]
    assert all(torch.equal(torch.cat([view[name] for view in views]), whole[name]) for name in shapes)


# training ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("reshard_after_forward", [True, False])
@pytest.mark.parametrize("prefetch", [True, False])
def test_every_way_to_run_holds_its_checks(ranks, reshard_after_forward, prefetch):
    shape = {"ranks": ranks, "reshard_after_forward": reshard_after_forward, "prefetch": prefetch}
    for more in ({}, {"accumulation": 3, "layers": 1}, {"param_dtype": "fp32", "hidden": 5}, {"root_parameters": False, "batch": 1}):
        assert failed(run(**shape, **more)) == []


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_after_five_steps_everything_equals_unsharded_training_exactly(optimizer):
    rec = run(steps=5, optimizer=optimizer, ranks=4)
    assert not failed(rec)
    exact = [check for check in rec.checks if check.name.endswith("largest error")]
    assert len(exact) == (5 if optimizer == "adamw" else 2)
    assert all(check.got == 0.0 for check in exact)


def test_neither_prefetch_nor_resharding_changes_the_values():
    finals = []
    for params in ({}, {"prefetch": False}, {"reshard_after_forward": False}):
        done = trained(**params)
        finals.append(flatten(done.put_together(lambda group, rank, done=done: done.shards[group.name, rank])))
    assert all(torch.equal(finals[0][name], other[name]) for other in finals[1:] for name in finals[0])


def test_training_lowers_the_loss():
    rec = run(steps=20, hidden=16, batch=32)
    losses = [rec.fact("loss", step) for step in range(len(rec))]
    assert losses[-1] < 0.7 * next(loss for loss in losses if loss is not None)


def test_the_same_seed_records_the_same_steps_and_another_does_not():
    assert first_difference(run(), run()) is None
    assert record("fsdp2", SMALL).fact("loss") != record("fsdp2", SMALL, seed=1).fact("loss")


def test_more_ranks_than_rows_leave_some_ranks_without_any_and_show_it():
    done = trained(ranks=16, root_parameters=False)
    assert done.shards["block 0", 15]["norm.weight"].shape == (0,)
    assert not failed(done.rec.recording)
    rows = done.rec.recording.panels[3].view
    assert {cell.role for cell in rows.at(0).cells.values()} == {"optimizer", "padding"}


# bytes ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ranks", "want"), [(1, 112e9), (4, 28e9), (8, 14e9)])
def test_sharded_states_are_sixteen_bytes_a_parameter_over_the_ranks(ranks, want):
    rec = record("fsdp2", {"parameters": 7e9, "ranks": ranks, "steps": 1})
    assert rec.fact("sharded_bytes") == pytest.approx(want, rel=1e-12)


def test_twice_the_ranks_halve_the_shards_and_leave_the_activations():
    four, eight = (record("fsdp2", {"ranks": ranks}) for ranks in (4, 8))
    assert eight.fact("sharded_bytes") == pytest.approx(four.fact("sharded_bytes") / 2)
    assert eight.fact("activation_bytes") == four.fact("activation_bytes") > 0
    assert eight.fact("peak_bytes") > 0.6 * four.fact("peak_bytes")


def test_live_bytes_saw_at_a_floor_of_activations_that_grows_forward_and_shrinks_backward():
    rec = run(layers=4, steps=1)
    live, floor, sharded = (list(curve.y) for curve in rec.panels[1].view.curves)
    step = next(i for i in range(len(rec)) if rec.title(i).startswith("Forward has ended"))
    assert floor[step] == max(floor) == rec.fact("activation_bytes")
    assert floor[: step + 1] == sorted(floor[: step + 1]) and floor[step:] == sorted(floor[step:], reverse=True)
    forward = live[: step + 1]
    assert sum(later < now for now, later in pairwise(forward)) >= 4, "every block's parameters go again"
    assert all(total >= low + own - 1 for total, low, own in zip(live, floor, sharded, strict=True))
    assert max(live) <= rec.fact("peak_bytes") < 1.2 * max(live), "a copy may be there with what it was copied from, between two steps"
    assert floor[-1] == 0


def test_what_is_freed_is_really_freed_though_autograd_still_refers_to_it(monkeypatch):
    honest_copy, honest_tell, gathered, seen = Training.copy_out, Training.tell, [], []

    def copy_out(self, group, work, *, defer):
        honest_copy(self, group, work, defer=defer)
        gathered.extend((group.name, tensor) for tensor in self.whole[group.name, 0].values())

    def tell(self, title, *args, **values):
        honest_tell(self, title, *args, **values)
        if title.startswith("Forward has ended"):
            seen.extend((name, tensor.untyped_storage().nbytes()) for name, tensor in gathered)
            gathered.clear()

    monkeypatch.setattr(Training, "copy_out", copy_out)
    monkeypatch.setattr(Training, "tell", tell)
    run(steps=1)
    assert {name for name, size in seen if size} == {"root"}
    assert {name for name, size in seen if not size} == {"block 0", "block 1"}


def test_a_storage_that_autograd_saves_twice_counts_once_until_both_are_gone():
    memory, x = Memory(1), torch.ones(10, requires_grad=True)
    weight = torch.ones(10, requires_grad=True)
    with memory.saving(0, {"weight": weight}, lambda name: weight):
        square = x * x
        y = (square * weight).exp()  # saves x twice, square, the result, and the parameter, which is not an activation
    assert memory.live["activations"][0] == 3 * 40
    torch.autograd.grad(y.sum(), [x, weight])
    del y, square
    assert memory.live["activations"][0] == 0


# time ----------------------------------------------------------------------------------------------------------------------------


def test_with_prefetch_the_next_all_gather_runs_beside_this_groups_compute():
    rec = record("fsdp2", {"link": "infiniband_ndr", "steps": 1})
    lanes = rec.panels[0].view
    spans = [lanes.get(i) for i in range(len(lanes))]
    at = {(span.lane, span.text): span for span in reversed(spans)}  # the first of each text
    assert at[1, "AG1"].start == at[0, "F0"].start and at[1, "AG1"].end < at[0, "F0"].end
    for lane in range(len(lanes.lanes)):
        mine = sorted((span.start, span.end) for span in spans if span.lane == lane)
        assert all(first[1] <= second[0] + 1e-12 for first, second in pairwise(mine))
    reduce = at[1, "RS3"]
    assert at[0, "B3"].end == reduce.start < at[0, "B2"].end


def wire_times(params):
    """Seconds of an all-gather and a reduce-scatter of a block and of the root, by formula: n - 1 hops of alpha + bytes / bandwidth."""
    job = Job.of(parse(load("fsdp2").params, params))
    hop = [
        job.link.latency + group.shard * job.scale * width / job.link.bandwidth for group in (job.blocks[0], job.root) for width in (2, 4)
    ]
    return job, [(job.params.ranks - 1) * seconds for seconds in hop]


def test_without_prefetch_every_all_gather_is_waited_for():
    params = {"link": "infiniband_ndr", "steps": 1}
    ahead, off = record("fsdp2", params), record("fsdp2", {**params, "prefetch": False})
    job, (gather, reduce, root_gather, root_reduce) = wire_times(params)
    layers = len(job.blocks)
    assert off.fact("exposed_comm_time") == pytest.approx(root_gather + 2 * layers * gather + layers * reduce + root_reduce)
    assert off.fact("peak_bytes") < ahead.fact("peak_bytes")
    lanes = off.panels[0].view
    spans = [lanes.get(i) for i in range(len(lanes))]
    gathers = [span for span in spans if span.lane == 1 and span.text.startswith("AG")]
    computes = [span for span in spans if span.lane == 0]
    assert not any(g.start < c.end and c.start < g.end for g in gathers for c in computes)


def test_with_prefetch_only_the_first_all_gathers_and_the_last_reduce_scatters_are_exposed():
    params = {"link": "infiniband_ndr", "steps": 1}
    job, (gather, reduce, root_gather, root_reduce) = wire_times(params)
    root_backward = 2 * job.forward_time(job.root)
    assert gather < job.forward_time(job.blocks[0]) and gather + reduce < 2 * job.forward_time(job.blocks[0])
    want = root_gather + gather + (gather - root_backward) + reduce + root_reduce
    assert record("fsdp2", params).fact("exposed_comm_time") == pytest.approx(want)


@pytest.mark.parametrize("params", [{}, {"prefetch": False}, {"reshard_after_forward": False}, {"accumulation": 2}])
def test_no_group_computes_before_its_all_gather_has_ended(params):
    rec = record("fsdp2", {"link": "infiniband_ndr", "steps": 1, **params})
    lanes = rec.panels[0].view
    spans = [lanes.get(i) for i in range(len(lanes)) if lanes.get(i).lane < 2]
    for compute in (span for span in spans if span.role in ("forward", "backward")):
        number = compute.text[1:]
        ended = [span.end for span in spans if span.text == f"AG{number}" and span.start < compute.start]
        assert ended and max(ended) <= compute.start + 1e-12, compute


# broken on purpose -----------------------------------------------------------------------------------------------------------------


def test_summing_instead_of_averaging_is_caught(monkeypatch):
    monkeypatch.setattr(module, "REDUCTION", "sum")
    wrong = failed(run())
    assert GRADIENTS in wrong and "averaged gradients of the first step against fp64" in wrong
    assert "with SGD, first step: fp32 parameters after all steps, largest error" in wrong


def test_a_norm_weights_gradient_that_is_dropped_is_caught(monkeypatch):
    honest = Group.pack_gradients

    def forgetful(self, gradients, dtype):
        return honest(self, {**gradients, "norm.weight": torch.zeros_like(gradients["norm.weight"])}, dtype)

    monkeypatch.setattr(Group, "pack_gradients", forgetful)
    assert {GRADIENTS, "averaged gradients of the first step against fp64"} <= set(failed(run()))


def test_a_chunk_sent_to_the_wrong_rank_is_caught(monkeypatch):
    monkeypatch.setattr(ring, "next_rank", ring.previous_rank)
    assert GRADIENTS in failed(run())


def test_rows_cut_as_evenly_as_possible_instead_of_torchs_way_are_caught(monkeypatch):
    def even(rows, ranks, rank):
        sizes = ring.chunk_sizes(rows, ranks)
        return slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))

    monkeypatch.setattr("core.training.fsdp2_shards.rows_of", even)
    monkeypatch.setattr(Group, "rows", lambda self, name, rank: even(self.shapes[name][0], self.ranks, rank))
    assert "parameters whose shards have other shapes" in failed(run(ranks=4))


def test_a_reduction_in_bf16_is_caught(monkeypatch):
    honest = Group.pack_gradients
    monkeypatch.setattr(Group, "pack_gradients", lambda self, g, dtype: honest(self, g, torch.bfloat16).float())
    honest_reduce = module.SimulatedFabric.reduce_scatter

    def coarse(self, tensors, *args, **kwargs):
        work = honest_reduce(self, {r: t.bfloat16() for r, t in tensors.items()}, *args, **kwargs)
        for rank, value in work._result.items():
            work._result[rank] = value.float()
        return work

    monkeypatch.setattr(module.SimulatedFabric, "reduce_scatter", coarse)
    assert GRADIENTS in failed(run(ranks=3))


def test_parameters_that_stay_whole_after_backward_are_caught(monkeypatch):
    honest = Memory.drop
    monkeypatch.setattr(
        Memory, "drop", lambda self, part, key, rank: 0 if (part, key) == ("gathered", "root") else honest(self, part, key, rank)
    )
    with pytest.raises(AssertionError):  # the second step cannot gather what is still there
        run(steps=2)
    assert LEFT in failed(run(steps=1))


def test_activations_that_backward_does_not_free_are_caught(monkeypatch):
    leaked, honest = [], Memory._keep

    def leaky(self, rank, tensor):
        leaked.append(honest(self, rank, tensor))
        return leaked[-1]

    monkeypatch.setattr(Memory, "_keep", leaky)
    assert {LEFT, "most activation bytes at once"} <= set(failed(run(steps=2)))


def test_backward_that_uses_parameters_of_before_the_reshard_finds_none(monkeypatch):
    honest = Training.backward

    def lazy(self, grads, graph):
        self.copy_out = lambda group, work, defer: work.wait()
        honest(self, grads, graph)

    monkeypatch.setattr(Training, "backward", lazy)
    with pytest.raises(KeyError):
        run()


def test_an_extra_all_gather_is_caught(monkeypatch):
    honest = Training.update

    def again(self, step):
        honest(self, step)
        self.fetch(self.blocks[0])
        self.used = self.blocks[0]
        self.free_used()

    monkeypatch.setattr(Training, "update", again)
    assert {"all-gathers", "bytes on the wire, counted hop by hop"} <= set(failed(run()))


# what is shown, and input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params", [{}, {"ranks": 1}, {"prefetch": False, "accumulation": 2}, {"root_parameters": False, "optimizer": "sgd"}]
)
def test_steps_follow_time_and_say_numbers_instead_of_fields(params):
    rec = run(**params)
    times = [rec.time(i) for i in range(len(rec))]
    assert times == sorted(times)
    assert not any("{" in rec.title(i) + rec.detail(i) for i in range(len(rec)))
    assert all(rec.detail(i) for i in range(len(rec)))


def test_cells_say_which_groups_are_whole_and_where_gradients_are():
    rec = run(ranks=2, steps=1)
    view = rec.panels[2].view
    texts = [[view.at(step).cells[0, column].text for column in range(3)] for step in range(len(rec))]
    assert texts[0] == ["p", "p", "p"]
    done = next(i for i in range(len(rec)) if rec.title(i).startswith("Forward has ended"))
    assert texts[done] == ["p", "p", "P"], "after forward only the root is still whole"
    assert texts[-2] == ["pg", "pg", "pg"] and texts[-1] == ["p", "p", "p"]


def test_a_config_gives_the_parameters(tmp_path):
    path = tmp_path / "config.json"
    sizes = {"hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100}
    path.write_text(json.dumps({"model_type": "llama", **sizes}))
    rec = record("fsdp2", {"model": str(path), "ranks": 2})
    assert rec.fact("parameters") == read_config(path).parameters
    assert rec.fact("sharded_bytes") == pytest.approx(8 * read_config(path).parameters)
    with pytest.raises(BadInput, match=r"fsdp2\.parameters.*one of the two"):
        run(model=str(path), parameters=7e9)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"ranks": 0}, "ranks"),
        ({"ranks": 65}, "ranks"),
        ({"accumulation": 0}, "accumulation"),
        ({"parameters": 0}, "parameters"),
        ({"outputs": 0}, "outputs"),
        ({"prefetch": "sometimes"}, "prefetch"),
        ({"param_dtype": "fp8"}, "bf16"),
        ({"link": "nvlink_a10"}, "nvlink_a100"),
        ({"model": "no/such/config.json"}, "no/such/config.json"),
        ({"hidden": 2048, "layers": 64, "ranks": 64}, "4 GB"),
    ],
)
def test_input_out_of_bounds_is_refused_in_one_line(params, said):
    with pytest.raises(BadInput) as error:
        run(**params)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
