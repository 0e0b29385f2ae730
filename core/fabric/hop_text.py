"""What the steps of a collective say: templates by operation, algorithm and phase."""

from __future__ import annotations

START: dict[str, tuple[str, str]] = {
    "all_reduce": (
        "Each of {ranks:rank|ranks} holds its own array; all are to hold the sum",
        "The arrays have {elements:elements} each ({size:bytes}). Everybody will use the whole sum, as in data parallelism without "
        "sharding: every rank updates all parameters.",
    ),
    "reduce_scatter": (
        "Each of {ranks:rank|ranks} holds its own array; each is to hold one chunk of the sum",
        "The arrays have {elements:elements} each ({size:bytes}). A rank will use its own chunk of the sum and nothing else, as in ZeRO "
        "from stage 1 on: it updates that shard alone.",
    ),
    "all_gather": (
        "Each of {ranks:rank|ranks} holds one chunk; all are to hold every chunk",
        "The chunks make up {elements:elements} ({size:bytes}). Nothing is added: what is known in one place becomes known everywhere.",
    ),
    "broadcast": (
        "Rank {root} holds an array; all {ranks:rank|ranks} are to hold it",
        "The array has {elements:elements} ({size:bytes}). The others have nothing yet that counts.",
    ),
    "reduce": (
        "Each of {ranks:rank|ranks} holds its own array; rank {root} alone is to hold the sum",
        "The arrays have {elements:elements} each ({size:bytes}).",
    ),
    "all_to_all": (
        "Each of {ranks:rank|ranks} holds a block for every rank",
        "The blocks of a rank make up {elements:elements} ({size:bytes}). Block r of rank p is to become block p of rank r: a "
        "transposition, nothing is added.",
    ),
}

_TRAVELS = (
    "Rank {source} sends chunk {chunk} ({size:bytes}) to rank {target}, its neighbour, which adds its own values: the partial sum "
    "now has the values of {after} of {ranks} ranks. The {messages:message|messages} of the hop travel side by side, each on its own "
    "link."
)
_PASSED_ON = (
    "Rank {source} passes chunk {chunk} ({size:bytes}) on to rank {target}. Nothing is added any more: {finished} of {places} places are "
    "filled. The {messages:message|messages} of the hop travel side by side."
)
ROUND: dict[tuple[str, str], tuple[str, str]] = {
    ("ring", "reduce-scatter"): ("Reduce-scatter, hop {hop} of {hops}: partial sums move one rank on", _TRAVELS),
    ("ring", "all-gather"): ("All-gather, hop {hop} of {hops}: finished chunks move one rank on", _PASSED_ON),
    ("ring", "broadcast"): (
        "Broadcast, hop {hop} of {hops}: pieces run down the chain, one behind the other",
        "Rank {source} passes piece {chunk} ({size:bytes}) to rank {target}. {messages:link|links} busy: cut into pieces the array "
        "keeps all of them at work, where whole it would use one at a time. {finished} of {places} places are filled.",
    ),
    ("ring", "reduce"): (
        "Reduce, hop {hop} of {hops}: partial sums run down the chain towards rank {root}",
        "Rank {source} passes its partial sum of piece {chunk} ({size:bytes}) to rank {target}, which adds its own values: those of"
        " {after} of {ranks:rank|ranks} are in it now. {messages:link|links} busy.",
    ),
    ("tree", "reduce"): (
        "Reduce, level {hop} of {hops}: {messages:partial sum moves|partial sums move} up the tree",
        "Rank {source} sends its whole partial sum ({size:bytes}) to rank {target} and is done: {after} of {ranks:rank|ranks} are in the"
        " sum there. Half of those that took part drop out on every level.",
    ),
    ("tree", "broadcast"): (
        "Broadcast, level {hop} of {hops}: {messages:copy moves|copies move} down the tree",
        "Rank {source} sends the whole array ({size:bytes}) to rank {target}. The number of ranks that have it doubles: "
        "{finished} of {places} now.",
    ),
    ("recursive_doubling", "fold in"): (
        "Fold in: {messages:rank|ranks} beyond a power of two, which hand over what they have",
        "Doubling needs a power of two. Rank {source} sends {size:bytes} to its neighbour rank {target}, which acts for both from here on.",
    ),
    ("recursive_doubling", "exchange"): (
        "Exchange {hop} of {hops}: partners {distance} apart swap whole arrays and add",
        "Rank {source} and rank {target} send each other {size:bytes} at the same time; both hold the sum of {after} of {ranks} "
        "ranks now. Few hops, but the whole array on every one of them.",
    ),
    ("recursive_doubling", "reduce-scatter"): (
        "Halving {hop} of {hops}: partners {distance} apart swap the halves they will not keep",
        "Rank {source} sends rank {target} its partial sums of {chunks:chunk|chunks} ({size:bytes}) and keeps the rest, to which it adds "
        "what it gets: {after} of {ranks:rank|ranks} are in those sums. The messages halve every time.",
    ),
    ("recursive_doubling", "all-gather"): (
        "Doubling {hop} of {hops}: partners {distance} apart swap all they have",
        "Rank {source} sends rank {target} the {chunks:chunk|chunks} it has ({size:bytes}). The messages double every time: {finished} of"
        " {places} places are filled.",
    ),
    ("recursive_doubling", "fold out"): (
        "Fold out: {messages:rank|ranks} to be told the result by the partner that acted for them",
        "Rank {source} sends {size:bytes} to rank {target}. The two extra rounds are the price of a number "
        "of ranks ({ranks}) that is no power of two.",
    ),
    ("direct", "reduce-scatter"): (
        "Reduce-scatter, round {hop} of {hops}: every rank sends a chunk to its owner",
        "Rank {source} sends its values of chunk {chunk} ({size:bytes}) straight to rank {target}, the owner, which adds them: "
        "{after} of {ranks:rank|ranks} are in the sum there. {messages:message|messages} side by side.",
    ),
    ("direct", "all-gather"): (
        "All-gather, round {hop} of {hops}: every owner sends its chunk to another rank",
        "Rank {source} sends its own chunk ({size:bytes}) straight to rank {target}: {finished} of {places} places are filled. "
        "{messages:message|messages} side by side.",
    ),
    ("direct", "broadcast"): (
        "Broadcast, message {hop} of {hops}: rank {source} sends the whole array to rank {target}",
        "{size:bytes} through the one port of rank {source}, again and again: {finished} of {places} ranks have it, and nobody "
        "helps to spread it.",
    ),
    ("direct", "reduce"): (
        "Reduce, message {hop} of {hops}: rank {target} receives the whole array of rank {source}",
        "{size:bytes} through the one port of rank {target}, again and again: {after} of {ranks:rank|ranks} are in the sum.",
    ),
    ("direct", "all-to-all"): (
        "All-to-all, round {hop} of {hops}: every rank sends a block to the rank {hop} places on",
        "Rank {source} sends rank {target} the block that is meant for it ({size:bytes}). {messages:message|messages} side by side, "
        "{finished} of {places} blocks are where they belong.",
    ),
}

