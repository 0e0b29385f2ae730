"""DDP's buckets and gradients equal PyTorch's DistributedDataParallel; broken on purpose, its checks turn red."""

from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import failed, runs_of
from threaded_ranks import run_ranks
from torch import nn

from core.errors import BadInput
from core.fabric import ring
from core.recording import Recorder, Recording, first_difference
from core.simulation import load, parse, record
from core.training import ddp as module
from core.training import mlp
from core.training.ddp import Training, train
from core.training.ddp_buckets import MIB, Bucket, assign
from core.training.ddp_setup import LEARNING_RATE, Job, of_layer, ready_order
from core.training.ddp_timing import by_formula, sweep, time_iteration

SMALL = {"ranks": 3, "layers": 3, "hidden": 16, "batch": 4, "bucket_mb": 0.01, "first_bucket_mb": 0.002}
GRADIENTS = "averaged gradients, largest error in units of the parameter's largest"


run = runs_of("ddp", **SMALL)


def trained(**params):
    return train(parse(load("ddp").params, {**SMALL, **params}), Recorder(Recording("ddp")))


# torch's own ---------------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def torchs_ddp(params, **caps):
    """Bucket membership of every iteration and rank 0's gradients of each, by the real DDP on the same values and rows."""
    rec = Recorder(Recording("ddp"))
    start, batches = {}, None
    for layer in range(params["layers"]):
        values = mlp.initial(mlp.block_shapes(params["hidden"]), rec.generator, "cpu", params["layers"])
        start |= {f"{layer}.{name}": value for name, value in values.items()}
    hidden = params["hidden"]
    batches = mlp.batches(params["ranks"], params["batch"], hidden, hidden, 3, rec.generator, "cpu")

    def body(rank):
        model = nn.Sequential(*[Block(hidden) for _ in range(params["layers"])])
        model.load_state_dict(start)
        index = {id(parameter): number for number, parameter in enumerate(model.parameters())}
        seen = []

        def hook(_, bucket):
            seen[-1].append([index[id(parameter)] for parameter in bucket.parameters()])
            buffer = bucket.buffer().div_(dist.get_world_size())
            return dist.all_reduce(buffer, async_op=True).get_future().then(lambda future: future.value()[0])

        parallel = nn.parallel.DistributedDataParallel(model, **caps)
        parallel.register_comm_hook(None, hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
        gradients = []
        for batch in batches:
            seen.append([])
            mlp.loss_of(parallel(batch.x[rank]), batch.target[rank]).backward()
            gradients.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
            optimizer.step()
            optimizer.zero_grad()
        return seen, gradients

    return run_ranks(params["ranks"], body)[0]


@pytest.mark.parametrize("ranks", [2, 4])
def test_buckets_and_gradients_equal_those_of_torchs_ddp(ranks):
    params = {**SMALL, "ranks": ranks, "layers": 5}
    membership, gradients = torchs_ddp(params, bucket_cap_mb=0.01)
    mine = trained(**{**params, "first_bucket_mb": 0.01, "steps": 3})  # with a cap of its own, torch's first bucket has it too
    assert mine.membership == membership
    assert [len(buckets) for buckets in membership] == [1, 4, 4]
    for got, want in zip(mine.gradients, gradients, strict=True):
        assert mlp.largest_error(got, want)[0] < 1e-5


def test_with_torchs_default_caps_the_first_bucket_is_small():
    params = {"ranks": 2, "layers": 14, "hidden": 256, "batch": 1}
    membership, _ = torchs_ddp(params)
    mine = trained(**params, first_bucket_mb=1.0, bucket_mb=25.0, steps=2)
    assert mine.membership == membership[:2]
    sizes = [sum(mine.plan.sizes[index] for index in bucket) / MIB for bucket in membership[1]]
    assert len(sizes) == 3
    assert 1 <= sizes[0] < 2 and 25 <= sizes[1] < 26


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 200), st.integers(1, 400), st.randoms())
def test_buckets_equal_those_of_torchs_reducer_for_any_sizes(elements, first, limit, random):
    order = list(range(len(elements)))
    random.shuffle(order)
    tensors = [torch.empty(elements[index], device="meta") for index in order]
    want, _ = dist._compute_bucket_assignment_by_size(tensors, [first, limit], [False] * len(order), order)
    assert assign(order, [4 * count for count in elements], first, limit) == want


