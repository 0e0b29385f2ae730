"""What an expert-parallel run says at each step: titles and details as templates."""

from __future__ import annotations

START = "{tokens:count} tokens and {experts} experts, both spread over {ranks} ranks"
START_DETAIL = (
    "Rank r has its own tokens and experts r x {per_rank} to r x {per_rank} + {last}. A token goes to the {top_k} experts that the router "
    "gives it, wherever they are: {vector:bytes} for each copy there, {back:bytes} for each output back."
)
ROUTE = "Rank {rank} routes its {tokens:count} tokens: {share:%} of the choices leave the rank"
ROUTE_DETAIL = (
    "{choices:count} choices, {stay:count} of them for its own experts. Most go to rank {favourite}: {most:count}. A token of this rank "
    "needs {distinct:.3f} distinct ranks on average."
)
ROUTED = "Every rank has routed its tokens: {share:%} of the choices leave their rank"
ROUTED_DETAIL = (
    "{choices:count} choices; the busiest is rank {hottest} with {most:count}, {ratio:.2f} times the mean. A token needs {distinct:.3f} "
    "distinct ranks on average."
)
NO_TOKEN = "Rank {rank} has no tokens of its own"
NO_TOKEN_DETAIL = "There are more ranks than tokens. Its experts work for the others all the same."

SEATS = {
    "global": "Every expert has {seats} seats for the tokens of all ranks",
    "rank": "Every expert has {seats} seats for each rank's tokens",
}
SEATS_DETAIL = {
    "global": "Who comes first is decided over all ranks, first choices before second ones, so the counts are gathered before: "
    "{gathered:bytes} on each rank. {dropped:count} of {choices:count} choices are dropped; the busiest rank is left with {ratio:.2f} "
    "times the mean.",
    "rank": "Nothing is gathered: every rank drops on its own what is over its share, even where others leave seats empty. "
    "{dropped:count} of {choices:count} choices are dropped; the busiest rank is left with {ratio:.2f} times the mean.",
}

DISPATCH = {
    "expert": "All-to-all: a copy of each token for every expert it chose",
    "rank": "All-to-all: one copy of each token for every rank it needs",
    "node": "All-to-all between nodes: one copy of each token for every node it needs",
}
DISPATCH_DETAIL = {
    "expert": "{copies:count} copies are sent, {size:bytes} leave their rank. Two experts on one rank get the same token twice.",
    "rank": "{copies:count} copies are sent for {choices:count} choices, {size:bytes} leave their rank. A copy names its experts there.",
    "node": "{copies:count} copies are sent for {choices:count} choices, {size:bytes} leave their rank. On its node a copy goes to the "
    "rank with the sender's own place there.",
}
FORWARD = "All-to-all inside each node: one copy for every rank it needs"
FORWARD_DETAIL = (
    "{copies:count} copies, {size:bytes} leave their rank, none of them its node: the fast link carries what the slow one need not."
)
ARRIVED = "Rank {rank} has its {copies:count} copies"
ARRIVED_DETAIL = (
    "{received:bytes} from other ranks, {ratio:.2f} times the mean. The last of them came at {end:s}; its compute stream waited {wait:s}."
)
HOTTEST = "Rank {rank} is the hottest: it receives {ratio:.2f} times the mean, and everyone's all-to-all waits for it"
HOTTEST_DETAIL = (
    "{received:bytes} from other ranks go through one link, one message after the other, until {end:s}. Every other rank has one message "
    "in that queue and waits for its turn: with even loads all would be done at {even:s}."
)
ALL_ARRIVED = "Every rank has its copies; rank {rank}, the hottest, receives {ratio:.2f} times the mean"

EXPERTS = "Rank {rank} runs {active} of its experts on {rows:count} rows"
EXPERTS_DETAIL = "Rows are sorted by expert and multiplied group by group: {ratio:.2f} times the mean of all ranks, {seconds:s}."
NO_ROWS = "Rank {rank} gets no token: its experts have nothing to do"
NO_ROWS_DETAIL = "It sends its own tokens' copies and gets their outputs back like every rank, and takes part in both all-to-alls."
ALL_EXPERTS = "Every rank runs its experts; the busiest has {rows:count} rows, {ratio:.2f} times the mean"
ALL_EXPERTS_DETAIL = (
    "Rows are sorted by expert and multiplied group by group. The busiest takes {seconds:s}, rank {rank}; the mean is {mean:s}."
)

COMBINE = "All-to-all: the outputs go back to their tokens"
COMBINE_DETAIL = {
    "expert": "{copies:count} outputs, {size:bytes} leave their rank. Rank {rank} was the last to finish its experts, and a rank can only "
    "add up a token when the outputs of all its experts are there.",
    "rank": "{copies:count} outputs, {size:bytes} leave their rank: what the experts of one rank make of a token is weighted and summed "
    "there. Rank {rank} was the last to finish its experts.",
    "node": "{copies:count} outputs, {size:bytes} leave their rank: sums are made on the rank, then once more on the node. "
    "Rank {rank} was the last to finish its experts.",
}
BACK = "Rank {rank} has its outputs back after waiting {wait:s}"
BACK_DETAIL = (
    "{received:bytes} came back. Each token adds up its outputs; the ones from rank {hottest}, the hottest, could not come earlier."
)
ALL_BACK = "Every rank has its outputs back; rank {rank} has waited longest, {wait:s}"
ALL_BACK_DETAIL = "{received:bytes} came back to it. The outputs of rank {hottest}, the hottest, could not come earlier."
PARTLY_BACK = "The outputs are back on the ranks that passed their tokens on"
PARTLY_BACK_DETAIL = (
    "Each adds up what the ranks of its node made of a token, and one sum goes back between nodes: {size:bytes} came to this point."
)

END = "The layer took {seconds:s}; the busiest rank computed {busy:s} of it"
END_DETAIL = (
    "The hottest rank has {ratio:.2f} times the mean load and sets the pace of both all-to-alls: dispatch {dispatch:bytes}, combine "
    "{combine:bytes}. Backward sends the same again the other way. The output equals the layer on one device: largest difference "
    "{error:.1e}."
)
