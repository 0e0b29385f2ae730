"""What a ZeRO run says at each step: titles and details as templates, by stage where stages differ."""

from __future__ import annotations

START = (
    "Stage 0: every rank holds all model states",
    "Stage 1: every rank owns one shard of the optimizer states",
    "Stage 2: every rank owns one shard of the optimizer states and of the gradients",
    "Stage 3: every rank owns one shard of everything",
)
_START_DETAIL = (
    "A rank starts with {held:bytes}, the gradients are still to come. A small letter: some layers only, or a gradient that is not "
    "averaged yet. Bytes and times are those of the full model; a small one of {small:count} parameters does the work."
)
START_DETAIL = {
    "adamw": "{psi:count} parameters, 16 bytes each: BF16 parameter 2, gradient 2, fp32 master 4, m 4, v 4. " + _START_DETAIL,
    "sgd": "{psi:count} parameters, 8 bytes each: BF16 parameter 2, gradient 2, fp32 master 4. " + _START_DETAIL,
}

FORWARD = "Every rank runs layer {layer} forward on its own micro-batch"
FORWARD_DETAIL = "All ranks see the same parameters and different samples. Forward adds no model state: {held:bytes} a rank."

BACKWARD = "Every rank computes its own gradient of layer {layer}"
BACKWARD_DETAIL = "Samples differ from rank to rank, and so do gradients. Each covers the whole layer in BF16: {held:bytes} a rank now."

AVERAGE = (
    "All-reduce starts: everyone is to have the averaged gradient of layer {layer}",
    *("Reduce-scatter starts: each rank is to have one averaged shard of layer {layer}",) * 3,
)
AVERAGE_DETAIL = (
    "Every rank updates all parameters, so every rank needs the whole average. All-reduce is a reduce-scatter and an all-gather: "
    "the {elements:elements} of this layer count twice. It runs on the comm stream while the layer below computes.",
    *(
        "Only its owner updates a shard, so only the owner needs the average of it. The {elements:elements} of this layer count once, "
        "half of what an all-reduce costs. It runs on the comm stream while the layer below computes.",
    )
    * 3,
)

KEEP = (
    "",
    "Rank {rank} keeps the averaged gradient of shard {shard}, and the rest of its buffer is dead",
    *("Rank {rank} keeps the averaged gradient of shard {shard} and drops the rest",) * 2,
)
KEEP_DETAIL = (
    "",
    "The averaged gradient of layer {layer} has arrived. Rank {rank} will read shard {shard} alone; the rest of the buffer is NaN now. "
    "Stage 1 shards no gradients, so the buffer stays: {held:bytes} on this rank, as before.",
    *(
        "The averaged gradient of layer {layer} has arrived. Rank {rank} is the only one to update shard {shard}, and it updates "
        "nothing else. Its other gradients of this layer are filled with NaN and freed: {dropped:bytes} less, {held:bytes} on this rank.",
    )
    * 2,
)
KEEP_ALL = (
    "Every rank has the averaged gradient of layer {layer}",
    "Every rank keeps the averaged gradient of its own shard of layer {layer}, and the rest of its buffer is dead",
    *("Every rank keeps the averaged gradient of its own shard of layer {layer} and drops the rest",) * 2,
)
KEEP_ALL_DETAIL = (
    "Equal on all ranks and kept by all of them: stage 0 shards nothing, {held:bytes} a rank.",
    "A rank will read its own shard alone; the rest of the buffer is NaN now. Stage 1 shards no gradients, so the buffer stays: "
    "{held:bytes} a rank, as before.",
    *(
        "An owner is the only one to update its shard, and it updates nothing else. The other gradients of this layer are filled "
        "with NaN and freed: {dropped:bytes} less, {held:bytes} a rank.",
    )
    * 2,
)

UPDATE = "Rank {rank} updates shard {shard}"
UPDATE_ALL = ("Every rank updates all parameters", *("Every rank updates its own shard",) * 3)
UPDATE_DETAIL = (
    "The same work on all ranks: equal gradients and equal optimizer states give equal parameters. Gradients are freed: {held:bytes}.",
    *(
        "Only the owner holds the fp32 master and the optimizer states of a shard, so the update is shared out as well: {share:%} "
        "of it for each rank. The BF16 parameters of the other shards are out of date here. Gradients are freed: {held:bytes}.",
    )
    * 2,
    "Only the owner holds the fp32 master and the optimizer states of a shard: {share:%} of the update for each rank. It keeps no "
    "other parameters, so there is nothing to send: the next forward gathers them. Gradients are freed: {held:bytes}.",
)

PUBLISH = "All-gather returns the updated layer {layer} to every rank"
PUBLISH_DETAIL = (
    "Each owner sends the BF16 values of its shard round the ring, {elements:elements} handed over in all. "
    "With the reduce-scatter that makes up one all-reduce: sharding the states has cost no more communication."
)

FETCH = "All-gather starts: every rank is to have the parameters of layer {layer}"
FETCH_DETAIL = (
    "A rank keeps one shard of each layer but computes with all of it. {elements:elements} are handed over for this one use, "
    "while the layer before computes. The buffer is there from now on: {held:bytes} a rank."
)
RELEASE = "Every rank drops the gathered parameters of layer {layer}"
RELEASE_DETAIL = (
    "Layer {layer} has done its part. Each rank still has its own shard; the gathered copy is filled with NaN and freed: "
    "{dropped:bytes} less, {held:bytes} a rank."
)
