"""The planner: a small grid by brute force, bytes equal to the memory ledger, published layouts, refusals, and the command."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from core.errors import BadInput
from core.hardware import ACCELERATORS
from core.recording import Recorder, Recording
from core.simulation import record
from core.training.memory_setup import Job as MemoryJob
from core.training.memory_setup import MemoryParams
from core.training.memory_views import ledger_of
from core.training.plan import degrees, search_all
from core.training.plan_search import FITS, TOO_LARGE, Found
from core.training.plan_setup import Job, PlanParams
from core.training.plan_views import frontier

MODELS = Path(__file__).resolve().parents[4] / "shared" / "data" / "models"
SMALL = {"layers": 4, "hidden": 256, "heads": 4, "ffn": 1024, "vocabulary": 1000, "sequence": 128, "layer_type": "llama"}
SIZES_22B = {"layers": 48, "hidden": 6144, "heads": 64, "vocabulary": 51200}
SIZES_175B = {"layers": 96, "hidden": 12288, "heads": 96, "vocabulary": 51200}


def search(**params: object) -> tuple[Job, Found]:
    job = Job.of(PlanParams(**params))
    return job, search_all(job, Recorder(Recording("plan")))


def memory_total(job: Job, found: Found, row: int) -> float:
    """The bytes that `memory` gives for a row, asked through its own parameters."""
    shared = {name: getattr(job.params, name) for name in type(job.params).__mro__[1].__struct_fields__}
    pipeline = int(found.stages[row])
    one = MemoryParams(
        **{**shared, **degrees(found, row)},
        microbatches=int(found.layouts.microbatches[row]),
    )
    if pipeline == 1:
        one = MemoryParams(**{**{f: getattr(one, f) for f in one.__struct_fields__}, "chunks": 1})
    return float(np.sum(list(ledger_of(MemoryJob.of(one)).values()), axis=0).max())


class TestBruteForce:
    @pytest.mark.parametrize("model", [SMALL, {**SMALL, "experts": 4}], ids=["dense", "experts"])
    @pytest.mark.parametrize("gpus", [1, 6, 8])
    def test_every_layout_is_considered_once_and_judged_as_memory_judges_it(self, model, gpus):
        given = {"gpus": gpus, "global_batch": 12, "accelerator": "a100", "largest_micro_batch": 4}
        _, roomy = search(**model, **given, reserve=0)
        model = {**model, "reserve": ACCELERATORS["a100"].memory - float(np.nanmedian(roomy.bytes))}  # half of them do not fit
        job, found = search(**model, **given)
        assert {FITS, TOO_LARGE} <= set(found.verdict.tolist())
        rows = {tuple(degrees(found, row).values()): row for row in range(len(found))}
        assert len(rows) == len(found), "no layout twice"
        capacity = job.machine.device.memory
        names = list(degrees(found, 0))
        seen = 0
        for pp, tp, cp, ep in product(range(1, gpus + 1), range(1, gpus + 1), range(1, gpus + 1), range(1, 5 if "experts" in model else 2)):
            if gpus % (pp * tp * cp) or (ep > 1 and (4 % ep or ep > gpus // pp)):
                continue
            dp = gpus // (pp * tp * cp)
            samples = 12 // dp if 12 % dp == 0 else 0
            sizes = [b for b in range(1, 5) if samples and samples % b == 0] or [1]
            for zero, sp, mb, rc in product(range(4), (False, True), sizes, ("none", "selective", "full")):
                if (zero and dp * cp == 1) or (sp and tp == 1):
                    continue
                row = rows[dp, zero, tp, sp, pp, cp, ep, mb, rc]
                seen += 1
                given = dict(zip(names, (dp, zero, tp, sp, pp, cp, ep, mb, rc), strict=True))
                try:
                    assert 12 % (dp * mb) == 0
                    MemoryJob.of(MemoryParams(**model, **given))
                except (AssertionError, BadInput):
                    assert found.verdict[row] > TOO_LARGE, given
                    continue
                total = memory_total(job, found, row)
                assert total == pytest.approx(found.bytes[row], abs=1)
                assert found.verdict[row] == (FITS if total <= capacity else TOO_LARGE)
        assert seen == len(found)

    def test_the_best_is_the_smallest_time_among_those_that_fit(self):
        _, found = search(**SIZES_22B, gpus=16, global_batch=64)
        order = found.order()
        fitting = found.verdict == FITS
        assert found.seconds[order[0]] == found.seconds[fitting].min()
        assert (np.diff(found.seconds[order[: fitting.sum()]]) >= 0).all()
        assert (np.diff(found.bytes[order[fitting.sum() : (found.verdict <= TOO_LARGE).sum()]]) >= 0).all()

    def test_nothing_on_the_frontier_is_beaten_and_everything_else_is(self):
        _, found = search(**SIZES_22B, gpus=8, global_batch=16)
        edge = set(frontier(found))
        fitting = np.flatnonzero(found.verdict == FITS).tolist()
        for row in fitting:
            better = (found.bytes[fitting] <= found.bytes[row]) & (found.seconds[fitting] <= found.seconds[row])
            strictly = better & ((found.bytes[fitting] < found.bytes[row]) | (found.seconds[fitting] < found.seconds[row]))
            assert not (row in edge and strictly.any())
        cheapest = min(fitting, key=lambda row: (found.bytes[row], found.seconds[row]))
        assert cheapest in edge


class TestPublishedLayouts:
    @pytest.mark.parametrize(
        ("sizes", "pipeline", "micro", "gpus"), [(SIZES_22B, 1, 4, 8), (SIZES_175B, 8, 1, 64)], ids=["22B", "175B"]
    )  # fmt: skip
    def test_the_22b_and_175b_layouts_of_the_paper_fit_on_a100s(self, sizes, pipeline, micro, gpus):
        _, found = search(
            **sizes, sequence=2048, gpus=gpus, accelerator="a100", global_batch=64 if gpus == 64 else 4, attention="math", convention="18",
            activation_model="paper", chunks=3 if pipeline == 8 else 1,
        )  # fmt: skip
        want = {
            "tensor_parallel": 8,
            "sequence_parallel": True,
            "pipeline_parallel": pipeline,
            "micro_batch": micro,
            "recompute": "selective",
        }
        rows = [row for row in range(len(found)) if want.items() <= degrees(found, row).items()]
        assert rows
        assert [found.verdict[row] for row in rows] == [FITS] * len(rows)

    @pytest.mark.parametrize(
        ("sizes", "pipeline", "micro", "gpus", "batch", "seconds"),
        [(SIZES_22B, 1, 4, 8, 4, 1.10), (SIZES_175B, 8, 1, 64, 64, 13.75)],
        ids=["22B", "175B"],
    )
    def test_the_estimate_is_near_the_published_time(self, sizes, pipeline, micro, gpus, batch, seconds):
        """Seconds an iteration on A100s, selective recomputation with sequence parallelism (arXiv 2205.05198, table 5)."""
        _, found = search(
            **sizes, sequence=2048, gpus=gpus, accelerator="a100", global_batch=batch, attention="math", convention="18",
            activation_model="paper", chunks=3 if pipeline == 8 else 1,
        )  # fmt: skip
        want = {
            "tensor_parallel": 8,
            "sequence_parallel": True,
            "pipeline_parallel": pipeline,
            "micro_batch": micro,
            "recompute": "selective",
        }
        row = next(row for row in range(len(found)) if want.items() <= degrees(found, row).items())
        assert found.seconds[row] == pytest.approx(seconds, rel=0.25)


class TestTwoLevels:
    def test_a_tensor_group_that_crosses_nodes_loses_its_place(self):
        best = {node: record("plan", {**SIZES_22B, "gpus": 64, "global_batch": 16, "node_size": node}) for node in (8, 4)}
        assert best[8].fact("best_tensor_parallel") == 8
        assert best[4].fact("best_tensor_parallel") == 4
        assert best[8].fact("best_step_time") < best[4].fact("best_step_time")

    def test_crossing_changes_tensor_time_by_the_ratio_of_the_links(self):
        job, found = search(**SIZES_22B, gpus=8, global_batch=8)
        _, apart = search(**SIZES_22B, gpus=8, global_batch=8, node_size=4)
        rows = found.layouts.tensor == 8
        assert (apart.parts["tensor"][rows] > found.parts["tensor"][rows] * 2).all()
        inside, between = job.machine.inside.bandwidth, job.machine.between.bandwidth
        assert (apart.parts["tensor"][rows] < found.parts["tensor"][rows] * inside / between * 1.01).all()
        assert (apart.parts["tensor"][found.layouts.tensor <= 4] == found.parts["tensor"][found.layouts.tensor <= 4]).all()


class TestTime:
    def test_one_gpu_computes_and_waits_for_nobody(self):
        _, found = search(**SMALL, gpus=1, global_batch=4, accelerator="h100")
        assert (found.exposed[found.verdict == FITS] == 0).all()
        assert (found.parts["bubble"][found.verdict == FITS] == 0).all()

    def test_the_bubble_is_p_minus_1_over_m(self):
        even = {**SMALL, "vocabulary": 0}
        _, found = search(**even, gpus=4, global_batch=16, accelerator="h100", largest_micro_batch=1)
        row = next(
            r for r in range(len(found)) if found.stages[r] == 4 and found.layouts.recompute[r] == 0 and found.verdict[r] == FITS
        )  # fmt: skip
        busy = found.parts["compute"][row]
        assert found.parts["bubble"][row] == pytest.approx(busy * 3 / 16)

    def test_chunks_divide_the_bubble(self):
        bubbles = []
        for chunks in (1, 2):
            _, found = search(**{**SMALL, "vocabulary": 0}, gpus=2, global_batch=16, chunks=chunks, largest_micro_batch=1)
            bubbles.append(found.parts["bubble"][(found.stages == 2) & (found.layouts.recompute == 0)].max())
        assert bubbles[1] == pytest.approx(bubbles[0] / 2)

    def test_full_recomputation_costs_a_third_more(self):
        _, found = search(**{**SIZES_22B, "vocabulary": 0}, gpus=1, global_batch=1, accelerator="h100")
        none, full = (found.parts["compute"][found.layouts.recompute == level][0] for level in (0, 2))
        assert full / none == pytest.approx(4 / 3, rel=0.01)

    def test_no_layout_beats_the_peak(self):
        job, found = search(**SIZES_22B, gpus=16, global_batch=16)
        from core.training.plan_time import step_flop

        flop = step_flop(job.model, job.params.sequence, 16)
        fitting = found.verdict == FITS
        used = flop / found.seconds[fitting] / 16 / ACCELERATORS["h100"].flops["bf16"]
        assert used.min() > 0 and used.max() < job.params.utilisation


class TestRecording:
    def test_one_step_is_one_layout_and_its_reason(self):
        recording = record("plan", {**SMALL, "gpus": 6, "global_batch": 12})
        assert len(recording) == recording.fact("layouts_considered") + 1
        assert [check for check in recording.checks if not check.ok] == []
        phases = {phase.name: phase.first for phase in recording.phases}
        impossible = recording.detail(phases["impossible"])
        assert "it takes" in impossible and "3 tensor ranks for 4 heads" in " ".join(
            recording.detail(step) for step in range(phases["impossible"], len(recording))
        )

    @pytest.mark.skipif(not MODELS.exists(), reason="the folder with published config.json files is absent")
    @pytest.mark.parametrize("model", ["Llama-3-70B", "Mixtral-8x7B-v0.1", "DeepSeek-V3"])
    def test_published_models_are_planned(self, model):
        gpus = 2048 if model == "DeepSeek-V3" else 64
        recording = record("plan", {"model": str(MODELS / f"{model}.json"), "gpus": gpus, "global_batch": 2048})
        assert recording.fact("layouts_fitting") > 0
        assert recording.fact("best_total_bytes") <= ACCELERATORS["h100"].memory
        assert 0.1 < recording.fact("best_mfu") < 0.6


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({**SIZES_175B, "gpus": 2}, ["plan.gpus", "none of", "on 2 x h100", "needs", "of 85.9 GB", "more GPUs"]),
        ({**SMALL, "gpus": 7, "global_batch": 3}, ["none of", "7 tensor ranks for 4 heads", "3 samples"]),
        ({**SMALL, "gpus": 0}, ["gpus", "found 0"]),
        ({**SMALL, "accelerator": "h101"}, ["did you mean"]),
        ({**SMALL, "inter_link": "carrier"}, ["unknown name 'carrier'"]),
        ({**SMALL, "convention": "fsdp2"}, ["ZeRO stage"]),
        ({**SMALL, "gpus": 720720, "experts": 720}, ["can be laid out in", "1,000,000"]),
        ({**SMALL, "utilisation": 0}, ["utilisation"]),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(params, words):
    with pytest.raises(BadInput) as refused:
        record("plan", params)
    for word in words:
        assert word in str(refused.value)


class TestCommand:
    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "tui.cli", "plan", *arguments], capture_output=True, text=True, timeout=120)

    def test_json_gives_every_layout_with_its_reason(self, tmp_path):
        config = tmp_path / "config.json"
        config.write_text(json.dumps({
            "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4,
            "vocab_size": 1000,
        }))  # fmt: skip
        done = self.command(str(config), "--gpus", "6", "--accelerator", "h100", "--sequence", "128", "--global-batch", "12", "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        facts = {fact["name"]: fact["value"] for fact in found["facts"]}
        assert len(found["layouts"]) == facts["layouts_considered"]
        assert sum(layout["fits"] for layout in found["layouts"]) == facts["layouts_fitting"]
        assert found["layouts"][0]["step_time"] == facts["best_step_time"]
        for layout in found["layouts"]:
            assert (layout["reason"] is None) == layout["fits"]
            if layout["step_time"] is not None:
                assert math.isclose(sum(layout["seconds"].values()), layout["step_time"], rel_tol=1e-9)

    def test_json_gives_the_reasons_also_when_nothing_fits(self):
        sizes = [part for name, value in SIZES_175B.items() for part in ("--set", f"{name}={value}")]
        done = self.command("--gpus", "2", *sizes, "--json")
        assert done.returncode == 2
        assert "none of" in done.stderr and len(done.stderr.splitlines()) == 1
        found = json.loads(done.stdout)
        assert found["layouts"] and found["checks"] == []
        assert not any(layout["fits"] for layout in found["layouts"]) and all(layout["reason"] for layout in found["layouts"])
        nearest = found["layouts"][0]
        assert nearest["total_bytes"] == min(layout["total_bytes"] for layout in found["layouts"] if layout["total_bytes"])
        assert found["params"]["gpus"] == 2

    def test_text_shows_the_fastest_and_counts_the_others(self):
        done = self.command("--gpus", "8", "--set", "layers=8", "--set", "hidden=8192", "--set", "heads=64", "--top", "3")
        assert done.returncode == 0, done.stderr
        assert len([line for line in done.stdout.splitlines() if line.endswith(("none", "selective", "full"))]) == 3
        assert "all hold" in done.stdout

    @pytest.mark.parametrize("arguments", [("--gpus", "none"), ("nothing.json",), ("--set", "hidden"), ("--accelerator", "abacus")])
    def test_bad_input_is_exit_code_2_and_one_line(self, arguments):
        done = self.command(*arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
