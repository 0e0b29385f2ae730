"""Schedule tables against torch's own tables, and on their own where torch has none."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from core.errors import BadInput
from core.training.interleaving import rounds
from core.training.schedule_table import Action, Kind, Table
from core.training.schedules import SCHEDULES, build

RANKS, MICROBATCHES, CHUNKS = range(1, 9), range(1, 25), range(1, 5)
TORCH_NAMES = {
    "gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B", "looped_bfs": "LoopedBFS",
    "interleaved_zb": "InterleavedZeroBubble", "zbv": "ZBVZeroBubble", "dualpipev": "DualPipeV",
}  # fmt: skip


def sizes(name: str, ranks: int):
    """Every size up to the largest at which the schedule is defined."""
    asked = [(ranks, microbatches, v) for microbatches in MICROBATCHES for v in CHUNKS]
    return [size for size in asked if SCHEDULES[name].undefined(*size) is None]


def written(table: Table) -> list[list[str]]:
    """As torch writes it: a pair is one action, "(0F3;7B1)OVERLAP_F_B"."""
    orders = []
    for rank in range(table.ranks):
        joined = table.joined[table.first[rank] : table.first[rank + 1]]
        order: list[str] = []
        for action, second in zip(table.of_rank(rank), joined.tolist(), strict=True):
            if second:
                order[-1] = f"({order[-1]};{action})OVERLAP_F_B"
            else:
                order.append(str(action))
        orders.append(order)
    return orders


@pytest.fixture
def torch_table(monkeypatch):
    """(name, ranks, microbatches, chunks) -> torch's table as text, or None where torch refuses."""
    visualizer = pytest.importorskip("torch.distributed.pipelining._schedule_visualizer")
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    # a plain stage in place of an autospec, and no messages put between the actions: most of the time and none of the schedule
    monkeypatch.setattr(visualizer.mock, "create_autospec", lambda *_, **__: SimpleNamespace(has_backward=True, stage_index=0))
    monkeypatch.setattr(schedules._PipelineScheduleRuntime, "_prepare_schedule_with_comms", lambda *_, **__: None)

    def table(name: str, ranks: int, microbatches: int, chunks: int):
        try:
            ops = visualizer.get_schedule_ops(TORCH_NAMES[name], ranks, microbatches, num_stages_per_rank=chunks)
        except (ValueError, AssertionError):
            return None
        orders = [[str(op) for op in rank_ops if op is not None and "REDUCE_GRAD" not in str(op)] for rank_ops in ops]
        if name == "1f1b":  # torch's table (not its run) counts the last rank's forwards from 1: F1 … FM, each before its backward
            orders[-1] = [f"{ranks - 1}{letter}{m}" for m in range(microbatches) for letter in "FB"]
        return orders

    return table


