"""What a tensor-parallel layer says at each step: titles and details as templates, by layout where layouts differ."""

from __future__ import annotations

SPANS = {
    "norm1": "norm",
    "attention": "attn",
    "add1": "add",
    "norm2": "norm",
    "up": "A",
    "down": "B",
    "add2": "add",
    "head": "head",
}

SIZES = "Sizes are BF16 with one-byte dropout masks."
TIMED = " Times are those of a layer {magnify} times as wide and as long."
VALUES = " The values on screen are computed in fp64, so that an error of the method is no rounding."
NO_VALUES = " This layer is too large for this machine: shapes, saved tensors and messages are real, values are not computed."
START = {
    "column_row": (
        "Each rank holds some heads, some columns of A and the same rows of B",
        "MLP = GeLU(XA)B. A is cut by columns, B by rows, QKV by heads and the output projection by rows: {share:%} of each on a rank. "
        "Norms and row biases are whole everywhere. ",
    ),
    "column_column": (
        "Each rank holds some heads, some columns of A and some columns of B",
        "MLP = GeLU(XA)B with both matrices cut by columns: {share:%} of each on a rank. A column of B needs all columns of GeLU(XA), "
        "and a rank has {share:%} of them. ",
    ),
    "row_first": (
        "Each rank holds some heads, some rows of A and all of B",
        "MLP = GeLU(XA)B with A cut by rows, so each rank can only add its part X_r A_r to XA. This run applies GeLU to the part, as if "
        "that were allowed: it is wrong on purpose. B stays whole, so that nothing else can be the reason. ",
    ),
    "tp": (
        "Tensor parallelism: heads, columns of A and rows of B are cut; norms and dropouts are not",
        "On {ranks} ranks {share:%} of every large matrix is here, but all {tokens:count} tokens go through the norms, dropouts and "
        "residuals of every rank, and all of that is saved for backward {ranks} times over. ",
    ),
    "tp_sp": (
        "Between the blocks each rank has some tokens: norms and dropouts are cut along the sequence",
        "A norm and a dropout look at one token at a time, so {own_tokens:count} of {tokens:count} tokens on each of {ranks} ranks are "
        "enough. Attention and MLP still take all tokens: they are gathered where a block starts. ",
    ),
    "tp_sp_regather": (
        "Between the blocks each rank has some tokens, and of a block's input it keeps only those",
        "Norms and dropouts work on {own_tokens:count} of {tokens:count} tokens. The gathered input of a block is thrown away after use "
        "and gathered once more in backward. ",
    ),
}

NORM = "Every rank normalises the whole activation for {block}"
NORM_DETAIL = (
    "All {ranks} ranks do the same work on the same {tokens:count} tokens and keep the same input: tensor parallelism cuts matrices, "
    "and a norm has none. Held for backward: {held:bytes} a rank."
)
NORM_CUT = "Every rank normalises its own {own_tokens} tokens for {block}"
NORM_CUT_DETAIL = (
    "A norm needs the whole width of a token but no other token. Each rank does {share:%} of the work and keeps {share:%} of the input. "
    "Held for backward: {held:bytes} a rank."
)

ENTER = "{block} starts without communication: its input is whole on every rank"
ENTER_DETAIL = (
    "f, forward: the identity. A product with some columns of a matrix needs all of X, and every rank has it. Backward f will be an "
    "all-reduce, for every rank only finds its own part of the gradient of X. 0 bytes sent."
)
GATHER = "All-gather puts the tokens together where {block} starts"
GATHER_DETAIL = (
    "g, forward: each rank sends its {own_tokens:count} tokens round the ring, {sent:bytes} a rank, half of what an all-reduce sends. "
    "Every rank has all {tokens:count} tokens now."
)
GATHER_FORGET_DETAIL = GATHER_DETAIL + " It will keep only its own: the rest is gathered again in backward."