def test_gradients_become_ready_from_the_last_layer_to_the_first():
    job = Job.of(parse(load("ddp").params, {**SMALL, "layers": 2}))
    names = [job.names[index] for index in ready_order(job)]
    block = ["down.bias", "down.weight", "up.bias", "up.weight", "norm.weight", "norm.bias"]
    assert names == [f"{layer}.{name}" for layer in (1, 0) for name in block]


# training ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("bucket", [1e-6, 0.01, 100.0])
def test_every_number_of_ranks_and_bucket_size_holds_its_checks(ranks, bucket):
    rec = run(ranks=ranks, bucket_mb=bucket, hidden=7, steps=3)
    assert not failed(rec)
    assert rec.fact("buckets[iteration_0]") == 1


def test_one_rank_communicates_nothing():
    rec = run(ranks=1)
    assert rec.fact("exposed_comm_time") == rec.fact("bytes_sent_per_rank") == 0
    assert rec.fact("overlap_fraction") is None


def test_training_lowers_the_loss():
    done = trained(steps=12, batch=32)
    losses = [done.rec.recording.fact("loss", step) for step in range(len(done.rec.recording))]
    assert losses[-1] < 0.8 * next(loss for loss in losses if loss is not None)


def test_the_same_seed_records_the_same_steps():
    assert first_difference(run(), run()) is None
    assert record("ddp", SMALL).fact("loss") != record("ddp", SMALL, seed=1).fact("loss")


# time ------------------------------------------------------------------------------------------------------------------------


def test_the_first_all_reduce_starts_while_backward_still_runs():
    rec = run(layers=4)
    step = next(i for i in range(len(rec)) if rec.title(i) == "All-reduce of bucket 0 starts while backward still runs")
    assert rec.phase(step).name == "iteration 1: backward"
    lanes = rec.panels[0].view
    spans = [lanes.get(i) for i in range(len(lanes))]
    before, after = [span for span in spans if span.lane == 1 and span.text == "AR0"]
    backward = [span for span in spans if span.lane == 0 and span.role == "backward"]
    updates = [span for span in spans if span.lane == 0 and span.role == "optimizer"]
    assert before.end == updates[0].start, "in iteration 0 the one bucket goes last, and the update waits for it"
    assert backward[8].end == after.start < backward[-1].start
    for lane in range(len(lanes.lanes)):
        mine = sorted((span.start, span.end) for span in spans if span.lane == lane)
        assert all(first[1] <= second[0] + 1e-15 for first, second in pairwise(mine))


def test_one_bucket_exposes_all_of_its_communication_and_buckets_hide_some():
    one, cut = record("ddp", {"bucket_mb": 1e3, "first_bucket_mb": 1e3}), record("ddp", {"bucket_mb": 4.0})
    assert one.fact("overlap_fraction") == pytest.approx(0, abs=1e-9)
    assert one.fact("exposed_comm_time") == pytest.approx(2 * 3 * (2e-6 + one.fact("gradient_bytes") / 4 / 300e9))
    assert cut.fact("exposed_comm_time") < 0.3 * one.fact("exposed_comm_time")
    assert cut.fact("step_time") < one.fact("step_time")
    assert cut.fact("step_time[iteration_0]") == pytest.approx(one.fact("step_time"))


def test_the_sweep_goes_through_this_runs_own_time_and_both_ends_are_worse():
    rec = record("ddp", {"bucket_mb": 4.0, "ranks": 8})
    curve, own = rec.panels[2].view.curves
    assert list(own.y) == [pytest.approx(rec.fact("exposed_comm_time"))]
    assert own.y[0] < curve.y[0] and own.y[0] < curve.y[-1]
    job = Job.of(parse(load("ddp").params, {"bucket_mb": 4.0, "ranks": 8}))
    order = ready_order(job)
    for limit in (1, 3 * MIB, 40 * MIB):
        membership = assign(order, job.plan.sizes, min(MIB, limit), limit)
        assert sweep(job.plan, order, MIB, [limit])[0].exposed == pytest.approx(by_formula(job.plan, membership)[0])
        assert time_iteration(job.plan, membership).step_time == pytest.approx(by_formula(job.plan, membership)[1])