def torch_accepts(name: str, ranks: int) -> int:
    """How many of the sizes torch makes a table for."""
    whole_rounds = sum(m % max(1, m // ranks) == 0 for m in MICROBATCHES)
    many = len(MICROBATCHES)
    return {
        "gpipe": many, "1f1b": many - ranks + 1, "interleaved": 3 * whole_rounds, "looped_bfs": 3 * many,
        "interleaved_zb": 3 * whole_rounds, "zbv": many, "dualpipev": many - 2 * ranks + 1,
    }[name]  # fmt: skip


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", TORCH_NAMES)
def test_tables_equal_torch(name, ranks, torch_table):
    compared = 0
    for microbatches in MICROBATCHES:
        for chunks in CHUNKS:
            want = torch_table(name, ranks, microbatches, chunks)
            if want is not None:
                assert written(build(name, ranks, microbatches, chunks)) == want, (microbatches, chunks)
                compared += 1
    assert compared == torch_accepts(name, ranks)


@pytest.mark.parametrize("name", ["looped_bfs", "interleaved_zb", "zbv", "dualpipev"])
def test_torch_makes_the_same_table_when_it_adds_its_messages_too(name):
    visualizer = pytest.importorskip("torch.distributed.pipelining._schedule_visualizer")
    ops = visualizer.get_schedule_ops(TORCH_NAMES[name], 4, 8)
    want = [[str(op) for op in rank_ops if op is not None and "REDUCE_GRAD" not in str(op)] for rank_ops in ops]
    assert written(build(name, 4, 8)) == want


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
def test_every_stage_runs_every_microbatch_of_its_copy_once_and_in_sequence(name):
    """Forward, then both gradients at once or the input's before the weights'; a stage of a copy sees that copy's microbatches."""
    for ranks in RANKS:
        for size in sizes(name, ranks):
            table = build(name, *size)
            position = np.full((len(Kind), table.stages, table.microbatches), -1)
            position[table.kind, table.stage, table.microbatch] = np.arange(len(table))
            assert (position >= 0).sum() == len(table), size
            forward, whole, inputs, weights = position
            share = table.microbatches // table.copies
            mine = np.arange(table.microbatches) // share == (np.arange(table.stages) // table.depth)[:, None]
            assert ((forward >= 0) == mine).all(), size
            assert (((whole >= 0) ^ (inputs >= 0)) == mine).all() and ((inputs >= 0) == (weights >= 0)).all(), size
            gradient = np.maximum(whole, inputs)
            assert (forward[mine] < gradient[mine]).all() and (inputs <= weights).all(), size
            assert (table.rank_of[table.stage] == table.rank).all(), size


@pytest.mark.parametrize("name", SCHEDULES)
def test_weight_gradients_of_a_stage_keep_the_order_of_the_microbatches(name):
    """What makes accumulated gradients equal to sequential ones bit for bit. Looped BFS goes back from the last microbatch."""
    for size in sizes(name, 4):
        table = build(name, *size)
        for stage in range(table.stages):
            mine = table.microbatch[(table.stage == stage) & ((table.kind == Kind.BACKWARD) | (table.kind == Kind.WEIGHT_GRADIENT))]
            assert np.diff(mine).tolist() == [-1 if name == "looped_bfs" else 1] * (len(mine) - 1), size


@pytest.mark.parametrize("name", ["dualpipe", "dualpipev"])
def test_only_a_forward_and_a_backward_of_another_microbatch_are_joined(name):
    for ranks in RANKS:
        for size in sizes(name, ranks):
            table = build(name, *size)
            second = np.flatnonzero(table.joined)
            assert len(second), size
            assert not table.joined[second - 1].any() and not table.joined[table.first[:-1]].any(), size
            assert (table.kind[second] == Kind.BACKWARD).all() and (table.kind[second - 1] == Kind.FORWARD).all(), size
            assert (table.microbatch[second] != table.microbatch[second - 1]).all(), size
            assert (table.rank[second] == table.rank[second - 1]).all(), size


def test_each_half_of_dualpipe_runs_torchs_dualpipev_of_half_the_size(torch_table):
    """DualPipeV is DualPipe cut in half (github.com/deepseek-ai/DualPipe): what was the other copy's way back is a V's second arm."""
    for ranks in (2, 4, 6, 8):
        for microbatches in range(2 * ranks, 25, 2):
            half = microbatches // 2
            folded = torch_table("dualpipev", ranks // 2, half, 2)
            for rank, order in enumerate(written(build("dualpipe", ranks, microbatches))):
                near = 0 if rank < ranks // 2 else 1  # the copy whose microbatches enter at this half's end

                def renamed(found: re.Match[str], near: int = near, rank: int = rank, ranks: int = ranks, half: int = half) -> str:
                    stage, letter, microbatch = int(found[1]), found[2], int(found[3])
                    copy, depth = stage // ranks, stage % ranks
                    assert copy == microbatch // half and depth == (rank if copy == 0 else ranks - 1 - rank)
                    inwards = min(rank, ranks - 1 - rank)
                    arm = inwards if copy == near else ranks - 1 - inwards
                    return f"{arm}{letter}{microbatch - copy * half}"

                got = [re.sub(r"(\d+)([FBIW])(\d+)", renamed, action) for action in order]
                assert got == folded[min(rank, ranks - 1 - rank)], (ranks, microbatches, rank)


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
    assert table.place_of.tolist() == [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.parametrize("name", ["zbv", "dualpipev"])
def test_v_placement_gives_rank_r_stages_r_and_2p_minus_1_minus_r(name):
    table = build(name, 4, 8)
    assert table.rank_of.tolist() == [0, 1, 2, 3, 3, 2, 1, 0]
    assert table.place_of.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert (table.chunks, table.copies, table.depth) == (2, 1, 8)


def test_dualpipe_holds_two_copies_that_run_against_each_other():
    table = build("dualpipe", 4, 8)
    assert table.rank_of.tolist() == [0, 1, 2, 3, 3, 2, 1, 0]
    assert (table.chunks, table.copies, table.depth, table.places) == (1, 2, 4, 2)


def test_usual_chunks_are_taken_when_none_are_named():
    assert build("1f1b", 4, 8).chunks == build("zb_h1", 4, 8).chunks == build("dualpipe", 4, 8).chunks == 1
    assert {build(name, 4, 8).chunks for name in ("interleaved", "looped_bfs", "interleaved_zb", "zbv", "dualpipev")} == {2}


@pytest.mark.parametrize(("size", "said"), [
    (("1f1b", 4, 8, 2), "pipeline schedule 1f1b: chunks = 2; allowed: chunks = 1, since it puts one stage on each rank"),
    (("zb_h1", 4, 8, 3), "chunks = 3; allowed: chunks = 1"),
    (("zbv", 4, 8, 1), "chunks = 1; allowed: chunks = 2, since a V has two arms"),
    (("dualpipev", 4, 8, 4), "chunks = 4; allowed: chunks = 2, since a V has two arms"),
    (("dualpipev", 4, 7), "microbatches = 7; allowed: microbatches >= 2 x stages = 8, since rank 0 runs so many forwards"),
    (("dualpipe", 3, 8), "stages = 3; allowed: an even number of stages, since two ranks meet in the middle"),
    (("dualpipe", 1, 8), "stages = 1; allowed: an even number of stages"),
    (("dualpipe", 4, 9), "microbatches = 9; allowed: an even number of microbatches, since half of them enter at each end"),
    (("dualpipe", 4, 6), "microbatches = 6; allowed: microbatches >= 2 x stages = 8, both directions together"),
    (("dualpipe", 4, 8, 2), "chunks = 2; allowed: chunks = 1, since each rank holds one stage of each of the two copies"),
    (("gpip", 4, 8), "did you mean 'gpipe'"),
])  # fmt: skip
def test_schedule_is_refused_where_it_is_not_defined_and_says_why(size, said):
    with pytest.raises(BadInput, match=re.escape(said)):
        build(*size)


def test_schedules_are_defined_where_torch_raises_too():
    for name in ("gpipe", "1f1b", "interleaved", "looped_bfs", "zb_h1", "interleaved_zb", "zbv"):
        for ranks in RANKS:
            assert {microbatches for _, microbatches, _ in sizes(name, ranks)} == set(MICROBATCHES)
    assert len(sizes("interleaved", 4)) == len(sizes("looped_bfs", 4)) == len(sizes("interleaved_zb", 4)) == 4 * 24


def test_action_is_written_as_torch_writes_it():
    assert str(Action(Kind.WEIGHT_GRADIENT, 3, 7)) == "3W7"
    assert build("1f1b", 2, 2).of_rank(1) == [
        Action(Kind.FORWARD, 1, 0),
        Action(Kind.BACKWARD, 1, 0),
        Action(Kind.FORWARD, 1, 1),
        Action(Kind.BACKWARD, 1, 1),
    ]
