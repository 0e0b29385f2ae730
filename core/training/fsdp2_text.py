"""What an fsdp2 run says at each step: titles and details as templates."""

from __future__ import annotations

START = "Every rank owns some rows of every parameter"
_STARTS = (
    "A rank starts with {held:bytes}, gradients are still to come. Bytes and times are those of a small model of {small:count} parameters "
    "times their ratio: as wide and long a batch ({tokens:count} tokens) as keeps its shape. The root is number {layers} on the streams. "
    "P: whole parameters, p: own rows, G: whole gradient, g: own rows of the average."
)
START_DETAIL = {
    "adamw": "{psi:count} parameters, {each} bytes each, all cut over the ranks ({ranks}): fp32 parameter 4, fp32 gradient 4, m 4, v 4. "
    + _STARTS,
    "sgd": "{psi:count} parameters, {each} bytes each, all cut over the ranks ({ranks}): fp32 parameter 4, fp32 gradient 4. " + _STARTS,
}

FETCH = "All-gather starts: every rank is to have the whole {group}"
FETCH_DETAIL = (
    "{elements:elements}, each rank hands in its own rows. Nothing was issued ahead: computing waits until it is there. "
    "The buffer is held from now on: {held:bytes}.",
    "{elements:elements}, each rank hands in its own rows. It is issued ahead, so it travels beside what is computed in the meantime. "
    "The price is a buffer that is held from now on: {held:bytes}.",
)

FORWARD = "Every rank runs {group} forward on its own tokens"
FORWARD_DETAIL = (
    "With whole parameters, copied out of the all-gather buffer. Autograd keeps {added:bytes} for backward, of this rank's own tokens: "
    "no other rank has them, so they cannot be sharded. Activations: {activations:bytes} of {held:bytes}."
)

RESHARD = "Every rank drops the whole {group}"
RESHARD_DETAIL = (
    "{freed:bytes} less, its own rows remain. Backward will gather it again. What is left is {held:bytes}, and {activations:bytes} of it "
    "are activations that wait for backward."
)
RESHARD_BACKWARD_DETAIL = (
    "{freed:bytes} less: this group has done its part. Left are {held:bytes}, {activations:bytes} of them activations."
)
RESHARD_ROOT_DETAIL = "{freed:bytes} less. The root was whole from the start of forward until now: it would have been needed again at once."

FORWARD_DONE = "Forward has ended: parameters came and went, activations stayed"
FORWARD_DONE_DETAIL = (
    "Of {layers} blocks not one is whole any more, and still {activations:bytes} of {held:bytes} are here: what autograd needs for "
    "backward. More ranks make the shards smaller, not this floor.",
    "All {layers} blocks are still whole and need not be gathered again. {activations:bytes} of {held:bytes} are activations, which more "
    "ranks do not make smaller.",
)

BACKWARD = "Every rank computes its own gradient of {group}"
BACKWARD_DETAIL = (
    "A whole gradient on every rank, of its own tokens. What autograd had kept for it is free: {freed:bytes}. Activations are down to "
    "{activations:bytes}, in all {held:bytes}."
)

REDUCE = "Reduce-scatter starts: each rank is to have the average of its rows of {group}"
REDUCE_DETAIL = (
    "{elements:elements} in fp32, so that no bits are lost in the sum; it travels beside the next group's backward. The whole gradient is "
    "copied into its buffer and freed: {held:bytes}."
)

KEEP = "Every rank keeps the averaged gradient of its rows of {group}"
KEEP_DETAIL = "One part in {ranks} of the gradient, in fp32; the buffer is freed: {held:bytes}."

UPDATE = "Every rank updates its own rows"
UPDATE_DETAIL = (
    "In fp32, in optimizer step {step}. There is nothing to send: the next forward gathers the new values. Gradients are freed: "
    "{held:bytes}, the sharded states alone."
)