# broken on purpose -------------------------------------------------------------------------------------------------------------


def test_summing_instead_of_averaging_is_caught(monkeypatch):
    monkeypatch.setattr(module, "REDUCTION", "sum")
    wrong = failed(run())
    assert GRADIENTS in wrong and "parameters after all iterations, largest error" in wrong


def test_a_norm_weights_gradient_that_is_dropped_is_caught(monkeypatch):
    honest = Training.ready

    def forgetful(self, rank, index, leaf):
        if rank == 1 and self.names[index] == "1.norm.weight":
            leaf.grad.zero_()
        honest(self, rank, index, leaf)

    monkeypatch.setattr(Training, "ready", forgetful)
    assert GRADIENTS in failed(run())


def test_a_chunk_sent_to_the_wrong_rank_is_caught(monkeypatch):
    monkeypatch.setattr(ring, "next_rank", ring.previous_rank)
    assert GRADIENTS in failed(run(ranks=4))


def test_a_bucket_that_leaves_before_it_is_full_is_caught(monkeypatch):
    monkeypatch.setattr(Bucket, "full", property(lambda self: len(self.missing[0]) < len(self.parameters)))
    assert GRADIENTS in failed(run())


def test_a_rank_that_skips_its_average_is_caught(monkeypatch):
    honest = Training.update

    def own(self, number):
        self.values[1]["0.norm.bias"].grad.mul_(1.5)
        honest(self, number)

    monkeypatch.setattr(Training, "update", own)
    assert "parameters on any rank that differ from rank 0's" in failed(run())


def test_buckets_cut_in_the_order_of_the_model_are_caught(monkeypatch):
    monkeypatch.setattr(module, "assign", lambda order, sizes, *limits: assign(sorted(order), sizes, *limits))
    assert "bucket membership after the rebuild" in failed(run())


def test_waiting_for_each_bucket_at_once_is_caught(monkeypatch):
    honest = Training.launch

    def impatient(self, ahead):
        honest(self, ahead)
        for bucket in self.buckets[: self.launched]:
            bucket.work.wait()

    monkeypatch.setattr(Training, "launch", impatient)
    assert "exposed communication of iteration 1" in failed(run(layers=6))


# what is shown --------------------------------------------------------------------------------------------------------------------


def test_bars_show_each_bucket_from_to_come_to_averaged():
    rec = run(layers=4)
    bars, size = rec.panels[1].view, rec.fact("gradient_bytes")
    for step in range(len(rec)):
        cells = bars.at(step).cells
        assert sum(cell.value for cell in cells.values()) == size
    parts = [{part for (_, part), cell in bars.at(step).cells.items() if cell.value} for step in range(len(rec))]
    assert parts[0] == {0} and parts[-1] == {3}
    assert any({0, 2} <= part for part in parts), "one bucket on the wire while another is still to come"
    assert max(bar for bar, _ in bars.at(0).cells) + 1 == rec.fact("buckets")


@pytest.mark.parametrize("ranks", [1, 2, 12])
def test_steps_follow_time_and_say_numbers_instead_of_fields(ranks):
    rec = run(ranks=ranks)
    times = [rec.time(i) for i in range(len(rec))]
    assert times == sorted(times)
    assert not any("{" in rec.title(i) + rec.detail(i) for i in range(len(rec)))


# input ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"bucket_mb": 0}, "bucket_mb"),
        ({"first_bucket_mb": 0}, "first_bucket_mb"),
        ({"bucket_mb": -25}, "bucket_mb"),
        ({"bucket_mb": "nan"}, "bucket_mb"),
        ({"ranks": 0}, "ranks"),
        ({"ranks": 65}, "ranks"),
        ({"link": "nvlink_a10"}, "nvlink_a100"),
        ({"accelerator": "a1000"}, "a100"),
        ({"hidden": 4096, "layers": 64}, "4 GB"),
    ],
)
def test_input_out_of_bounds_is_refused_in_one_line(params, said):
    with pytest.raises(BadInput) as error:
        run(**params)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_layers_parameters_are_its_own():
    values = {f"{layer}.{name}": torch.tensor(layer) for layer in (1, 11) for name in ("a", "b.c")}
    assert of_layer(values, 1) == {"a": torch.tensor(1), "b.c": torch.tensor(1)}
