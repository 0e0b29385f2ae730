"""Checkpointing and offload on one card (arXiv 1604.06174, 2205.05198): what does each byte saved cost?

`recompute_run.Run` is the algorithm, on small layers with real tensors: what autograd saves is kept, dropped and computed again, or moved
to the host and back. Their bytes, FLOPs and times are shown for layers of the size asked for.
"""

from __future__ import annotations

from core.recording import Recorder
from core.simulation import simulation
from core.training.recompute_checks import record_checks
from core.training.recompute_run import Problem, Run
from core.training.recompute_setup import Job, RecomputeParams
from core.training.recompute_story import tell


@simulation("recompute")
def recompute(params: RecomputeParams, rec: Recorder) -> None:
    """What does each byte saved cost? Checkpoints and offload on one card, with real tensors kept, dropped and moved."""
    job = Job.of(params)
    work = Problem.of(job, rec.generator, rec.device)
    run = Run(job, work, lambda done: rec.progress(0.5 * done, "forward and backward")).run()
    ledger = tell(rec, job, run)
    rec.progress(0.7, "plain autograd and torch's checkpoints")
    record_checks(rec, job, work, run, ledger.peak, float(max(action.end for action in run.actions)))
