"""The real model through pipeline tables: gradients, what stays alive, and that both would be seen to be wrong."""

import numpy as np
import pytest
import torch

from core.training import pipeline_model as model
from core.training.pipeline import accumulation_order
from core.training.schedule_table import Kind, Table, looped
from core.training.schedules import SCHEDULES, build
from core.training.timing import Costs, peak_by_rank, time_table


def rows_in_time(table: Table, seed: int = 0) -> list[int]:
    draw = np.random.default_rng(seed)
    costs = Costs(*draw.uniform(0.1, 3.0, (3, table.stages)), draw.uniform(0.0, 2.0))
    return time_table(table, costs).order.tolist()


def work_for(table: Table, batch: int = 3, hidden: int = 8) -> model.Problem:
    return model.problem(table.depth, table.microbatches, batch, hidden, torch.Generator().manual_seed(1), "cpu")


def gradients_of_whole_batch(work: model.Problem) -> list[torch.Tensor]:
    """Plain autograd over all microbatches at once, in float64."""
    blocks = [model.Block(work.inputs.shape[-1]).double() for _ in work.blocks]
    for block, own in zip(blocks, work.blocks, strict=True):
        block.load_state_dict({name: value.double() for name, value in own.state_dict().items()})
    x = work.inputs.double()
    for block in blocks:
        x = block(x)
    torch.nn.functional.mse_loss(x, work.targets.double()).backward()
    return [parameter.grad for block in blocks for parameter in block.parameters()]


@pytest.mark.parametrize(("name", "ranks", "microbatches", "chunks"), [
    ("gpipe", 4, 8, 1), ("1f1b", 4, 8, 1), ("1f1b", 5, 3, 1), ("interleaved", 4, 8, 2), ("interleaved", 3, 7, 3), ("interleaved", 1, 4, 2),
    ("looped_bfs", 4, 8, 2), ("looped_bfs", 3, 2, 3), ("zb_h1", 4, 8, 1), ("zb_h1", 5, 3, 1), ("interleaved_zb", 4, 8, 2),
    ("interleaved_zb", 4, 9, 3), ("zbv", 4, 8, 2), ("zbv", 4, 3, 2), ("zbv", 1, 2, 2), ("dualpipev", 4, 8, 2), ("dualpipev", 1, 3, 2),
])  # fmt: skip
def test_gradients_equal_sequential_ones_bit_for_bit_and_the_whole_batch_nearly(name, ranks, microbatches, chunks):
    table = build(name, ranks, microbatches, chunks)
    work = work_for(table)
    order = accumulation_order(table)
    assert order == sorted(range(microbatches), reverse=name == "looped_bfs")
    outcome = model.run_table(table, rows_in_time(table), work)
    loss, gradients = model.run_sequentially(work, order)
    assert model.differences(outcome.gradients, gradients) == (0, 0.0)
    assert torch.equal(outcome.loss, loss) or name == "looped_bfs"
    torch.testing.assert_close(outcome.loss, loss, rtol=1e-12, atol=0.0)
    assert len(gradients) == 4 * table.stages
    for parameter, want in zip(work.parameters(), gradients_of_whole_batch(work), strict=True):
        torch.testing.assert_close(outcome.gradients[parameter].double(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 4), (4, 8), (4, 14), (6, 12)])
def test_gradients_of_both_copies_of_dualpipe_sum_to_the_sequential_ones(ranks, microbatches):
    table = build("dualpipe", ranks, microbatches)
    work = work_for(table)
    assert accumulation_order(table) is None
    outcome = model.run_table(table, rows_in_time(table), work)
    loss, gradients = model.run_sequentially(work)
    unequal, largest = model.differences(outcome.gradients, gradients)
    assert unequal and 0 < largest <= 1e-6 * max(float(gradient.abs().max()) for gradient in gradients.values())
    torch.testing.assert_close(outcome.loss, loss, rtol=1e-6, atol=0.0)
    assert len(gradients) == len(outcome.gradients) == 4 * ranks


