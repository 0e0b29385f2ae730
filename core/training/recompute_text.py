"""What a `recompute` run says at each step: titles and details as templates."""

from __future__ import annotations

START = {
    "none": "Nothing is recomputed: every layer keeps {layer_size:bytes} until its backward",
    "every_layer": "Every layer keeps its input alone, {input:bytes} of {layer_size:bytes}",
    "sqrt": "Runs of layers keep only their first input, {input:bytes}",
    "selective": "Every layer drops its probabilities, {probabilities:bytes} of {layer_size:bytes}",
    "offload": "Every layer's {layer_size:bytes} go to the host until its backward",
    "both": "Every layer keeps its input alone, {input:bytes}, and keeps it in the host",
}
START_DETAIL = (
    "{layers} layers, batch {batch}, {sequence} tokens, {hidden} wide, BF16, attention unfused, on {device} with {link}. Backward needs "
    "what forward computed. Bytes and times are those of these layers; small ones ({small} wide) really run, with the same operations."
)

KEPT = "Layer {layer} runs forward and keeps {kept:bytes}"
KEPT_DETAIL = "{flop:flop} of matmuls in {seconds:s}. Then {live:bytes} wait on the device for backward."
CHECKPOINTED = "Layer {layer} runs forward and keeps only {kept:bytes} of {layer_size:bytes}"
CHECKPOINTED_DETAIL = (
    "A checkpoint: the graph is there, but what it would save is dropped as it comes. Then {live:bytes} wait on the device. "
    "The price comes in backward: the dropped tensors are computed again."
)
INSIDE = "Layer {layer} runs forward and keeps nothing of {layer_size:bytes}"
INSIDE_DETAIL = (
    "It is inside a checkpointed run of layers: not even its input is kept, since the run is computed again from its first. "
    "{live:bytes} still wait on the device."
)
WAITED = "Layer {layer} runs forward only after waiting {waited:s} for a copy out"
WAITED_DETAIL = (
    "{in_flight} layers may be on their way out, no more, or nothing would be saved. Compute stood still until one had gone; "
    "then {live:bytes} are on the device."
)
OUT = "Layer {layer}'s {size:bytes} go out to the host, hidden behind compute"
OUT_DETAIL = "{seconds:s} on PCIe; a layer computes for {compute:s}. The device has them until the copy ends."
OUT_BEHIND = "Layer {layer}'s {size:bytes} go out to the host, one copy after the other"
OUT_BEHIND_DETAIL = "{seconds:s} on PCIe, {ratio:.1f} times a layer's forward. The link never rests and compute has to wait for it."
OUT_LONGER = "PCIe falls behind: layer {layer}'s copy takes {seconds:s}, a layer's forward {compute:s}"
OUT_LONGER_DETAIL = (
    "{size:bytes} have to leave in each {compute:s} of compute, and the link needs {ratio:.1f} times as long. From here on the PCIe stream "
    "is the longer one: the step takes as long as the copies do, however fast the device computes."
)
IN = "Layer {layer}'s {size:bytes} start to come back"
IN_DETAIL = "Prefetch: up to {in_flight} layers ahead of backward, since each takes its room on the device at once. {seconds:s} on PCIe."

RECOMPUTE = "Layer {layer} runs forward again: {flop:flop} more"
RECOMPUTE_DETAIL = (
    "{size:bytes} that were dropped are there once more, bit for bit, for {seconds:s} of compute. The layer's output goes on to the next "
    "layer of the run."
)
RECOMPUTE_LAST_DETAIL = (
    "{size:bytes} that were dropped are there once more, bit for bit, for {seconds:s} of compute. The checkpoint's last matmul is "
    "left out: backward needs its input, not its output."
)
RECOMPUTE_CORE = "Layer {layer} computes its probabilities again: {size:bytes} for {flop:flop}"
RECOMPUTE_CORE_DETAIL = (
    "Only q kᵀ and a softmax, from the kept q, k and v, in {seconds:s}. They are large and cheap to make again: that is why they were "
    "chosen."
)

BACKWARD = "Layer {layer} runs backward and frees {freed:bytes}"
BACKWARD_DETAIL = (
    "Two matmuls for each of the forward's: {flop:flop}, {seconds:s}. Then nobody needs its saved tensors, and {live:bytes} are left."
)
BACKWARD_WAITED = "Layer {layer} runs backward only after waiting {waited:s} for its tensors"
BACKWARD_WAITED_DETAIL = "They were still on the way back from the host. {freed:bytes} are freed at the end, and {live:bytes} are left."

END = "The step took {step_time:s}; at most {peak:bytes} waited on the device"
END_DETAIL = {
    "saved": "Without recompute and offload: {plain_time:s} and {plain_peak:bytes}. Each GB saved cost {price:s} a step.",
    "nothing": "Nothing was saved and nothing was paid: {plain_time:s} and {plain_peak:bytes} are the figures to compare with.",
    "wasted": "Without recompute and offload: {plain_time:s} and {plain_peak:bytes}. The peak is no lower, so the time was wasted.",
}
