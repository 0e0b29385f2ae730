"""What the steps of a pipeline say: a title for each kind of action and a paragraph for each reason it starts when it does."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from core.training.schedules import Kind, Table
from core.training.timing import Timing


class Reason(IntEnum):
    """Why an action starts when it does; the last two are the moment at which rank 0 frees its first activation."""

    ENTERS = 0  # the first stage's first input
    AT_HAND = 1  # a later input of the first stage
    WAITED = 2  # the rank was free before its input arrived
    WAS_THERE = 3  # the input arrived before the rank was free
    SAME_RANK = 4  # the input was made on this rank
    LOSS = 5  # the gradient starts at the loss, on this rank
    FREES_EARLY = 6  # forwards are still to come
    FREES_LATE = 7  # no forward is left


_TITLES = {
    Kind.FORWARD: "Rank {rank} runs forward of microbatch {microbatch}",
    Kind.BACKWARD: "Rank {rank} runs backward of microbatch {microbatch}",
    Kind.INPUT_GRADIENT: "Rank {rank} runs the input gradient of microbatch {microbatch}",
    Kind.WEIGHT_GRADIENT: "Rank {rank} runs the weight gradient of microbatch {microbatch}",
}
_CHUNK_TITLES = {
    Kind.FORWARD: "Rank {rank} runs forward of microbatch {microbatch} on chunk {chunk}",
    Kind.BACKWARD: "Rank {rank} runs backward of microbatch {microbatch} on chunk {chunk}",
    Kind.INPUT_GRADIENT: "Rank {rank} runs the input gradient of microbatch {microbatch} on chunk {chunk}",
    Kind.WEIGHT_GRADIENT: "Rank {rank} runs the weight gradient of microbatch {microbatch} on chunk {chunk}",
}

_FORWARDS = {
    Reason.ENTERS: (
        "Microbatch {microbatch} enters the pipeline: nothing has to arrive first. Rank {rank} keeps the activation for the "
        "backward and holds {held} now."
    ),
    Reason.AT_HAND: (
        "Its input is at hand, and rank {rank} is free at {free}. It keeps the activation for the backward and holds {held} now."
    ),
    Reason.WAITED: (
        "Its input came from rank {source}, which finished it at {sent}. Rank {rank} was idle from {free} until then, for "
        "{wait}. It keeps the activation for the backward and holds {held} now."
    ),
    Reason.WAS_THERE: (
        "Its input from rank {source} was there from {arrived} on; rank {rank} was busy until {free}. It keeps the "
        "activation for the backward and holds {held} now."
    ),
    Reason.SAME_RANK: (
        "Its input was finished on this rank at {sent}, so nothing is sent; the rank was busy until {free}. It keeps the "
        "activation for the backward and holds {held} now."
    ),
}
_BACKWARDS = {
    Reason.WAITED: (
        "Its gradient came from rank {source}, which finished it at {sent}. Rank {rank} was idle from {free} until then, for "
        "{wait}. At the end the activation is freed: {held} left."
    ),
    Reason.WAS_THERE: (
        "Its gradient from rank {source} was there from {arrived} on; rank {rank} was busy until {free}. At the end the "
        "activation is freed: {held} left."
    ),
    Reason.SAME_RANK: (
        "Its gradient was finished on this rank at {sent}, so nothing is sent; the rank was busy until {free}. At the end "
        "the activation is freed: {held} left."
    ),
    Reason.LOSS: (
        "The loss of microbatch {microbatch} was known on this rank at {sent}, so its gradient waits for nobody; the rank "
        "was busy until {free}. At the end the activation is freed: {held} left."
    ),
    Reason.FREES_EARLY: (
        "Its gradient arrived from rank {source} at {arrived}. Now, after {forwards} of its {all_forwards} forwards, rank 0 "
        "frees its first activation, before it forwards microbatch {next}: {held} left. From here on a backward makes room "
        "for each forward."
    ),
    Reason.FREES_LATE: (
        "Its gradient arrived from rank {source} at {arrived}. Only now, after all its {all_forwards} forwards, does rank 0 "
        "free its first activation: it held {peak} at once, {held} are left."
    ),
}
_WEIGHTS = {
    Reason.SAME_RANK: (
        "It needs nothing from other ranks: its input gradient was finished here at {sent}; the rank was busy until {free}. "
        "At the end the activation is freed: {held} left."
    ),
}
_TRAVELLED = {
    "forward": (
        "Its input left rank {source} at {sent}, travelled {transfer} and arrived at {arrived}. Rank {rank} was idle from "
        "{free} until then, for {wait}. It keeps the activation for the backward and holds {held} now."
    ),
    "backward": (
        "Its gradient left rank {source} at {sent}, travelled {transfer} and arrived at {arrived}. Rank {rank} was idle from "
        "{free} until then, for {wait}. At the end the activation is freed: {held} left."
    ),
}


def pick(table: Table, timing: Timing, reason: np.ndarray) -> tuple[list[tuple[str, str]], np.ndarray]:
    """The (title, detail) templates that this table needs, and (actions,) which of them each row says."""
    travelled = ((timing.transfer > 0) & (reason == Reason.WAITED)).astype(np.int64)
    code = (table.kind.astype(np.int64) * len(Reason) + reason) * 2 + travelled
    used, index = np.unique(code, return_inverse=True)
    titles = _TITLES if table.chunks == 1 else _CHUNK_TITLES
    templates = []
    for number in used.tolist():
        kind, why = Kind(number // 2 // len(Reason)), Reason(number // 2 % len(Reason))
        templates.append((titles[kind], _detail(kind, why, travelled=bool(number % 2))))
    return templates, index.reshape(-1)


def _detail(kind: Kind, why: Reason, *, travelled: bool) -> str:
    if kind == Kind.WEIGHT_GRADIENT:
        return _WEIGHTS[why]
    if travelled:
        return _TRAVELLED["forward" if kind == Kind.FORWARD else "backward"]
    return (_FORWARDS if kind == Kind.FORWARD else _BACKWARDS)[why]


_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def marks(letter: str, chunks: int) -> list[str]:
    """A span's text for each chunk: F{n}; with two chunks F{n} and f{n}; with more F₀{n}, F₁{n}, …"""
    if chunks == 1:
        return [letter + "{n}"]
    if chunks == 2:
        return [letter + "{n}", letter.lower() + "{n}"]
    return [letter + str(chunk).translate(_SUBSCRIPTS) + "{n}" for chunk in range(chunks)]