class WholeBlock(model.Block):
    """x + W2 relu(W1 x): whole numbers stay whole."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


class WholeProblem(model.Problem):
    """The sum of squares, without a division."""

    def loss(self, output: torch.Tensor, microbatch: int) -> torch.Tensor:
        return ((output - self.targets[microbatch]) ** 2).sum()


@pytest.mark.parametrize("name", SCHEDULES)
def test_gradients_of_whole_numbers_are_equal_exactly_in_any_order(name):
    table = build(name, 4, 8)
    draw = torch.Generator().manual_seed(3)
    blocks = [WholeBlock(4).double() for _ in range(table.depth)]
    for block in blocks:
        for parameter in block.parameters():  # few ones, so that no sum comes near 2^53
            sign = torch.randint(0, 2, parameter.shape, generator=draw) * 2 - 1
            parameter.data = (sign * (torch.rand(parameter.shape, generator=draw) < 0.12)).double()
    inputs, targets = torch.randint(-3, 4, (2, 8, 2, 4), generator=draw).double()
    work = WholeProblem(blocks, inputs, targets)
    outcome = model.run_table(table, rows_in_time(table), work)
    loss, gradients = model.run_sequentially(work)
    assert model.differences(outcome.gradients, gradients) == (0, 0.0)
    assert torch.equal(outcome.loss, loss)
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    assert 0 < largest < 2**50 and all(torch.equal(gradient, gradient.round()) for gradient in gradients.values())


def test_copies_that_are_not_summed_would_be_seen(monkeypatch):
    def first_only(gradients, work, blocks):
        return {parameter: gradients[parameter] for parameter in work.parameters()}

    monkeypatch.setattr(model, "_summed", first_only)
    table = build("dualpipe", 4, 8)
    work = work_for(table)
    outcome = model.run_table(table, rows_in_time(table), work)
    assert model.differences(outcome.gradients, model.run_sequentially(work)[1])[1] > 1e-3


@pytest.mark.parametrize("name", SCHEDULES)
def test_stashes_alive_are_those_the_table_counts(name):
    table = build(name, 4, 8)
    live = model.run_table(table, rows_in_time(table), work_for(table, batch=3, hidden=8)).live
    assert live.peak == peak_by_rank(table).tolist()
    assert live.count == [0] * 4 and live.bytes == [0] * 4
    each = (8 + 2 * 4 * 8) * 3 * 4  # a block saves its input and the wide layer before and after GELU: float32
    assert live.peak_bytes == [peak * each for peak in live.peak]


def test_stash_that_is_kept_too_long_is_seen_alive(monkeypatch):
    kept = []
    real = model._backward

    def leaking(kind, stage, microbatch, block, stashes, arrived, gradients):
        kept.append(stashes[stage, microbatch])
        real(kind, stage, microbatch, block, stashes, arrived, gradients)

    monkeypatch.setattr(model, "_backward", leaking)
    table = build("1f1b", 4, 8)
    live = model.run_table(table, rows_in_time(table), work_for(table)).live
    assert live.peak == [8] * 4 != peak_by_rank(table).tolist()


def test_difference_sees_wrong_and_missing_gradients():
    table = build("1f1b", 2, 3)
    work = work_for(table)
    _, gradients = model.run_sequentially(work)
    first, second, *_ = gradients
    changed = {**gradients, first: torch.nextafter(gradients[first], torch.tensor(torch.inf))}
    assert model.differences(changed, gradients)[0] == 1
    missing = {parameter: value for parameter, value in gradients.items() if parameter is not second}
    assert model.differences(missing, gradients) == (1, float("inf"))


def test_split_backward_gives_the_same_gradients_and_holds_until_the_weights():
    f, i, w = Kind.FORWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT
    rank_0 = [(f, 0, 0), (f, 0, 1), (i, 0, 0), (i, 0, 1), (w, 0, 0), (w, 0, 1)]
    rank_1 = [(f, 1, 0), (i, 1, 0), (f, 1, 1), (i, 1, 1), (w, 1, 0), (w, 1, 1)]
    table = Table.of([np.array(rank_0, dtype=np.int32), np.array(rank_1, dtype=np.int32)], 2, looped(2, 1))
    work = work_for(table)
    outcome = model.run_table(table, rows_in_time(table), work)
    assert model.differences(outcome.gradients, model.run_sequentially(work)[1]) == (0, 0.0)
    assert outcome.live.peak == [2, 2]


def test_row_whose_input_has_not_been_sent_is_an_error():
    table = build("1f1b", 2, 2)
    with pytest.raises(KeyError):
        model.run_table(table, list(reversed(rows_in_time(table))), work_for(table))


def test_problem_is_the_same_for_a_seed_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    one, other = (model.problem(2, 3, 4, 8, torch.Generator().manual_seed(5), "cpu") for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.inputs, other.inputs)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