ATTENTION = "Every rank runs its own heads and its rows of the output projection"
ATTENTION_DETAIL = (
    "{heads} heads a rank: no head looks at another, so scores and softmax need no communication. The projection of these heads is one "
    "summand of the output: (s, b, h), but a partial sum. Held for backward: {held:bytes} a rank."
)
LEAVE = "All-reduce adds up the {ranks} partial outputs of {block}"
LEAVE_DETAIL = (
    "The conjugate of f, forward. X_1 W_1 + X_2 W_2 + ... is a sum over ranks: {size:bytes} on each, {sent:bytes} sent by each. "
    "The row bias is not in it: added by {ranks} ranks it would count {ranks} times."
)
SCATTER = "Reduce-scatter adds up the partial outputs of {block} and leaves each rank its own tokens"
SCATTER_DETAIL = (
    "The conjugate of g, forward: the sum of {ranks} partial outputs, but each rank gets only its {own_tokens:count} tokens. "
    "{sent:bytes} sent by each: the other half of the all-reduce."
)
ADD = "The row bias is added once, then dropout and the residual of {block}"
ADD_DETAIL = (
    "On all {tokens:count} tokens, on every rank, with the same dropout mask everywhere. Another {mask:bytes} of mask on each rank. "
    "Held for backward: {held:bytes} a rank."
)
ADD_CUT_DETAIL = (
    "On each rank's own {own_tokens:count} tokens, with the masks of their positions: {mask:bytes} of mask a rank. "
    "Held for backward: {held:bytes} a rank."
)

UP_CHECKED = {
    "column": (
        "GeLU works column by column, so each rank applies it to its own {columns} columns",
        "GeLU(X[A_1 A_2 ...]) = [GeLU(XA_1) GeLU(XA_2) ...]. The columns of all ranks, side by side, differ from the dense layer by "
        "{error:.1e}: nothing is missing, and nothing was sent. Held for backward: {held:bytes} a rank.",
    ),
    "row": (
        "GeLU of a part of a sum is no part of the GeLU of the sum: off by up to {error:.3f}",
        "Each rank has all {columns:count} columns of X_r A_r, a part of the sum XA. GeLU(X_1 A_1) + GeLU(X_2 A_2) + ... misses "
        "GeLU(X_1 A_1 + X_2 A_2 + ...) by {relative:%} of its largest value in the first token. The sum must come first: an all-reduce of "
        "{ratio:.0f} times the usual size.",
    ),
    "one": (
        "With one rank the sum has one summand, and GeLU may be applied",
        "All {columns:count} columns are here, and they differ from the dense layer by {error:.1e}.",
    ),
}
UP = "Each rank applies GeLU to what it has: {columns} columns"
UP_DETAIL = "Input and output of GeLU are cut like the matrix. Held for backward: {held:bytes} a rank."

DOWN = {
    "row": (
        "Rows of B meet just the columns of GeLU(XA) that are here: no gather in between",
        "Rank r has columns {columns} r to {columns} (r + 1) - 1 of GeLU(XA), and these are the rows of B that it holds. The product is "
        "one summand of the output. Held for backward: {held:bytes} a rank.",
    ),
    "column": (
        "Every rank multiplies all of GeLU(XA) by its own columns of B",
        "The result is {share:%} of the output's columns, finished but in pieces: a second all-gather must follow, for the norm "
        "behind it needs whole tokens. Held for backward: {held:bytes} a rank.",
    ),
    "whole": (
        "Every rank multiplies its GeLU(X_r A_r) by the whole of B",
        "B is linear and would commute with the sum over ranks; GeLU before it does not. Held for backward: {held:bytes} a rank.",
    ),
}
GATHER_COLUMNS = {
    "hidden": (
        "All-gather in between: every rank needs all columns of GeLU(XA)",
        "Columns of B need them all. {sent:bytes} sent by each rank, {ratio:.2f} times what the whole MLP sends with A by columns and B by "
        "rows. Every rank now holds GeLU(XA) whole.",
    ),
    "MLP": (
        "All-gather puts the columns of the output together",
        "{sent:bytes} sent by each rank. No sum was needed, but the gather before has cost more than it saved.",
    ),
    "MLP input": (
        "All-gather puts the columns of the input's gradient together",
        "Each rank read its own columns of X, so it has the gradient of these. {sent:bytes} sent by each.",
    ),
}
SCATTER_COLUMNS = (
    "Reduce-scatter: each rank gets the summed gradient of its own columns of GeLU(XA)",
    "Backward of the gather in between. Every column of B has given a part of it: {sent:bytes} sent by each rank.",
)

