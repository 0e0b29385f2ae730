"""What the steps of a pipeline say: a title for each kind of action, why it starts when it does, and what it leaves."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from core.training.schedule_table import Kind, Table

PAIR = len(Kind)
"""An overlapped forward-backward pair, where the other actions have their `Kind`."""


class Reason(IntEnum):
    """Why a row starts when it does."""

    ENTERS = 0  # the first stage's first input
    AT_HAND = 1  # a later input of the first stage
    WAITED = 2  # the rank was free before its input arrived
    WAS_THERE = 3  # the input arrived before the rank was free
    SAME_RANK = 4  # the input was made on this rank
    LOSS = 5  # the gradient starts at the loss, on this rank


_TITLES: dict[int, str] = {
    Kind.FORWARD: "Rank {rank} runs forward of microbatch {microbatch}",
    Kind.BACKWARD: "Rank {rank} runs backward of microbatch {microbatch}",
    Kind.INPUT_GRADIENT: "Rank {rank} runs the input gradient of microbatch {microbatch}",
    Kind.WEIGHT_GRADIENT: "Rank {rank} runs the weight gradient of microbatch {microbatch}",
}
_CHUNK_TITLES: dict[int, str] = {
    Kind.FORWARD: "Rank {rank} runs forward of microbatch {microbatch} on chunk {chunk}",
    Kind.BACKWARD: "Rank {rank} runs backward of microbatch {microbatch} on chunk {chunk}",
    Kind.INPUT_GRADIENT: "Rank {rank} runs the input gradient of microbatch {microbatch} on chunk {chunk}",
    Kind.WEIGHT_GRADIENT: "Rank {rank} runs the weight gradient of microbatch {microbatch} on chunk {chunk}",
    PAIR: (
        "Rank {rank} runs forward of microbatch {microbatch} on chunk {chunk} and backward of {back_microbatch} on chunk {back_chunk}, "
        "overlapped"
    ),
}
_STAGE_TITLES: dict[int, str] = {
    Kind.FORWARD: "Rank {rank} runs forward of microbatch {microbatch} on stage {stage}",
    Kind.BACKWARD: "Rank {rank} runs backward of microbatch {microbatch} on stage {stage}",
    Kind.INPUT_GRADIENT: "Rank {rank} runs the input gradient of microbatch {microbatch} on stage {stage}",
    Kind.WEIGHT_GRADIENT: "Rank {rank} runs the weight gradient of microbatch {microbatch} on stage {stage}",
    PAIR: (
        "Rank {rank} runs forward of microbatch {microbatch} on stage {stage} and backward of {back_microbatch} on stage {back_stage}, "
        "overlapped"
    ),
}

_FORWARD_STARTS = {
    Reason.ENTERS: "Microbatch {microbatch} enters the pipeline: nothing has to arrive first.",
    Reason.AT_HAND: "Its input is at hand, and rank {rank} is free at {free}.",
    Reason.WAITED: (
        "Its input came from rank {source}, which finished it at {sent}. Rank {rank} was idle from {free} until then, for {wait}."
    ),
    Reason.WAS_THERE: "Its input from rank {source} was there from {arrived} on; rank {rank} was busy until {free}.",
    Reason.SAME_RANK: "Its input was finished on this rank at {sent}, so nothing is sent; the rank was busy until {free}.",
}
_BACKWARD_STARTS = {
    Reason.WAITED: (
        "Its gradient came from rank {source}, which finished it at {sent}. Rank {rank} was idle from {free} until then, for {wait}."
    ),
    Reason.WAS_THERE: "Its gradient from rank {source} was there from {arrived} on; rank {rank} was busy until {free}.",
    Reason.SAME_RANK: "Its gradient was finished on this rank at {sent}, so nothing is sent; the rank was busy until {free}.",
    Reason.LOSS: (
        "The loss of microbatch {microbatch} was known on this rank at {sent}, so its gradient waits for nobody; the rank was busy "
        "until {free}."
    ),
}
_TRAVELLED = {
    Kind.FORWARD: (
        "Its input left rank {source} at {sent}, travelled {transfer} and arrived at {arrived}. Rank {rank} was idle from {free} "
        "until then, for {wait}."
    ),
    Kind.BACKWARD: (
        "Its gradient left rank {source} at {sent}, travelled {transfer} and arrived at {arrived}. Rank {rank} was idle from {free} "
        "until then, for {wait}."
    ),
}
_WEIGHT_STARTS = "It needs nothing from other ranks: its input gradient was finished here at {sent}; the rank was busy until {free}."

_PAIR_FORWARD = {
    Reason.ENTERS: "The input of microbatch {microbatch} is at hand.",
    Reason.AT_HAND: "The input of microbatch {microbatch} is at hand.",
    Reason.WAITED: "The input of microbatch {microbatch} arrived from rank {source} at {arrived}.",
    Reason.WAS_THERE: "The input of microbatch {microbatch} arrived from rank {source} at {arrived}.",
    Reason.SAME_RANK: "The input of microbatch {microbatch} was finished on this rank at {sent}.",
}
_PAIR_BACKWARD = {
    Reason.WAITED: "The gradient for microbatch {back_microbatch} arrived from rank {back_source} at {back_arrived}.",
    Reason.WAS_THERE: "The gradient for microbatch {back_microbatch} arrived from rank {back_source} at {back_arrived}.",
    Reason.SAME_RANK: "The gradient for microbatch {back_microbatch} was finished on this rank at {back_sent}.",
    Reason.LOSS: "The loss of microbatch {back_microbatch} was known on this rank at {back_sent}.",
}
_PAIR_STARTS = "The pair waits for both, was free to start from {free} on, and gives both results away at its end, at {ends}."

_LEAVES: dict[int, str] = {
    Kind.FORWARD: "It keeps the activation for the backward and holds {held} now.",
    Kind.BACKWARD: "At the end the activation is freed: {held} left.",
    Kind.INPUT_GRADIENT: "The activation stays for the weight gradient: {held} held.",
    Kind.WEIGHT_GRADIENT: "At the end the activation is freed: {held} left.",
    PAIR: "It holds {peak} activations while both run, {held} afterwards.",
}
_ENTERED = "Rank {rank} keeps the activation for the backward and holds {held} now."
_FREES_FIRST = {
    1: (
        "Now, after {forwards} of its {all_forwards} forwards, rank 0 frees its first activation, before it forwards microbatch {next}: "
        "{held} left. From here on each activation that is freed makes room for a forward."
    ),
    2: "Only now, after all its {all_forwards} forwards, does rank 0 free its first activation: it held {peak} at once, {held} are left.",
}
"""The moment at which rank 0 frees its first activation: 1, forwards are still to come; 2, none is left."""


def pick(
    table: Table, action: np.ndarray, reasons: tuple[np.ndarray, np.ndarray], frees_first: np.ndarray, travelled: np.ndarray
) -> tuple[list[tuple[str, str]], np.ndarray]:
    """The (title, detail) templates that this table needs, and (steps,) which of them each step says.

    All arrays are (steps,). action: a `Kind` or `PAIR`; reasons: of the action's first row and of its last; frees_first: which
    of the two moments it is, or 0; travelled: whether what it waits for took time to come.
    """
    waited = (travelled & (reasons[0] == Reason.WAITED)).astype(np.int64)
    facets = (action.astype(np.int64), reasons[0], reasons[1], frees_first, waited)
    sizes = (PAIR + 1, len(Reason), len(Reason), 1 + len(_FREES_FIRST), 2)
    used, index = np.unique(np.ravel_multi_index(facets, sizes), return_inverse=True)
    titles = _STAGE_TITLES if table.copies > 1 else _CHUNK_TITLES if table.chunks > 1 else _TITLES
    templates = []
    for code in used.tolist():
        kind, first, last, frees, came = (int(part) for part in np.unravel_index(code, sizes))
        starts, leaves = _starts(kind, Reason(first), Reason(last), travelled=bool(came)), _LEAVES[kind]
        if kind == Kind.FORWARD and first == Reason.ENTERS:
            leaves = _ENTERED
        templates.append((titles[kind], f"{starts} {_FREES_FIRST[frees] if frees else leaves}"))
    return templates, index.reshape(-1)


def _starts(kind: int, first: Reason, last: Reason, *, travelled: bool) -> str:
    """Why an action of ``kind`` starts when it does: whole sentences."""
    if kind == PAIR:
        return f"{_PAIR_FORWARD[first]} {_PAIR_BACKWARD[last]} {_PAIR_STARTS}"
    if kind == Kind.WEIGHT_GRADIENT:
        return _WEIGHT_STARTS
    if travelled:
        return _TRAVELLED[Kind.FORWARD if kind == Kind.FORWARD else Kind.BACKWARD]
    return (_FORWARD_STARTS if kind == Kind.FORWARD else _BACKWARD_STARTS)[first]


_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def marks(letter: str, places: int) -> list[str]:
    """A span's text for each stage of a rank: F{n}; with two stages F{n} and f{n}; with more F₀{n}, F₁{n}, …"""
    if places == 1:
        return [letter + "{n}"]
    if places == 2:
        return [letter + "{n}", letter.lower() + "{n}"]
    return [letter + str(place).translate(_SUBSCRIPTS) + "{n}" for place in range(places)]
