"""The pipeline recording: its facts, checks, steps, views, phases and refusals."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.errors import BadInput, Cancelled
from core.recording import Recording
from core.scenario import find, judge
from core.simulation import fields, record
from core.training import pipeline as simulation
from core.training.pipeline import PipelineParams
from core.training.schedules import SCHEDULES
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


@pytest.mark.parametrize(("schedule", "want"), [
    ("gpipe", {"makespan": 33, "makespan_model_time": 33, "bubble_of_makespan": 9 / 33, "bubble_of_ideal": 9 / 24, "own_span_idle": 9,
               "peak_stash": 8, "peak_stash_freed_at_input": 8, "peak_stash_microbatches": 8, "parameter_copies": 1, "p2p_bytes": 24576}),
    ("1f1b", {"makespan": 33, "makespan_model_time": 33, "bubble_of_makespan": 9 / 33, "bubble_of_ideal": 9 / 24, "own_span_idle": 9,
              "peak_stash": 4, "peak_stash_freed_at_input": 4, "peak_stash_microbatches": 4, "parameter_copies": 1, "p2p_bytes": 24576}),
    ("interleaved", {"makespan": 57, "makespan_model_time": 28.5, "bubble_of_makespan": 9 / 57, "bubble_of_ideal": 9 / 48,
                     "own_span_idle": 9, "peak_stash": 11, "peak_stash_freed_at_input": 11, "peak_stash_microbatches": 5.5,
                     "parameter_copies": 1, "p2p_bytes": 57344}),
])  # fmt: skip
def test_final_facts_of_four_ranks_and_eight_microbatches(schedule, want):
    rec = run(schedule=schedule, stages=4, microbatches=8)
    got = {fact.name: fact.value for fact in rec.final_facts()}
    assert {name: got[name] for name in want} == pytest.approx(want)
    assert all(check.ok for check in rec.checks), rec.checks
    assert len(rec.checks) == 7


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
    rec = run(schedule=schedule, stages=3, microbatches=5, forward_time="1,2,0.5", p2p_time=0.25)
    assert len(rec) == 2 * 3 * 5 * SCHEDULES[schedule].chunks
    keys = [(rec.time(step), rec.values(step)["rank"]) for step in steps(rec)]
    assert keys == sorted(keys)
    gantt = rec.panels[0].view
    assert isinstance(gantt, Gantt) and len(gantt) == len(rec)
    for step in steps(rec):
        values, span = rec.values(step), gantt.get(gantt.at(step).span)
        assert (span.lane, span.start, span.step) == (values["rank"], rec.time(step), step)
        assert span.role == values["action"]
        assert {"rank", "microbatch", "stage", "chunk", "action"} <= set(values)
        assert "{" not in rec.title(step) + rec.detail(step)


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
    assert run().facts["bubble_formula"].kind == "formula"
    assert run(schedule="interleaved").fact("bubble_formula") == pytest.approx(9 / 57)
    for params in ({"p2p_time": 1}, {"forward_time": "1,2,1,1"}, {"schedule": "interleaved", "microbatches": 3}):
        rec = run(**params)
        assert "bubble_formula" not in rec.facts
        assert all(check.ok for check in rec.checks)


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
    ({"p2p_time": -1}, "pipeline.p2p_time: found -1"),
    ({"p2p_bandwidth": 1e-300}, "pipeline.p2p_bandwidth: a message of 512 bytes takes"),
])  # fmt: skip
def test_input_that_cannot_be_used_is_refused_in_one_line(params, said):
    with pytest.raises(BadInput) as refused:
        run(**params)
    assert said in str(refused.value)


def test_parameters_are_named_and_described():
    described = {field.name: field for field in fields(PipelineParams)}
    assert {"schedule", "stages", "microbatches", "chunks", "forward_time", "input_gradient_time", "weight_gradient_time", "p2p_time",
            "p2p_bandwidth"} <= set(described)  # fmt: skip
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
    assert failed == {"peak stash by rank"}


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


SCENARIOS = ["training/pipeline", "training/pipeline_interleaved", "training/pipeline_unequal"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_shows_the_numbers_it_promises(name):
    scenario = find(name)
    assert scenario.question and scenario.takeaway
    for variant in scenario.variant_names:
        rec = record(scenario.simulation, scenario.parsed(variant))
        judged = judge(scenario, variant, rec)
        assert judged
        assert all(check.ok for check in [*judged, *rec.checks]), (variant, judged, rec.checks)
