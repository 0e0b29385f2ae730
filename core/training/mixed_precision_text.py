"""What a `mixed_precision` run says at each step: titles and details as templates."""

from __future__ import annotations

BYTES = "A parameter takes {total} bytes: {weights} weight, {gradients} gradient, {master} master, {m} + {v} Adam"
BYTES_DETAIL = {
    "fp32": "No format is mixed, and yet it is 16 bytes: mixed precision with an fp32 master takes as much. It saves activations and time.",
    "bf16": "Everything in BF16, half of the 16 bytes. What that costs shows in the updates.",
    "bf16_master": "The 16 bytes of ZeRO's convention: BF16 for what computes and travels, fp32 for what adds up small changes over time.",
    "bf16_stochastic": "No master copy: each update is rounded up or down by chance, so that small ones arrive on average.",
    "fp16": "As with BF16 and a master, 16 bytes. FP16 has more digits and a smaller range, hence the loss scale.",
    "fp8": "E4M3 weights for the tensor cores, made anew from an fp32 master in each step and scaled as a tensor; BF16 weight gradients.",
}
SUM = "A sum of {count} ones in BF16, one after the other, stops at {stop}"
SUM_DETAIL = (
    "BF16 has 8 significant bits. From {stop} on its numbers are 2 apart, so {stop} + 1 lies half-way and rounds back to {stop}. A weight "
    "that adds up small updates is such a sum. torch.sum adds in fp32 and finds {torch_sum}."
)

BACKWARD = "Step {number}: forward and backward, loss {loss:.4f}"
BACKWARD_DETAIL = (
    "Compute in {format}. Of {gradients:count} gradients that are not zero in fp32, {gone:count} are zero here. "
    "The smallest number above zero that backward can hold is {smallest:.3g}."
)
SCALED_DETAIL = (
    "Compute in FP16, loss times {scale:count}. Of {gradients:count} gradients that are not zero in fp32, {gone:count} are zero here. FP16 "
    "ends at {smallest:.3g}; with this scale that is a gradient of {reached:.3g}."
)

SKIP = "Step {number} is skipped: FP16 overflows in {count:count} of {all:count} gradients, the loss scale falls to {scale:count}"
SKIP_DETAIL = (
    "The largest FP16 number is 65,504. No weight and no moment of Adam changes: one step is lost, not the model. With half the scale the "
    "next backward has twice the room."
)
STATIC = "Step {number} is skipped: FP16 overflows in {count:count} of {all:count} gradients, the loss scale stays {scale:count}"
STATIC_DETAIL = "Nothing adapts the scale: if it is too large for these gradients, training stands still for good."
GROWN = "Step {number}: {interval} good steps in a row, and the loss scale doubles to {scale:count}"
GROWN_DETAIL = "As high as it goes without overflow: small gradients have the more room. If it was too much, the next step is skipped."

MASTER_STILL = "The {format} weight does not move, its fp32 master does"
MASTER_STILL_DETAIL = (
    "The update {update:.3g} takes the master from {before:.7f} to {after:.7f}. The nearest {format} number is still {copy:.7g}. In this "
    "step {still:%} of all {format} weights stay where they are; of the masters, {stuck:%}."
)
MASTER_MOVES = "The {format} weight moves to {copy:.7g}: its master has come far enough"
MASTER_MOVES_DETAIL = (
    "The master remembers every update, also those too small to be seen: {update:.3g} in this step, and now it is at {after:.7f}. In this "
    "step {still:%} of all {format} weights stay where they are; of the masters, {stuck:%}."
)
MASTER_ZERO = "The watched weight gets no update"
LOST = "The update is lost: the {format} weight stays {copy:.7g}"
LOST_DETAIL = (
    "It should move by {update:.3g}, but the next {format} number is {gap:.3g} away, and less than half of that rounds back. There is no "
    "master to remember it. In this step {still:%} of all weights do not move."
)
MOVES = "The {format} weight moves from {before:.7g} to {copy:.7g}"
MOVES_DETAIL = "The update was {update:.3g}; the next {format} number is {gap:.3g} away. In this step {still:%} of all weights do not move."
CHANCE_STAYS = "By chance the BF16 weight stays {copy:.7g}"
CHANCE_MOVES = "By chance the BF16 weight moves from {before:.7g} to {copy:.7g}"
CHANCE_DETAIL = (
    "The update {update:.3g} is {share:%} of the {gap:.3g} to the next BF16 number, so that is the probability to go there. So far the "
    "weights have moved {kept:%} of the way their updates meant."
)
NOTHING_DETAIL = "Its gradient has been zero so far, so there is nothing to add. In this step {still:%} of the weights do not move."
END = "After {steps} steps the loss is {loss:.4f}; in fp32 it is {reference:.4f}"
END_DETAIL = "{lost:%} of all updates were lost, {underflow:%} of all gradients vanished, {skipped} steps were skipped."
END_CHANCE_DETAIL = (
    "{lost:%} of all updates did not move their weight, the others moved it too far: together {kept:%} of the way that was meant. "
    "{underflow:%} of all gradients vanished."
)
