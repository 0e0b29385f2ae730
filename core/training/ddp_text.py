"""What a DDP run says at each step: titles and details as templates."""

from __future__ import annotations

LETTER = {"down": "B", "up": "b"}
"""A block's backward in two spans: its second half comes first."""

START = "Every rank holds the same {elements:count} parameters"
START_DETAIL = (
    "Ranks: {ranks}, each with its own part of the batch. Each will need the average of all gradients: {size:bytes} in {parameters} "
    "parameters, fp32. Nobody knows yet in which order they become ready, so iteration 0 puts all of them into one bucket."
)

REBUILD = "Buckets are rebuilt: {buckets} of them, in the order in which gradients became ready"
REBUILD_DETAIL = (
    "Rank 0 sends its order to all, so that everyone cuts alike; {name} is first. The first bucket is small, {first:bytes}, so that the "
    "wire starts early. The others close at {limit:bytes} or more: a parameter is never split, and the largest holds {largest:bytes}."
)

FORWARD = "Every rank runs layer {layer} forward on its own rows"
FORWARD_DETAIL = "The same parameters and different samples. Nothing has to be communicated, so the wire is idle."

READY = {
    "down": "Gradients of the second half of layer {layer} are ready on every rank",
    "up": "Gradients of the first half of layer {layer} are ready on every rank",
}
READY_DETAIL = (
    "Each is copied to its place in bucket {bucket}. That was the last gradient of {gradients}: the bucket can go.",
    "Each is copied to its place in bucket {bucket}, which waits for {left} more of its {gradients} gradients.",
)

LAUNCH = (
    (
        "All-reduce of bucket {bucket} starts, and backward has ended",
        "{gradients} of {all:gradient|gradients}, {size:bytes}, and nothing left to compute beside it: the ranks can only wait.",
    ),
    (
        "All-reduce of bucket {bucket} starts while backward still runs",
        "{gradients} of {all:gradient|gradients}, {size:bytes}, ready on every rank. Backward has {ahead:s} to go: as long as that lasts, "
        "the wire's time costs nothing.",
    ),
)

LAUNCH_ALONE = (
    "Bucket {bucket} is full, and there is nobody to average with",
    "{gradients} of {all:gradient|gradients}, {size:bytes}. One rank has the whole batch; backward has {ahead:s} to go.",
)

WAIT = (
    ("Every rank has all averages at once", "No bucket is on the wire when backward ends: no communication is exposed."),
    (
        "Every rank waits {exposed:s} for what is still on the wire",
        "Backward has ended, with {late} of {buckets:bucket|buckets} still to be averaged. This wait is the exposed communication; all "
        "the rest was hidden. Then the averages go back from the buckets to the parameters.",
    ),
)

UPDATE = "Every rank updates all parameters"
UPDATE_DETAIL = "Equal gradients keep the copies equal (ranks: {ranks}); no parameter is ever sent. That was iteration {iteration}."
