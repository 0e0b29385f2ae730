"""Schedule tables against torch's own tables, and on their own where torch has none."""

from types import SimpleNamespace

import numpy as np
import pytest

from core.errors import BadInput
from core.training.schedules import SCHEDULES, Action, Kind, Table, build, rounds

RANKS, MICROBATCHES, CHUNKS = range(1, 9), range(1, 25), range(1, 5)
TORCH_NAMES = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B"}


def sizes(name: str, ranks: int):
    chunks = CHUNKS if name == "interleaved" else (1,)
    return [(ranks, microbatches, v) for microbatches in MICROBATCHES for v in chunks]


def written(table: Table) -> list[list[str]]:
    return [[str(action) for action in table.of_rank(rank)] for rank in range(table.ranks)]


@pytest.fixture
def torch_table(monkeypatch):
    """(name, ranks, microbatches, chunks) -> torch's table as text, or None where torch refuses."""
    visualizer = pytest.importorskip("torch.distributed.pipelining._schedule_visualizer")
    # a plain stage in place of an autospec, which takes most of the time and none of the schedule
    monkeypatch.setattr(visualizer.mock, "create_autospec", lambda *_, **__: SimpleNamespace(has_backward=True, stage_index=0))

    def table(name: str, ranks: int, microbatches: int, chunks: int):
        try:
            ops = visualizer.get_schedule_ops(TORCH_NAMES[name], ranks, microbatches, num_stages_per_rank=chunks)
        except ValueError:
            return None
        orders = [[str(op) for op in rank_ops if op is not None and "REDUCE_GRAD" not in str(op)] for rank_ops in ops]
        if name == "1f1b":  # torch's table (not its run) counts the last rank's forwards from 1: F1 … FM, each before its backward
            orders[-1] = [f"{ranks - 1}{letter}{m}" for m in range(microbatches) for letter in "FB"]
        return orders

    return table


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_single_stage_tables_equal_torch(name, ranks, torch_table):
    compared = 0
    for size in sizes(name, ranks):
        want = torch_table(name, *size)
        if want is not None:
            assert written(build(name, *size)) == want, size
            compared += 1
    assert compared == (24 if name == "gpipe" else 24 - ranks + 1)


@pytest.mark.parametrize("ranks", RANKS)
def test_interleaved_tables_equal_torch(ranks, torch_table):
    compared = 0
    for size in sizes("interleaved", ranks):
        if size[2] == 1:
            continue
        want = torch_table("interleaved", *size)
        if want is not None:
            assert written(build("interleaved", *size)) == want, size
            compared += 1
    assert compared == 3 * sum(m % max(1, m // ranks) == 0 for m in MICROBATCHES)


def test_torch_repair_leaves_all_but_the_last_rank(torch_table):
    visualizer = pytest.importorskip("torch.distributed.pipelining._schedule_visualizer")
    raw = visualizer.get_schedule_ops("1F1B", 4, 8)
    assert [str(op) for op in raw[3] if op is not None][:2] == ["3F1", "3B0"]  # the known slip; drop the repair when it goes
    assert torch_table("1f1b", 4, 8, 1)[3][:2] == ["3F0", "3B0"]


def test_one_chunk_interleaved_is_plain_1f1b():
    for ranks in RANKS:
        for microbatches in MICROBATCHES:
            assert written(build("interleaved", ranks, microbatches, 1)) == written(build("1f1b", ranks, microbatches))


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_stage_runs_every_microbatch_once_forward_then_backward(name):
    for ranks in RANKS:
        for size in sizes(name, ranks):
            table = build(name, *size)
            rows = np.arange(len(table))
            position = np.full((2, table.stages, table.microbatches), -1)
            position[table.kind, table.stage, table.microbatch] = rows
            assert len(table) == position.size and (position >= 0).all(), size
            assert (position[0] < position[1]).all(), size
            assert (table.rank_of[table.stage] == table.rank).all(), size


@pytest.mark.parametrize("name", SCHEDULES)
def test_backwards_of_a_stage_keep_the_order_of_the_microbatches(name):
    """What makes accumulated gradients equal to sequential ones bit for bit."""
    for size in sizes(name, 4):
        table = build(name, *size)
        for stage in range(table.stages):
            mine = table.microbatch[(table.stage == stage) & (table.kind == Kind.BACKWARD)]
            assert mine.tolist() == list(range(table.microbatches)), size


def test_rounds_are_torchs_where_it_accepts_and_else_one_short_at_the_end():
    assert [len(turn) for turn in rounds(4, 6)] == [6]
    assert [len(turn) for turn in rounds(4, 8)] == [4, 4]
    assert [len(turn) for turn in rounds(4, 10)] == [5, 5]
    assert [len(turn) for turn in rounds(4, 9)] == [5, 4]
    assert [len(turn) for turn in rounds(4, 3)] == [3]
    for ranks in RANKS:
        for microbatches in MICROBATCHES:
            turns = rounds(ranks, microbatches)
            lengths = [len(turn) for turn in turns]
            assert len(turns) == max(1, microbatches // ranks)
            assert [m for turn in turns for m in turn] == list(range(microbatches))
            assert lengths == sorted(lengths, reverse=True) and lengths[0] - lengths[-1] <= 1


def test_looped_placement_gives_chunk_c_of_rank_r_stage_c_ranks_plus_r():
    table = build("interleaved", 4, 8, 3)
    assert table.rank_of.tolist() == [0, 1, 2, 3] * 3
    assert table.chunk_of.tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_usual_chunks_are_taken_when_none_are_named():
    assert build("1f1b", 4, 8).chunks == 1
    assert build("interleaved", 4, 8).chunks == 2


def test_schedule_is_refused_where_it_is_not_defined():
    with pytest.raises(BadInput, match="pipeline schedule 1f1b: chunks = 2; allowed: chunks = 1"):
        build("1f1b", 4, 8, 2)
    with pytest.raises(BadInput, match="did you mean 'gpipe'"):
        build("gpip", 4, 8)


def test_action_is_written_as_torch_writes_it():
    assert str(Action(Kind.WEIGHT_GRADIENT, 3, 7)) == "3W7"
    assert build("1f1b", 2, 2).of_rank(1) == [
        Action(Kind.FORWARD, 1, 0),
        Action(Kind.BACKWARD, 1, 0),
        Action(Kind.FORWARD, 1, 1),
        Action(Kind.BACKWARD, 1, 1),
    ]
