"""What a context-parallel run says at each step: titles and details as templates."""

from __future__ import annotations

START = {
    "contiguous": "Every rank has one block of {block:count} tokens",
    "zigzag": "Every rank has two chunks of {half:count} tokens: one from the front, its mirror from the back",
    "striped": "Every rank has every {ranks}-th token, {block:count} in all",
}
_START_DETAIL = (
    "{sequence:count} tokens on {ranks} ranks: q, K and V of {held:bytes} each. "
    "The causal triangle has {work:elements} of scores, a token with itself counted half: {mean:elements} for each rank, if all had "
    "the same. "
)
_FULL_DETAIL = (
    "{sequence:count} tokens on {ranks} ranks: q, K and V of {held:bytes} each. "
    "Nothing is masked: {work:elements} of scores, {mean:elements} for each rank. "
)
_ROPE = {
    "global": "q and k are rotated by their positions in the whole sequence (RoPE): rank {last} counts from {position:count}, not from 0.",
    "local": "Wrong on purpose: every rank rotates q and k by positions from 0, as if it had the start of the sequence.",
    "off": "q and k are not rotated (no RoPE).",
}


def start_detail(causal: bool, rope: str) -> str:
    return (_START_DETAIL if causal else _FULL_DETAIL) + _ROPE[rope]


PASS = "Hop {hop}: every rank passes K and V on to the next one"
PASS_DETAIL = (
    "Rank r sends to rank r + 1 while it computes with the same block: {size:bytes} each, {wire:s} on the wire. A full tile takes "
    "{tile:s}: the journey is hidden where the compute is longer. {held:bytes} of K and V on a rank now."
)
GRADIENTS_PASS = "Hop {hop}: dK and dV follow their block"
GRADIENTS_PASS_DETAIL = (
    "The block has gone ahead; each rank has added its own part to the gradients of the block it had, and sends them after it: "
    "{size:bytes} each."
)

TILE = {
    "forward": {
        "own": "Rank {rank} attends to its own keys",
        "full": "Rank {rank} attends to all keys of rank {source}",
        "part": "Rank {rank} attends to the keys of rank {source} that it may see",
        "idle": "Rank {rank} has nothing left to do: K{source} is in its future",
    },
    "backward": {
        "own": "Rank {rank} computes dq, dK and dV of its own tile",
        "full": "Rank {rank} computes dq, dK and dV with the block of rank {source}",
        "part": "Rank {rank} computes dq, dK and dV with what it saw of rank {source}",
        "idle": "Rank {rank} has nothing left to do: it never saw K{source}",
    },
}
TILE_DETAIL = {
    "forward": {
        "own": "Nothing has to arrive first. {share:%} of the tile is not masked: {elements:elements} of scores, {seconds:s}. Its rows now "
        "have a maximum m, a sum l and an output O, to be corrected by every block that follows.",
        "full": "Every key is earlier than every query: the whole tile counts, {elements:elements} of scores, {seconds:s}. Where a new "
        "maximum m appears, l and O are scaled down. Rank {rank} has done {done:elements} so far.",
        "part": "{share:%} of the tile is not masked: {elements:elements} of scores, {seconds:s}. Where a new maximum m appears, l and O "
        "are scaled down. Rank {rank} has done {done:elements} so far.",
        "idle": "Rank {rank} ends at token {last:count}, this block starts at token {first:count}: all of it is masked, and so is every "
        "block that still comes. It has done {done:elements} where the last rank will have done {most:elements}, and only passes K, V on.",
    },
    "backward": {
        "own": "The weights are computed again from q, K and lse: five products where the forward had two, {seconds:s}. dq stays here, dK "
        "and dV of its own block wait for the other ranks' parts.",
        "full": "The whole tile, {elements:elements} of scores, {seconds:s}. dq stays here; its part of dK and dV is added to what has "
        "travelled with the block.",
        "part": "{share:%} of the tile, {elements:elements} of scores, {seconds:s}. dq stays here; its part of dK and dV is added to what "
        "has travelled with the block.",
        "idle": "What the mask hid in the forward has no gradient. Rank {rank} idles again, with {done:elements} of scores behind it where "
        "the last rank has {most:elements}: it only passes K, V, dK and dV on.",
    },
}
HOP = {
    "forward": "Hop {hop}: {busy} ranks compute, {idle} have nothing left to do",
    "backward": "Hop {hop}, backward: {busy} ranks compute, {idle} have nothing left to do",
}
HOP_DETAIL = (
    "Rank r has the block of rank r - {hop}. The busiest rank computes {share:%} of a full tile in this hop, {seconds:s}; the ranks "
    "whose block lies in their future only pass it on."
)

GATHERED = "All-gather: every rank gets all K and V"
GATHERED_DETAIL = (
    "{wire:bytes} sent by each rank, as many as the ring sends hop by hop. But nothing computes meanwhile: {seconds:s} are waited for, "
    "and a rank now holds {held:bytes} of K and V, the whole sequence."
)
EXCHANGED = {
    "forward": "All-to-all: every rank gets all tokens of its own heads",
    "backward": "All-to-all: the gradient of the output goes to the heads",
}
EXCHANGED_DETAIL = (
    "Before: {block:count} tokens, {heads} heads. After: {sequence:count} tokens, {own_heads} heads on each rank. Each sends "
    "{wire:bytes}, {seconds:s} in which nothing computes."
)
BACK = {
    "forward": "All-to-all: the output goes back to its tokens",
    "backward": "All-to-all: dq, dK and dV go back to their tokens",
}
BACK_DETAIL = "All heads of {block:count} tokens again on every rank. Each sent {wire:bytes} in this pass so far."

RANK = {
    "forward": "Rank {rank} attends to all that its queries may see",
    "backward": "Rank {rank} computes dq, and dK and dV of all it saw",
}
RANK_DETAIL = "{elements:elements} of scores, {ratio:.3f} times the mean, {seconds:s}. No message is needed on the way."
RANKS = {"forward": "Every rank attends to all that its queries may see", "backward": "Every rank computes dq, and dK and dV of all it saw"}
RANKS_DETAIL = "The busiest has {elements:elements} of scores, {ratio:.3f} times the mean. No message is needed on the way."

HOME = {
    "ring": "The last hop brings dK and dV home",
    "all_gather": "Reduce-scatter: every rank gets the sum of its own dK and dV",
    "ulysses": "",
}
HOME_DETAIL = (
    "Every rank that saw a key has added its part, and the key's owner has the sum: {sent:bytes} sent by each rank in forward and backward."
)
OUTPUT = "The forward is done: O / l is the output, lse = m + ln l is kept for the backward"
OUTPUT_DETAIL = {
    True: "It has taken {seconds:s}, of which the busiest rank computed {busy:s}. All ranks together idled {idle:%} of the time. The "
    "output equals attention on one device: largest difference {error:.1e}.",
    False: "It has taken {seconds:s}, of which the busiest rank computed {busy:s}. All ranks together idled {idle:%} of the time. The "
    "output is not that of attention on one device: largest difference {error:.2f}.",
}
END = "The busiest rank did {imbalance:.4g} times the mean work"
END_DETAIL = (
    "Everybody waits for it: of the {seconds:s} that forward and backward took, the ranks idled {idle:%}. "
    "{exposed:s} are messages that no compute hid. Each rank sent {sent:bytes}."
)
