"""The search: every layout through the rules, the memory ledger and the clock, thousands at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from core.training.memory_ledger import LINES, Layouts, Setting, ledger, total
from core.training.memory_model import Model
from core.training.memory_setup import rules
from core.training.memory_stages import Stages
from core.training.plan_layouts import Group, take
from core.training.plan_time import COMMUNICATION, PARTS, Machine, step_parts

BLOCK = 400_000
"""Stages x layouts that go through the ledger together."""
FITS, TOO_LARGE = 0, 1


@dataclass(frozen=True)
class Reason:
    """Why layouts are out: the parameter, a sentence with ``{value}``, and what would be allowed."""

    parameter: str
    text: str
    allowed: str


@dataclass(frozen=True)
class Found:
    """All layouts, one row each. ``verdict``: `FITS`, `TOO_LARGE`, or 2 + index into ``reasons``, of which ``value`` says the
    number found. ``bytes`` is the fullest rank's, ``seconds`` a step's; NaN where nothing could be counted."""

    stages: np.ndarray
    layouts: Layouts
    verdict: np.ndarray
    value: np.ndarray
    bytes: np.ndarray
    seconds: np.ndarray
    exposed: np.ndarray
    parts: dict[str, np.ndarray]
    reasons: tuple[Reason, ...]

    def __len__(self) -> int:
        return len(self.stages)

    def order(self) -> np.ndarray:
        """Fitting layouts from the fastest on, then those that need too much memory, the nearest first, then the others."""
        third = np.where(self.verdict == TOO_LARGE, self.bytes, 0.0)
        seconds = np.where(self.verdict == FITS, self.seconds, 0.0)
        nearness = np.where(self.verdict == FITS, self.bytes, third)
        return np.lexsort((np.arange(len(self)), nearness, seconds, self.verdict))


def search(
    model: Model, setting: Setting, machine: Machine, groups: list[Group], global_batch: int, chunks: int,
    progress: Callable[[float], None] = lambda done: None,
) -> Found:  # fmt: skip
    """Judge every layout of ``groups``."""
    sizes = [len(group) for group in groups]
    n = sum(sizes)
    reasons: list[Reason] = []
    verdict, value = np.zeros(n, dtype=np.int64), np.zeros(n)
    size, parts = np.full(n, np.nan), {name: np.full(n, np.nan) for name in PARTS}
    start = 0
    for group in groups:
        rows = slice(start, start + len(group))
        code, number = _rules(model, setting, group, global_batch, chunks, reasons)
        verdict[rows], value[rows] = code, number
        allowed = np.flatnonzero(code == FITS)
        block = max(1, BLOCK // group.stages)
        for first in range(0, len(allowed), block):
            chosen = allowed[first : first + block]
            some = take(group.layouts, chosen)
            stages = Stages.of(model, group.stages, chunks if group.stages > 1 else 1)
            size[start + chosen] = total(ledger(model, setting, stages, some)).max(axis=0)
            for name, seconds in step_parts(model, setting, stages, some, machine).items():
                parts[name][start + chosen] = seconds
            progress((start + first) / n)
        start += len(group)
    verdict[(verdict == FITS) & (size > machine.device.memory)] = TOO_LARGE
    layouts = Layouts(**{f.name: np.concatenate([getattr(g.layouts, f.name) for g in groups]) for f in fields(Layouts)})
    seconds = np.sum([parts[name] for name in PARTS], axis=0)
    exposed = np.sum([parts[name] for name in COMMUNICATION], axis=0)
    stages_of = np.repeat([group.stages for group in groups], sizes)
    return Found(stages_of, layouts, verdict, value, size, seconds, exposed, parts, tuple(reasons))


def _rules(
    model: Model, setting: Setting, group: Group, global_batch: int, chunks: int, reasons: list[Reason]
) -> tuple[np.ndarray, np.ndarray]:
    """(layouts,) `FITS` or 2 + the first reason that applies, and the number found there."""
    code, number = np.zeros(len(group), dtype=np.int64), np.zeros(len(group))
    layers, layouts = model.shape.layers, group.layouts
    parts = group.stages * (chunks if group.stages > 1 else 1)
    everywhere = np.ones(len(group), dtype=bool)
    share = layouts.data * layouts.micro_batch
    own = [
        (Reason("pipeline_parallel", f"{{value}} parts for {layers} layers", "at most one part a layer"), everywhere & (parts > layers),
         everywhere * parts),
        (Reason("global_batch", f"{global_batch:,} samples in microbatches of {{value}} over all data ranks", "what divides it"),
         global_batch % share != 0, share),
    ]  # fmt: skip
    broken = [(Reason(rule.parameter, rule.text, rule.allowed), rule.broken, rule.value) for rule in rules(model, setting, layouts)]
    for reason, mask, found in (*own, *broken):
        new = mask & (code == FITS)
        if not new.any():
            continue
        same = next((i for i, old in enumerate(reasons) if (old.parameter, old.text) == (reason.parameter, reason.text)), None)
        if same is None:
            reasons.append(reason)
            same = len(reasons) - 1
        code[new], number[new] = 2 + same, found[new]
    return code, number


def lines_of(model: Model, setting: Setting, found: Found, row: int, chunks: int) -> dict[str, float]:
    """The ledger's lines of one layout on its fullest stage: the same function, for one layout alone."""
    stages_here = int(found.stages[row])
    stages = Stages.of(model, stages_here, chunks if stages_here > 1 else 1)
    lines = ledger(model, setting, stages, take(found.layouts, np.array([row])))
    stage = int(np.argmax(total(lines)[:, 0]))
    return {name: float(lines[name][stage, 0]) for name in LINES}