LOGITS = "Each rank computes the logits of its own {rows} rows of the vocabulary"
LOGITS_DETAIL = "Logits are never gathered: {tokens:count} tokens x {vocabulary:count} words would be {size:bytes}."
PADDED = " The last {padding:count} rows only fill the vocabulary up to equal parts; their logits are -inf."
LOSS = "Three all-reduces of one number a token give the loss: {loss:.4f}"
LOSS_DETAIL = (
    "The largest logit (max), the sum of exponentials and the target's logit (sums), each {size:bytes} in fp32. "
    "With them every rank has the loss of all {tokens:count} tokens, and the gradient of its own logits."
)
LOSS_SHAPES = "Three all-reduces of one number a token give the loss"

ALONE = "One rank: nothing to send for {block}"
LOSS_ALONE = "One rank has all logits, and the loss: {loss:.4f}"
ALONE_DETAIL = "Every matrix is whole here, so no collective runs: 0 bytes sent. Held for backward: {held:bytes}."

BACK_ADD = "Backward of the residual behind {block}: dropout's mask and the row bias"
BACK_ADD_DETAIL = "The gradient goes on twice: through the mask into {block}, and past it. Held for backward: {held:bytes} a rank."
LEAVE_BACK_DETAIL = (
    "Every rank has the whole gradient, and that of a sum is that of every summand: the conjugate of f, backward, sends nothing. "
)
SCATTER_BACK = "All-gather gives every rank the gradient of all tokens of {block}'s output"
SCATTER_BACK_DETAIL = (
    "The conjugate of g, backward: what reduce-scatter did forward is an all-gather backward. {sent:bytes} sent by each rank."
)
BACK_DOWN = "Backward of B on every rank: gradients of its part of B and of GeLU(XA)"
BACK_DOWN_DETAIL = "Each rank finishes the gradient of its own cut of B alone. Held for backward: {held:bytes} a rank."
ENTER_BACK = "All-reduce adds up the {ranks} parts of the gradient where {block} started"
ENTER_BACK_DETAIL = (
    "f, backward. Each rank found the gradient of X through its own columns only. {sent:bytes} sent by each, while the weights' gradients "
    "are computed: compute has waited {waited:s} in all. Held for backward: {held:bytes} a rank."
)
GATHER_BACK = "Reduce-scatter adds up the gradient where {block} started; each rank gets its own tokens"
GATHER_BACK_DETAIL = (
    "g, backward: {sent:bytes} sent by each, while the weights' gradients are computed; compute has waited {waited:s} in all. "
    "Held for backward: {held:bytes} a rank."
)
REGATHER = "All-gather once more: the input of {block} was not kept"
REGATHER_DETAIL = (
    "Only the weight's gradient needs it, so it travels while the input's gradient is computed. {sent:bytes} sent by each rank: a quarter "
    "more in a layer, for {saved:bytes} less held a rank from forward to backward."
)
BACK_UP_ROWS = "Backward of GeLU and of A's rows on every rank"
BACK_UP_ROWS_DETAIL = "A rank finds the gradient of its own columns of X alone. Held for backward: {held:bytes} a rank."
BACK_NORM = "Backward of the norm before {block}"
BACK_NORM_DETAIL = {
    "tp": "Every rank has seen all tokens, so the gradients of the norm's weights are equal everywhere: nothing to add up. "
    "Held: {held:bytes} a rank.",
    "sp": "Every rank has seen its own tokens only, so its gradient of the norm's weights is a part: it will have to be added up. "
    "Held: {held:bytes} a rank.",
}
DONE = "All gradients are there, each where its parameter is"
DONE_DETAIL = (
    "A cut of a matrix has the gradient of that cut; what is whole everywhere has the same gradient everywhere. One layer sent "
    "{layer_sent:bytes} a rank."
)
DONE_SUMMED = "All-reduce adds up the gradients of what every rank holds but has seen only a part of"
DONE_SUMMED_DETAIL = (
    "{names}: {elements:count} numbers, {sent:bytes} sent by each rank. Left out, every rank would update its own copy differently. "
    "Activations took {layer_sent:bytes} a rank."
)
