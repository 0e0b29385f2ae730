"""A pipeline table replayed with blocking messages and no clock: shows that a schedule cannot wait for itself."""

from __future__ import annotations

from collections import deque

import numpy as np

from core.training.schedule_table import Kind, Table
from core.training.timing import sources

Channel = tuple[str, int]
"""What a message carries ("activation" or "gradient") and the stage it goes to."""
Message = tuple[Channel, int]
"""A channel and the microbatch."""


def replay(table: Table, slots: int = 0) -> int:
    """How many rows are done when nothing moves any more: all of them, unless the ranks block each other.

    A rank goes down its actions: it receives what it needs, computes, sends. A receive blocks until its message is there; a send
    blocks while ``slots`` messages of its channel (0: as many as there are microbatches) have not been taken. Stages on one rank
    hand over without a message. Both rows of an overlapped pair receive first, then both send.
    """
    slots = slots or table.microbatches
    orders = [deque(_actions(table, rank)) for rank in range(table.ranks)]
    handed = _handed_over(table)
    received, sent = _messages(table, received=True), _messages(table, received=False)
    boxes: dict[Channel, deque[int]] = {}
    receiving: list[deque[Message]] = [deque() for _ in orders]
    sending: list[deque[Message]] = [deque() for _ in orders]
    begun: list[list[int]] = [[] for _ in orders]
    done: set[int] = set()
    moved = True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            if not (begun[rank] or sending[rank]) and order:
                begun[rank] = order.popleft()
                receiving[rank].extend(message for row in begun[rank] if (message := received[row]) is not None)
            while receiving[rank] and _take(boxes, *receiving[rank][0]):
                receiving[rank].popleft()
                moved = True
            if begun[rank] and not receiving[rank] and all(handed[row] < 0 or handed[row] in done for row in begun[rank]):
                sending[rank].extend(message for row in begun[rank] if (message := sent[row]) is not None)
                done.update(begun[rank])
                begun[rank], moved = [], True
            while sending[rank] and _put(boxes, *sending[rank][0], slots):
                sending[rank].popleft()
                moved = True
    return len(done)


def _take(boxes: dict[Channel, deque[int]], channel: Channel, microbatch: int) -> bool:
    """Whether the message is there: those of a channel come in the order in which they were sent."""
    box = boxes.get(channel)
    if not box or box[0] != microbatch:
        return False
    box.popleft()
    return True


def _put(boxes: dict[Channel, deque[int]], channel: Channel, microbatch: int, slots: int) -> bool:
    box = boxes.setdefault(channel, deque())
    if len(box) >= slots:
        return False
    box.append(microbatch)
    return True


def _handed_over(table: Table) -> list[int]:
    """(rows,) the row on the same rank whose result a row needs, -1 for none."""
    source, rank = sources(table), table.rank
    found: list[int] = np.where((source >= 0) & (rank[source] == rank), source, -1).tolist()
    return found


def _actions(table: Table, rank: int) -> list[list[int]]:
    """The actions of a rank, each as its one or two rows."""
    actions: list[list[int]] = []
    for row in range(int(table.first[rank]), int(table.first[rank + 1])):
        if table.joined[row]:
            actions[-1].append(row)
        else:
            actions.append([row])
    return actions


def _messages(table: Table, *, received: bool) -> list[Message | None]:
    """(rows,) the message that a row receives, or sends."""
    forward = table.kind == Kind.FORWARD
    onward = np.where(forward, 1, -1)
    other = table.stage - onward if received else table.stage + onward
    inside = (other >= 0) & (other < table.stages) & (other // table.depth == table.stage // table.depth)
    inside &= (table.kind != Kind.WEIGHT_GRADIENT) & (table.rank_of[other % table.stages] != table.rank_of[table.stage])
    goes_to = table.stage if received else other
    return [
        (("activation" if is_forward else "gradient", stage), microbatch) if travels else None
        for travels, is_forward, stage, microbatch in zip(
            inside.tolist(), forward.tolist(), goes_to.tolist(), table.microbatch.tolist(), strict=True
        )
    ]