ROUND_ACROSS_NODES = {
    key: (title, detail + " Messages that cross nodes, on the link between them: {between_nodes}.")
    for key, (title, detail) in ROUND.items()
}

HALFWAY: dict[str, tuple[str, str]] = {
    "reduce-scatter": (
        "Halfway: each rank owns exactly one finished chunk. That was a reduce-scatter",
        "Rank r holds chunk r, summed over all {ranks:rank|ranks}, and no other finished chunk anywhere. Whoever updates only its own "
        "shard may stop here, at half the bytes ({sent:bytes} sent by the busiest rank). All-reduce goes on with an all-gather, "
        "because everybody wants all of it.",
    ),
    "reduce": (
        "Halfway: rank {root} holds the whole sum. That was a reduce",
        "All {ranks:rank|ranks} are in it, and no other rank has any of it. All-reduce goes on with a broadcast.",
    ),
    "exchange": (
        "Every acting rank holds the whole sum",
        "There was no owner on the way: partners made the same sums twice, side by side. What is left is to tell the ranks that "
        "were folded in.",
    ),
}

DONE: dict[str, tuple[str, str]] = {
    "all_reduce": (
        "Every rank holds the sum of all {ranks} arrays",
        "{messages:message|messages}, {hops:round|rounds} one after the other, {sent:bytes} sent by the busiest rank, {seconds:s}.",
    ),
    "reduce_scatter": (
        "Rank r holds chunk r of the sum, and nobody holds more",
        "{messages:message|messages}, {hops:round|rounds} one after the other, {sent:bytes} sent by the busiest rank, {seconds:s}.",
    ),
    "all_gather": (
        "Every rank holds every chunk",
        "{messages:message|messages}, {hops:round|rounds} one after the other, {sent:bytes} sent by the busiest rank, {seconds:s}.",
    ),
    "broadcast": (
        "Every rank holds the array of rank {root}",
        "{messages:message|messages}, {hops:round|rounds} one after the other, {sent:bytes} sent by the busiest rank, {seconds:s}.",
    ),
    "reduce": (
        "Rank {root} holds the sum of all {ranks} arrays",
        "{messages:message|messages}, {hops:round|rounds} one after the other, {sent:bytes} sent by the busiest rank, {seconds:s}.",
    ),
    "all_to_all": (
        "Every block is where it belongs",
        "{messages:message|messages}, {hops:round|rounds} one after the other, {sent:bytes} sent by the busiest rank, {seconds:s}.",
    ),
}
