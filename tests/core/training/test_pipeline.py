"""The pipeline recording: its facts, checks, steps, views, phases and refusals."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.errors import BadInput, Cancelled
from core.recording import Recording, first_difference
from core.scenario import find, judge
from core.simulation import fields, record
from core.training import pipeline as simulation
from core.training.pipeline import PipelineParams
from core.training.schedules import SCHEDULES, build
from core.views import Gantt, Plot


def run(**params) -> Recording:
    return record("pipeline", params)


def steps(rec: Recording) -> range:
    return range(len(rec))


def by_rank(rec: Recording) -> list[dict[str, object]]:
    """The rows of the table at the last step, by column name."""
    view = rec.panels[2].view
    names = [column.name for column in view.columns]
    return [dict(zip(names, (cell.value for cell in row), strict=True)) for row in view.at(len(rec) - 1).rows]


@pytest.fixture(scope="module")
def one_f_one_b() -> Recording:
    return run(schedule="1f1b")


COMPARED = (
    "makespan", "makespan_model_time", "bubble_of_makespan", "bubble_of_ideal", "own_span_idle", "peak_stash", "peak_stash_freed_at_input",
    "peak_stash_microbatches", "parameter_copies", "p2p_bytes", "idle_by_rank", "own_span_idle_by_rank", "peak_stash_by_rank",
    "peak_stash_freed_at_input_by_rank", "idle_formula",
)  # fmt: skip


@pytest.mark.parametrize(("schedule", "stages", "microbatches", "want"), [
    ("gpipe", 4, 8, (33, 33, 9 / 33, 9 / 24, 9, 8, 8, 8, 1, 24576, "9,9,9,9", "9,6,3,0", "8,8,8,8", "8,8,8,8", 9)),
    ("1f1b", 4, 8, (33, 33, 9 / 33, 9 / 24, 9, 4, 4, 4, 1, 24576, "9,9,9,9", "9,6,3,0", "4,3,2,1", "4,3,2,1", 9)),
    ("interleaved", 4, 8, (57, 28.5, 9 / 57, 9 / 48, 9, 11, 11, 5.5, 1, 57344, "9,9,9,9", "9,6,3,0", "11,9,7,5", "11,9,7,5", 9)),
    ("looped_bfs", 4, 8, (57, 28.5, 9 / 57, 9 / 48, 9, 16, 16, 8, 1, 57344, "9,9,9,9", "9,6,3,0", "16,16,16,16", "16,16,16,16", 9)),
    ("zb_h1", 4, 8, (27, 27, 3 / 27, 3 / 24, 3, 4, 4, 4, 1, 24576, "3,3,3,3", "3,2,1,0", "4,4,4,4", "4,3,2,1", 3)),
    ("interleaved_zb", 4, 8, (51, 25.5, 3 / 51, 3 / 48, 3, 8, 8, 4, 1, 57344, "3,3,3,3", "3,2,1,0", "8,8,8,8", "8,7,6,5", 3)),
    ("zbv", 4, 8, (51, 25.5, 3 / 51, 3 / 48, 0, 8, 8, 4, 1, 49152, "3,3,3,3", "0,0,0,0", "8,8,8,8", "8,8,8,8", 3)),
    ("dualpipev", 4, 8, (54, 27, 6 / 54, 6 / 48, 6, 9, 9, 4.5, 1, 49152, "6,6,6,6", "6,5,4,3", "9,9,9,9", "9,9,9,9", 6)),
    ("dualpipe", 8, 20, (66, 66, 6 / 66, 6 / 60, 6, 9, 9, 9, 2, 143360, "6,6,6,6,6,6,6,6", "6,5,4,3,3,4,5,6", *["9,9,9,9,9,9,9,9"] * 2, 6)),
])  # fmt: skip
def test_final_facts(schedule, stages, microbatches, want):
    rec = run(schedule=schedule, stages=stages, microbatches=microbatches)
    for name, value in zip(COMPARED, want, strict=True):
        assert rec.fact(name) == (value if isinstance(value, str) else pytest.approx(value)), name
    assert all(check.ok for check in rec.checks), rec.checks
    assert len(rec.checks) == 9
    assert next(iter(rec.facts)) == "makespan_model_time"  # what compares schedules on one model stands first


def test_table_shows_every_rank(one_f_one_b):
    rows = by_rank(one_f_one_b)
    assert [row["peak"] for row in rows] == [4, 3, 2, 1]
    assert [row["idle"] for row in rows] == [9, 9, 9, 9]
    assert [row["own-span idle"] for row in rows] == [9, 6, 3, 0]
    assert [row["busy"] for row in rows] == [24] * 4
    assert [row["held"] for row in rows] == [0] * 4
    assert sum(row["sent"] for row in rows) == one_f_one_b.fact("p2p_bytes")


def test_table_of_a_step_counts_only_what_has_run(one_f_one_b):
    view = one_f_one_b.panels[2].view
    assert view.kind == "table"
    first = view.at(0)
    assert [cell.value for cell in first.rows[0]] == [0, 1, 1, 1.0, 0.0, 0.0, 512]
    assert all(cell.value is None for cell in first.rows[3][1:])
    for step in steps(one_f_one_b):
        frame = view.at(step)
        rank = one_f_one_b.values(step)["rank"]
        assert frame.lit == {rank}
        assert frame.rows[rank][1].value == one_f_one_b.fact("stash_held", step)
        assert frame == view.at(step)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_step_an_action_by_start_then_rank(schedule):
    stages, microbatches = (4, 8) if schedule == "dualpipe" else (3, 6)
    rec = run(schedule=schedule, stages=stages, microbatches=microbatches, forward_time="1,2,0.5,1"[: 2 * stages + 1], p2p_time=0.25)
    table = build(schedule, stages, microbatches)
    assert len(rec) == len(table.heads)
    keys = [(rec.time(step), rec.values(step)["rank"]) for step in steps(rec)]
    assert keys == sorted(keys)
    gantt = rec.panels[0].view
    assert isinstance(gantt, Gantt) and len(gantt) == len(table)
    roles = {"forward": {"forward"}, "backward": {"backward"}, "input gradient": {"backward"}, "weight gradient": {"weight"},
             "forward and backward": {"forward", "backward"}}  # fmt: skip
    for step in steps(rec):
        values, spans = rec.values(step), [gantt.get(index) for index in gantt.current(gantt.at(step))]
        assert {span.role for span in spans} == roles[values["action"]] and len(spans) == len(roles[values["action"]])
        for span in spans:
            assert (span.start, span.step) == (rec.time(step), step)
            assert gantt.lanes.label(span.lane).split()[1] == str(values["rank"])
        assert {"rank", "microbatch", "stage", "action", "direction" if schedule == "dualpipe" else "chunk"} <= set(values)
        assert values["stage"] < stages * table.chunks
        assert "{" not in rec.title(step) + rec.detail(step)


def test_overlapped_pair_is_one_step_with_a_span_in_either_lane_of_its_rank():
    rec = run(schedule="dualpipev")
    gantt = rec.panels[0].view
    assert [gantt.lanes.label(lane) for lane in range(3)] == ["rank 0 F", "rank 0 B", "rank 1 F"]
    assert gantt.lane_groups == (0, 0, 1, 1, 2, 2, 3, 3)
    step = at(rec, rank=0, action="forward and backward")
    forward, backward = (gantt.get(index) for index in gantt.current(gantt.at(step)))
    assert (forward.start, forward.end) == (backward.start, backward.end) and forward.end - forward.start == 3
    assert (forward.lane, backward.lane) == (0, 1) and (forward.text, backward.text) == ("F7", "b3")
    assert rec.title(step) == "Rank 0 runs forward of microbatch 7 on chunk 0 and backward of 3 on chunk 1, overlapped"
    assert "The input of microbatch 7 is at hand." in rec.detail(step)
    assert f"gives both results away at its end, at {forward.end:g}" in rec.detail(step)
    assert rec.fact("makespan", step) >= forward.end


def test_weight_gradients_have_a_role_of_their_own():
    gantt = run(schedule="zb_h1").panels[0].view
    kinds = {(gantt.get(index).role, gantt.get(index).text[0]) for index in range(len(gantt))}
    assert kinds == {("forward", "F"), ("backward", "I"), ("weight", "W")}


def test_spans_name_chunk_and_microbatch():
    def texts(**params):
        gantt = run(microbatches=2, **params).panels[0].view
        return {gantt.get(index).text for index in range(len(gantt))}

    assert texts(schedule="1f1b", stages=2) == {"F0", "F1", "B0", "B1"}
    assert texts(schedule="interleaved", stages=2) == {"F0", "F1", "f0", "f1", "B0", "B1", "b0", "b1"}
    assert {"F₀0", "B₂1"} <= texts(schedule="interleaved", stages=2, chunks=3)


def at(rec: Recording, **tags) -> int:
    return next(step for step in steps(rec) if tags.items() <= rec.values(step).items())


def test_the_moment_is_told_where_rank_0_frees_microbatch_0(one_f_one_b):
    step = at(one_f_one_b, rank=0, microbatch=0, action="backward")
    assert "after 4 of its 8 forwards" in one_f_one_b.detail(step)
    assert "before it forwards microbatch 4" in one_f_one_b.detail(step)
    assert step < at(one_f_one_b, rank=0, microbatch=4, action="forward")
    late = run(schedule="gpipe")
    assert "Only now, after all its 8 forwards" in late.detail(at(late, rank=0, microbatch=0, action="backward"))
    assert "it held 8 at once" in late.detail(at(late, rank=0, microbatch=0, action="backward"))
    few = run(schedule="1f1b", microbatches=3)  # fewer than ranks: 1F1B holds all of them too
    assert "Only now" in few.detail(at(few, rank=0, microbatch=0, action="backward"))


def test_details_say_why_an_action_starts_when_it_does(one_f_one_b):
    def told(rec, **tags):
        return rec.detail(at(rec, **tags))

    assert told(one_f_one_b, rank=0, microbatch=0, action="forward").startswith("Microbatch 0 enters the pipeline")
    assert "came from rank 3, which finished it at 6. Rank 2 was idle from 4 until then, for 2" in told(
        one_f_one_b, rank=2, microbatch=0, action="backward"
    )
    assert "rank 2 was there from 4 on; rank 3 was busy until 6" in told(one_f_one_b, rank=3, microbatch=1, action="forward")
    assert "The loss of microbatch 0 was known on this rank at 4" in told(one_f_one_b, rank=3, microbatch=0, action="backward")
    slow = run(schedule="1f1b", p2p_time=0.5, p2p_bandwidth=1024)
    assert "left rank 0 at 1, travelled 1 and arrived at 2" in told(slow, rank=1, microbatch=0, action="forward")
    alone = run(schedule="interleaved", stages=1)
    assert "finished on this rank at 1, so nothing is sent" in told(alone, microbatch=0, chunk=1, action="forward")


def test_facts_of_a_step_count_the_actions_up_to_it(one_f_one_b):
    for name in ("makespan", "peak_stash", "p2p_bytes", "own_span_idle"):
        series = one_f_one_b.facts[name].column(len(one_f_one_b))
        assert (np.diff(series) >= 0).all(), name
    assert one_f_one_b.fact("makespan", 0) == 1
    assert one_f_one_b.fact("bubble_of_makespan", 0) == 0.75
    assert one_f_one_b.fact("peak_stash", at(one_f_one_b, rank=0, microbatch=3, action="forward")) == 4


def test_phases_of_warm_up_steady_and_cool_down(one_f_one_b):
    assert [(phase.name, phase.first) for phase in one_f_one_b.phases] == [("warm-up", 0), ("steady", 10), ("cool-down", 57)]
    assert at(one_f_one_b, action="backward") == 10
    assert max(s for s in steps(one_f_one_b) if one_f_one_b.values(s)["action"] == "forward") == 56
    assert [phase.name for phase in run(schedule="gpipe").phases] == ["warm-up", "cool-down"]


def test_plot_follows_the_stash_of_each_rank(one_f_one_b):
    plot = one_f_one_b.panels[1].view
    assert isinstance(plot, Plot)
    assert [curve.name for curve in plot.curves] == ["peak so far", "rank 0", "rank 1", "rank 2", "rank 3"]
    assert [max(curve.y) for curve in plot.curves] == [4, 4, 3, 2, 1]
    for step in steps(one_f_one_b):
        frame, rank = plot.at(step), one_f_one_b.values(step)["rank"]
        assert frame.cursor == one_f_one_b.time(step)
        assert frame.values[0] == one_f_one_b.fact("peak_stash", step)
        assert frame.values[1 + rank] == one_f_one_b.fact("stash_held", step)
    for curve in plot.curves:
        assert (np.diff(curve.x) >= 0).all() and (np.diff(curve.steps) >= 0).all()
    many = run(stages=64, microbatches=4, batch=1, hidden=2).panels[1].view
    assert [curve.name for curve in many.curves][1::7] == ["rank 0", "rank 63"]


def test_formula_facts_stand_only_where_the_formula_applies():
    assert run().facts["bubble_formula"].note == "(p-1)/(m+p-1)"
    assert run().facts["bubble_formula"].kind == run().facts["idle_formula"].kind == "formula"
    assert run(schedule="interleaved").fact("bubble_formula") == pytest.approx(9 / 57)
    for params in ({"p2p_time": 1}, {"forward_time": "1,2,1,1"}, {"schedule": "interleaved", "microbatches": 3}, {"memory_limit": 2}):
        rec = run(**params)
        assert "bubble_formula" not in rec.facts and "idle_formula" not in rec.facts
        assert all(check.ok for check in rec.checks)


@pytest.mark.parametrize(("schedule", "note"), [
    ("zb_h1", "(p-1)(F+B-2W), B = I+W; exact for W <= F and W <= I"),
    ("zbv", "(p-1)F, B = I+W; exact for F = I = W"),
    ("dualpipev", "(p-1)(F&B+B-3W), B = I+W; exact for F = I >= W and F&B <= F+B"),
])  # fmt: skip
def test_published_formula_is_told_and_checked_only_for_times_at_which_it_is_exact(schedule, note):
    rec = run(schedule=schedule, input_gradient_time=2, weight_gradient_time=3)
    assert rec.facts["idle_formula"].note == note
    assert "bubble_formula" not in rec.facts
    assert "idle of the most idle rank" not in {check.name for check in rec.checks} and all(check.ok for check in rec.checks)
    assert "idle of the most idle rank" in {check.name for check in run(schedule=schedule).checks}


def test_overlapped_time_is_that_of_a_pair_by_default_both_in_turn():
    assert run(schedule="dualpipev").fact("makespan") == run(schedule="dualpipev", overlapped_time=3).fact("makespan") == 54
    faster = run(schedule="dualpipev", overlapped_time=2)
    assert faster.fact("makespan") < 54
    step = at(faster, action="forward and backward")
    span = faster.panels[0].view.get(faster.panels[0].view.at(step).span)
    assert span.end - span.start == 2
    assert run(schedule="1f1b", overlapped_time=2).fact("makespan") == 33  # it has no pairs
    slow_rank = run(schedule="dualpipev", overlapped_time="2,2,2,3")
    assert faster.fact("makespan") < slow_rank.fact("makespan") <= 54
    assert all(check.ok for check in [*faster.checks, *slow_rank.checks])


@pytest.mark.parametrize(("schedule", "limits"), [
    ("gpipe", (1, 2, 4, 7)), ("1f1b", (1, 2, 3)), ("zb_h1", (1, 3)),
    ("interleaved", (1, 1.5, 4, 5)), ("interleaved_zb", (1, 2.5)), ("zbv", (1, 3)),
])  # fmt: skip
def test_memory_limit_is_obeyed_and_costs_time(schedule, limits):
    free = run(schedule=schedule)
    before = float("inf")
    for limit in limits:
        rec = run(schedule=schedule, memory_limit=limit)
        assert all(check.ok for check in rec.checks), rec.checks
        kept = next(check for check in rec.checks if check.name == "chunks held within the memory limit")
        assert kept.want == "at most " + ",".join([str(int(limit * rec.fact("peak_stash") / rec.fact("peak_stash_microbatches")))] * 4)
        assert rec.fact("peak_stash_microbatches") <= limit < free.fact("peak_stash_microbatches")
        assert rec.fact("real_model") == "ran"
        assert before > rec.fact("makespan") >= (free.fact("makespan") if schedule != "interleaved" else 57)
        before = rec.fact("makespan")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_memory_limit_that_does_not_bind_changes_nothing(schedule):
    free, kept = run(schedule=schedule), run(schedule=schedule, memory_limit=8)
    assert first_difference(free, kept) is None
    assert len(kept.checks) == len(free.checks) + 1 and all(check.ok for check in kept.checks)


def test_memory_limit_of_each_rank():
    rec = run(schedule="gpipe", memory_limit="4,3,2,1")
    assert rec.fact("peak_stash_by_rank") == "4,3,2,1"
    assert rec.fact("makespan") == 33  # what 1F1B holds, in 1F1B's time


def test_memory_limit_that_is_not_kept_is_seen(monkeypatch):
    monkeypatch.setattr(simulation, "within", lambda table, limits, costs, tick: table)
    failed = {check.name for check in run(schedule="gpipe", memory_limit=4).checks if not check.ok}
    assert failed == {"chunks held within the memory limit"}


def test_unequal_stages_idle_differently_and_the_bubble_is_their_mean():
    rec = run(schedule="1f1b", forward_time="1,2,1,1", input_gradient_time="1,2,1,1", weight_gradient_time="1,2,1,1")
    idle = [row["idle"] for row in by_rank(rec)]
    assert idle == [29, 5, 29, 29]
    assert rec.fact("makespan") == 53
    assert rec.fact("bubble_of_makespan") == pytest.approx(np.mean(idle) / 53)


def test_times_by_rank_reach_all_chunks_of_a_rank_and_times_by_chunk_only_theirs():
    per_rank = run(schedule="interleaved", stages=2, forward_time="1,3")
    by_chunk = run(schedule="interleaved", stages=2, forward_time="1,3,1,3")
    other = run(schedule="interleaved", stages=2, forward_time="1,1,3,3")
    assert per_rank.fact("makespan") == by_chunk.fact("makespan") != other.fact("makespan")


def test_frozen_weights_cost_nothing_in_backward():
    assert run(weight_gradient_time=0).fact("makespan") == 11 * 2


@pytest.mark.parametrize(("params", "said"), [
    ({"microbatches": 0}, "pipeline.microbatches: found 0; allowed: a whole number from 1 to 65,536"),
    ({"stages": 1025}, "pipeline.stages: found 1025; allowed: a whole number from 1 to 1,024"),
    ({"forward_time": 0}, "pipeline.forward_time: found 0; allowed: numbers separated by commas (each a number) above 0"),
    ({"weight_gradient_time": "1,-1,1,1"}, "pipeline.weight_gradient_time: found 1,-1,1,1; allowed: "),
    ({"input_gradient_time": "1,2"}, "pipeline.input_gradient_time: found 2 values; allowed: 1 value, or 4 (one a rank)"),
    ({"schedule": "interleaved", "forward_time": "1,2,3"}, "allowed: 1 value, or 4 (one a rank), or 8 (one for each chunk of the model)"),
    ({"forward_time": ""}, "pipeline.forward_time: found 0 values"),
    ({"schedule": "gpipe", "chunks": 2}, "pipeline schedule gpipe: chunks = 2; allowed: chunks = 1"),
    ({"schedule": "zb"}, "pipeline.schedule: found zb; allowed: gpipe, 1f1b, interleaved"),
    ({"stages": 1024, "microbatches": 65536}, "= 134,217,728 actions; allowed: up to 2,000,000 actions"),
    ({"schedule": "dualpipev", "microbatches": 7}, "schedule dualpipev: microbatches = 7; allowed: microbatches >= 2 x stages = 8"),
    ({"schedule": "dualpipe", "stages": 5}, "pipeline schedule dualpipe: stages = 5; allowed: an even number of stages"),
    ({"schedule": "zbv", "chunks": 3}, "pipeline schedule zbv: chunks = 3; allowed: chunks = 2"),
    ({"memory_limit": 0.5}, "pipeline.memory_limit: found 0.5; allowed: numbers separated by commas (each a number) from 1"),
    ({"memory_limit": 0}, "pipeline.memory_limit: found 0; allowed: "),
    ({"memory_limit": "4,4"}, "pipeline.memory_limit: found 2 values; allowed: 1 value, or 4 (one a rank)"),
    ({"schedule": "looped_bfs", "memory_limit": 4}, "found 4 microbatches on rank 0 of looped_bfs; allowed: at least 8, since the last"),
    ({"schedule": "dualpipev", "memory_limit": 4}, "allowed: at least 4.5, since its overlapped pairs fix which activations are held"),
    ({"schedule": "dualpipev", "overlapped_time": 1.5}, "pipeline.overlapped_time: found 1.5; allowed: at least 2: a pair takes no less"),
    ({"schedule": "dualpipev", "overlapped_time": 0}, "pipeline.overlapped_time: found 0; allowed: "),
    ({"schedule": "dualpipev", "overlapped_time": "3,3"}, "pipeline.overlapped_time: found 2 values; allowed: 1 value, or 4"),
    ({"p2p_time": -1}, "pipeline.p2p_time: found -1"),
    ({"p2p_bandwidth": 1e-300}, "pipeline.p2p_bandwidth: a message of 512 bytes takes"),
])  # fmt: skip
def test_input_that_cannot_be_used_is_refused_in_one_line(params, said):
    with pytest.raises(BadInput) as refused:
        run(**params)
    assert said in str(refused.value)


def test_parameters_are_named_and_described():
    described = {field.name: field for field in fields(PipelineParams)}
    assert {"schedule", "stages", "microbatches", "chunks", "forward_time", "input_gradient_time", "weight_gradient_time",
            "overlapped_time", "p2p_time", "p2p_bandwidth", "memory_limit"} <= set(described)  # fmt: skip
    assert all(field.description for field in described.values())
    assert described["schedule"].choices == tuple(SCHEDULES)


def test_large_schedule_is_timed_without_torch_and_says_so():
    code = (
        "import sys; from core.simulation import record;"
        "rec = record('pipeline', {'schedule': 'interleaved', 'stages': 16, 'microbatches': 256});"
        "assert all(check.ok for check in rec.checks);"
        "print(len(rec), rec.fact('real_model'), 'torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    assert out.stdout.strip() == "16384 not run: 16,384 actions, more than 4,096 False"


@pytest.mark.parametrize(("params", "what"), [
    ({"hidden": 2048}, "parameters"),
    ({"hidden": 1000, "batch": 500, "stages": 2}, "FLOP"),
    ({"hidden": 1, "batch": 65536, "stages": 1, "microbatches": 1024}, "bytes of activations"),
])  # fmt: skip
def test_model_that_is_too_big_is_not_run(params, what):
    rec = run(**params)
    assert what in rec.fact("real_model")
    assert "loss" not in rec.facts


def test_run_can_be_abandoned():
    rec = Recording("pipeline")
    rec.cancel()
    with pytest.raises(Cancelled):
        record("pipeline", {}, recording=rec)


def test_wrong_schedule_fails_the_checks(monkeypatch):
    """1F1B that warms up one forward too long: same makespan, but not the stash it should have."""
    entry = SCHEDULES["1f1b"]

    def too_eager(ranks, microbatches, chunks):
        orders = entry.orders(ranks, microbatches, chunks)
        first = orders[0]
        held = ranks - 1
        first[[held + 1, held + 2]] = first[[held + 2, held + 1]]
        return orders

    monkeypatch.setitem(SCHEDULES, "1f1b", entry._replace(orders=too_eager))
    failed = {check.name for check in run(schedule="1f1b").checks if not check.ok}
    assert failed == {"peak stash by rank", "peak stash by rank, freed at I"}


def test_wrong_timing_fails_the_longest_path_check(monkeypatch):
    def late(table, costs, tick=None):
        timing = real(table, costs, tick)
        timing.start[-1] += 0.5
        timing.end[-1] += 0.5
        return timing

    real = simulation.time_table
    monkeypatch.setattr(simulation, "time_table", late)
    failed = {check.name for check in run().checks if not check.ok}
    assert "start of every action" in failed


SCENARIOS = [
    f"training/pipeline{tail}"
    for tail in ("", "_interleaved", "_unequal", "_memory_limit", "_zero_bubble", "_zero_bubble_times", "_dualpipe")
]


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_shows_the_numbers_it_promises(name):
    scenario = find(name)
    assert scenario.question and scenario.takeaway
    for variant in scenario.variant_names:
        rec = record(scenario.simulation, scenario.parsed(variant))
        judged = judge(scenario, variant, rec)
        assert judged
        assert all(check.ok for check in [*judged, *rec.checks]), (variant, judged, rec.checks)
