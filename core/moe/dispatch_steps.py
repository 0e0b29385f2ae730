"""The steps of a dispatch recording, phase by phase: each followed token by itself, and every expert when there are many tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from torch import Tensor

from core.moe.dispatch_checks import numpy
from core.moe.dispatch_stage import Stage
from core.moe.experts import Permutation
from core.moe.routers import RENORMALISED, Capacity, DropOrder, RouterName, Routing, uniform_drops
from core.recording import Recorder

# name -> (unit, note); all are counted, of the walked layer
FACTS: dict[str, tuple[str, str]] = {
    "tokens_per_expert_max": ("count", "rows the router chooses an expert for, before any are dropped"),
    "tokens_per_expert_mean": ("count", "tokens x top_k / experts"),
    "tokens_per_expert_min": ("count", "before any are dropped"),
    "max_over_mean_load": ("", "tokens_per_expert_max / tokens_per_expert_mean"),
    "dead_experts": ("count", "experts no token chose"),
    "capacity": ("count", "ceil(capacity_factor x tokens x top_k / experts)"),
    "dropped_tokens": ("count", "token-expert assignments past the capacity, the numerator of drop_rate"),
    "drop_rate": ("%", "dropped_tokens / (tokens x top_k)"),
    "tokens_with_a_drop": ("count", "tokens that lost at least one of their experts"),
    "tokens_without_expert": ("count", "tokens that lost all their experts: the layer adds zero to them"),
    "kept_per_expert_max": ("count", "rows of the highest block, after drops"),
    "padding_fraction": (
        "%",
        "zero rows of a padded batched matmul: every expert at its capacity, without a limit at the busiest one's load",
    ),
    "expert_changes": ("count", "how often the expert changes from one row to the next"),
    "permuted_bytes": ("bytes", "rows gathered by expert; as many come back"),
    "flops": ("flop", "2 M N K over all grouped GEMMs done so far"),
    "dense_flops": ("flop", "all experts on all tokens"),
    "kept_gate_sum_min": ("", "smallest sum of a token's kept gates"),
}


ONLY_WITH_CAPACITY = frozenset({"capacity", "tokens_with_a_drop", "tokens_without_expert", "kept_per_expert_max", "kept_gate_sum_min"})


def announce(rec: Recorder, limited: bool) -> None:
    """Every fact in its place, without a value yet; without a capacity those that say nothing then are left out."""
    for name in FACTS:
        if limited or name not in ONLY_WITH_CAPACITY:
            set_fact(rec, name, None)


def set_fact(rec: Recorder, name: str, value: float | int | None) -> None:
    unit, note = FACTS[name]
    rec.fact(name, value, unit, "simulated", note)


def record_route(rec: Recorder, stage: Stage, router: RouterName, file: str, hidden: int, routing: Routing, followed: int) -> None:
    """Scores, then a step for each assignment of a followed token, then (of many tokens) one for each expert's load."""
    (tokens, experts), k = routing.probabilities.shape, routing.experts.shape[1]
    chosen, gates = numpy(routing.experts), numpy(routing.gates)
    stage.probabilities(routing)
    if file:
        detail = (
            "The logits are read from {file}; softmax makes them probabilities, and each token keeps its {top_k} strongest experts. "
            "Tokens of {hidden} numbers and the experts' weights are drawn here, so that real rows travel."
        )
    elif router == "uniform":
        detail = "The logits are drawn at random, whatever a token holds: every expert is equally likely. Each token keeps {top_k}."
    else:
        detail = (
            "The {hidden} numbers of a token times the router's weights give one logit per expert. "
            "Softmax makes them probabilities, and each token keeps its {top_k} strongest experts."
        )
    rec.step(
        "The router scores {tokens} tokens against {experts} experts",
        detail,
        tokens=tokens, experts=experts, top_k=k, hidden=hidden, file=Path(file).name, router=router,
    )  # fmt: skip

    running = np.zeros(experts, dtype=np.int64)
    sums = numpy(routing.probabilities.gather(1, routing.experts)).sum(axis=1)
    for token in range(followed):
        for slot in range(k):
            expert, gate = int(chosen[token, slot]), float(gates[token, slot])
            running[expert] += 1
            stage.choose(token, slot, expert, gate)
            if followed == tokens:
                stage.chosen(expert, int(running[expert]))
                _load(rec, running)
            how = (
                "divided by {chosen_sum:.3f}, the sum of the chosen, it is the gate."
                if router in RENORMALISED
                else "it is the gate as it stands: this router does not renormalise ({chosen_sum:.3f} in all)."
            )
            rec.step(
                "Token {token} ({word}) goes to expert {expert} with gate {gate:.3f}",
                "Choice {choice} of {top_k}. The expert's probability is {probability:.3f}; " + how,
                token=token, word=stage.words[token], expert=expert, slot=slot, gate=gate, choice=slot + 1, top_k=k,
                probability=float(routing.probabilities[token, expert]), chosen_sum=float(sums[token]),
            )  # fmt: skip
    load = np.bincount(chosen.reshape(-1), minlength=experts)
    if followed < tokens:
        for token in range(followed, stage.shown):
            for slot in range(k):
                stage.choose(token, slot, int(chosen[token, slot]), float(gates[token, slot]))
        mean = tokens * k / experts
        for expert, count in enumerate(load.tolist()):
            stage.chosen(expert, count)
            if not expert:
                _load(rec, load)
                set_fact(rec, "expert_changes", _changes(chosen.reshape(-1)))
            rec.step(
                "Expert {expert} is chosen for {load} of {assignments} rows",
                "The mean is {mean:.1f} rows an expert: this one has {ratio:.2f} times as many."
                if count
                else "A dead expert: its weights take memory and this batch teaches them nothing. The mean is {mean:.1f} rows.",
                expert=expert, load=count, assignments=tokens * k, mean=mean, ratio=count / mean,
            )  # fmt: skip
    _load(rec, load)
    set_fact(rec, "expert_changes", _changes(chosen.reshape(-1)))


def _load(rec: Recorder, load: np.ndarray) -> None:
    mean = float(load.mean())
    set_fact(rec, "tokens_per_expert_max", int(load.max()))
    set_fact(rec, "tokens_per_expert_mean", mean)
    set_fact(rec, "tokens_per_expert_min", int(load.min()))
    set_fact(rec, "max_over_mean_load", float(load.max()) / mean)
    set_fact(rec, "dead_experts", int((load == 0).sum()))


def _changes(experts: np.ndarray) -> int:
    return int((experts[1:] != experts[:-1]).sum())


_QUEUES: dict[DropOrder, str] = {
    "choice": "All first choices are seated before all second choices, each in token order.",
    "position": "Tokens are seated one after the other, each with all its choices: late tokens lose.",
    "gate": "The largest gates are seated first: the weakest assignments lose.",
}


def record_capacity(
    rec: Recorder, stage: Stage, routing: Routing, seated: Capacity, capacity: int | None, factor: float, order: DropOrder, followed: int
) -> None:
    """Who is seated and who is dropped; without a limit one step says what padding would have cost."""
    (tokens, experts), k = routing.probabilities.shape, routing.experts.shape[1]
    chosen, kept = numpy(routing.experts), numpy(seated.kept)
    load = np.bincount(chosen.reshape(-1), minlength=experts)
    counts = np.bincount(chosen[kept], minlength=experts)
    height = int(load.max()) if capacity is None else capacity
    padding = 1.0 - int(counts.sum()) / (experts * height)
    if capacity is None:
        for expert, count in enumerate(load.tolist()):
            stage.seated(expert, count, 0, 0)
        stage.pad(load.tolist(), height)
        _capacity_facts(rec, capacity, kept, counts, padding)
        rec.step(
            "No capacity limit: every expert takes all its rows",
            "The busiest has {busiest} rows, the mean is {mean:.2f}. A padded batched matmul would bring every expert to {busiest}: "
            "{padding:%} of its rows would be zeros. Grouped GEMM takes blocks of unequal height instead.",
            busiest=height, mean=tokens * k / experts, padding=padding,
        )  # fmt: skip
        return
    set_fact(rec, "capacity", capacity)
    rec.step(
        "Each expert takes at most {capacity} rows",
        "C = ceil({factor} x {tokens} x {top_k} / {experts}) = {capacity}. " + _QUEUES[order],
        capacity=capacity, factor=factor, tokens=tokens, top_k=k, experts=experts,
    )  # fmt: skip
    _seat_followed(rec, stage, routing, seated, capacity, load, followed)
    if followed < tokens:
        _seat_experts(rec, stage, routing, kept, load, counts, capacity, followed)
    stage.pad(counts.tolist(), height)
    _capacity_facts(rec, capacity, kept, counts, padding)
    uniform, _ = uniform_drops(tokens, experts, k, capacity)
    rec.fact(
        "uniform_drop_rate", uniform, "%", "formula", "exact binomial (tokens, top_k / experts): what a uniform router drops on average"
    )
    rec.step(
        "{dropped} of {assignments} assignments are dropped",
        "{alone} of {tokens} tokens lose all their experts. On average a uniform router would drop {uniform:%}. "
        "{empty} seats stay empty elsewhere: {padding:%} of a padded buffer.",
        dropped=int((~kept).sum()), assignments=kept.size, alone=int((~kept).all(axis=1).sum()), tokens=tokens,
        uniform=uniform, empty=int(experts * capacity - counts.sum()), padding=padding,
    )  # fmt: skip


def _capacity_facts(rec: Recorder, capacity: int | None, kept: np.ndarray, counts: np.ndarray, padding: float) -> None:
    lost = (~kept).sum(axis=1)
    set_fact(rec, "dropped_tokens", int(lost.sum()))
    set_fact(rec, "drop_rate", float(lost.sum()) / kept.size)
    set_fact(rec, "padding_fraction", padding)
    if capacity is None:
        return
    set_fact(rec, "capacity", capacity)
    set_fact(rec, "tokens_with_a_drop", int((lost > 0).sum()))
    set_fact(rec, "tokens_without_expert", int((lost == kept.shape[1]).sum()))
    set_fact(rec, "kept_per_expert_max", int(counts.max()))


def _seat_followed(rec: Recorder, stage: Stage, routing: Routing, seated: Capacity, capacity: int, load: np.ndarray, followed: int) -> None:
    """A step for each assignment of a followed token, in the order in which they are seated."""
    tokens, k = routing.experts.shape
    chosen, gates, place = numpy(routing.experts), numpy(routing.gates), numpy(seated.place)
    queue = numpy(seated.queue)
    done = [0] * len(load)
    for assignment in queue[queue < followed * k].tolist():
        token, slot = divmod(assignment, k)
        expert, gate, seat_number = int(chosen[token, slot]), float(gates[token, slot]), int(place[token, slot]) + 1
        done[expert] += 1
        if seat_number > capacity:
            stage.drop(token, slot, expert, gate)
        if followed == tokens:
            dropped = max(done[expert] - capacity, 0)
            stage.seated(expert, done[expert] - dropped, int(load[expert]) - done[expert], dropped)
        title, detail = (
            (
                "Expert {expert} takes token {token} ({word}): row {place} of {capacity}",
                "Its gate is {gate:.3f}. {load} rows ask for this expert in all.",
            )
            if seat_number <= capacity
            else (
                "Expert {expert} is full: token {token} ({word}) is dropped",
                "It comes as number {place} for {capacity} rows. Its gate of {gate:.3f} is lost: no other expert takes the row, and the "
                "gates that are kept are not renormalised.",
            )
        )
        rec.step(
            title, detail, token=token, word=stage.words[token], expert=expert, slot=slot, place=seat_number, capacity=capacity,
            gate=gate, load=int(load[expert]),
        )  # fmt: skip


def _seat_experts(
    rec: Recorder, stage: Stage, routing: Routing, kept: np.ndarray, load: np.ndarray, counts: np.ndarray, capacity: int, followed: int
) -> None:
    """One step for each expert; the shown tokens that were not followed are marked with it."""
    shown = slice(followed, stage.shown)
    chosen, gates = numpy(routing.experts)[shown], numpy(routing.gates)[shown]
    for expert, (asked, taken) in enumerate(zip(load.tolist(), counts.tolist(), strict=True)):
        stage.seated(expert, taken, 0, asked - taken)
        for token, slot in np.argwhere((chosen == expert) & ~kept[shown]).tolist():
            stage.drop(token + followed, slot, expert, float(gates[token, slot]))
        rec.step(
            "Expert {expert} keeps {kept} of {load:row|rows}",
            "It has {capacity:seat|seats}: {dropped:row is|rows are} dropped, {empty:seat stays|seats stay} empty.",
            expert=expert, kept=taken, load=asked, capacity=capacity, dropped=asked - taken, empty=capacity - taken,
        )  # fmt: skip


def record_permute(rec: Recorder, stage: Stage, routing: Routing, permutation: Permutation, rows: Tensor, followed: int) -> None:
    """Each followed row moves into its block, then (of many tokens) block by block; last, what the sort has achieved."""
    tokens, k = routing.experts.shape
    chosen, counts = numpy(routing.experts).reshape(-1), numpy(permutation.counts)
    firsts = np.cumsum(counts) - counts
    placed = stage.place_rows(permutation)
    for row, assignment in placed:
        if assignment >= followed * k:
            continue
        token, expert = assignment // k, int(chosen[assignment])
        stage.move(row, token, expert)
        rec.step(
            "Row {row}: token {token} ({word}) moves into the block of expert {expert}",
            "In token order it was assignment {assignment}. Its place in the block is {place} of {rows}: the sort is stable, so the "
            "rows of one expert stay in token order.",
            row=row, token=token, word=stage.words[token], expert=expert, slot=assignment % k, assignment=assignment,
            place=row - int(firsts[expert]) + 1, rows=int(counts[expert]),
        )  # fmt: skip
    order = numpy(permutation.order)
    if followed < tokens:
        for expert, count in enumerate(counts.tolist()):
            if not count:
                continue
            first = int(firsts[expert])
            for row, assignment in placed:
                if assignment >= followed * k and first <= row < first + count:
                    stage.move(row, assignment // k, expert)
            rec.step(
                "Rows {first} to {last} are the block of expert {expert}",
                "{rows} rows, gathered from between token {first_token} and token {last_token}, stand side by side, still in token order.",
                expert=expert, first=first, last=first + count - 1, rows=count,
                first_token=int(order[first]) // k, last_token=int(order[first + count - 1]) // k,
            )  # fmt: skip
    before, after = _changes(chosen), _changes(chosen[order])
    set_fact(rec, "expert_changes", after)
    set_fact(rec, "permuted_bytes", rows.numel() * rows.element_size())
    rec.step(
        "The scattered rows are contiguous now: {blocks} blocks, one for each expert with rows",
        "In token order the expert changes {before} times from row to row, now {after} times. Each block meets one expert's weights: "
        "{rows} products of a single row become {blocks} matrix products. The permutation is kept, it will bring the rows back.",
        blocks=int((counts > 0).sum()), before=before, after=after, rows=len(rows),
    )  # fmt: skip


def record_experts(
    rec: Recorder, stage: Stage, permutation: Permutation, hidden: int, ffn: int, k: int, refusal: str
) -> None:  # fmt: skip
    """One step for each expert: the two GEMMs of its block."""
    counts = numpy(permutation.counts)
    order = numpy(permutation.order)
    firsts = np.cumsum(counts) - counts
    done = 0
    rec.fact("grouped_mm", not refusal, "", "simulated", refusal or "torch.nn.functional.grouped_mm multiplies all blocks in one call")
    rec.step(
        "Grouped GEMM: {blocks} blocks of {lowest} to {highest} rows",
        "One grouped_mm call takes all rows, the weights of all experts and the row at which each block ends."
        if not refusal
        else "Each block is a matmul of its own here: {reason}.",
        blocks=int((counts > 0).sum()), lowest=int(counts[counts > 0].min()), highest=int(counts.max()),
        reason=refusal,
    )  # fmt: skip
    for expert, count in enumerate(counts.tolist()):
        first = int(firsts[expert])
        shown = [row for row in stage.rows if first <= row < first + count]
        stage.multiply(expert, shown, (("up", count, 2 * ffn, hidden), ("down", count, hidden, ffn)))
        flops = 6 * count * hidden * ffn
        done += flops
        set_fact(rec, "flops", done)
        title, detail = (
            (
                "Expert {expert} multiplies its {rows} rows" if count > 1 else "Expert {expert} multiplies its only row",
                "Up: ({rows} x {hidden}) times ({hidden} x {both}) gives gate and up, SwiGLU joins them. Down: ({rows} x {ffn}) times "
                "({ffn} x {hidden}). Together {flops:flop}, {share:%} of the layer's.",
            )
            if count
            else ("Expert {expert} has no rows", "M = 0: nothing is computed, and its {weights:elements} of weights are not read.")
        )
        rec.step(
            title, detail, expert=expert, rows=count, hidden=hidden, ffn=ffn, both=2 * ffn, flops=flops,
            share=count / len(order), weights=3 * hidden * ffn,
        )  # fmt: skip


def record_combine(
    rec: Recorder, stage: Stage, routing: Routing, kept: Tensor, tokens: Tensor, output: Tensor, error: float, followed: int
) -> None:
    """Each followed token collects its rows; the last step says what has come back."""
    count, k = routing.experts.shape
    chosen, gates, keep = numpy(routing.experts), numpy(routing.gates), numpy(kept)
    sums = (gates * keep).sum(axis=1)
    before, after = numpy(tokens[:followed].float().norm(dim=1)), numpy(output[:followed].float().norm(dim=1))
    for token in range(stage.shown):
        for slot in range(k):
            if keep[token, slot]:
                stage.bring_back(token, slot, int(chosen[token, slot]), float(gates[token, slot]))
        if token >= followed:
            continue
        back = int(keep[token].sum())
        if back == k:
            title = "Token {token} ({word}) is the sum of its {back:row|rows}, gates {gate_sum:.3f} in all"
            detail = "Each row comes back from its expert times its gate. The token had norm {norm_in:.2f}, the answer has {norm_out:.2f}."
        elif back:
            title = "Token {token} ({word}) gets {back} of {top_k} rows back, gates {gate_sum:.3f} in all"
            detail = "The dropped part, gates of {lost:.3f}, is missing from its answer: norm {norm_out:.2f}. Nothing makes up for it."
        else:
            title = "Token {token} ({word}) gets nothing back"
            detail = "All its {top_k} experts were full. The layer adds zero; only the residual connection carries the token on."
        rec.step(
            title, detail, token=token, word=stage.words[token], back=back, top_k=k, gate_sum=float(sums[token]),
            lost=float(gates[token].sum() - sums[token]), norm_in=float(before[token]), norm_out=float(after[token]),
        )  # fmt: skip
    experts = routing.probabilities.shape[1]
    flops = rec.recording.fact("flops", rec.now)
    dense = flops * count * experts // int(keep.sum()) if isinstance(flops, int) else None
    set_fact(rec, "dense_flops", dense)
    if stage.capacity is not None:
        set_fact(rec, "kept_gate_sum_min", float(sums.min()))
    rec.step(
        "The rows are back in token order, weighted by their gates: {rows} rows, {tokens} tokens",
        "The inverse permutation undoes the sort and each token adds up its own rows. All experts on all tokens, masked by the gates, give "
        "the same within {error:.1e} of the largest value, for {dense_flops:flop} instead of {flops:flop}.",
        rows=int(keep.sum()), tokens=count, error=error, dense_flops=dense, flops=flops,
    )  # fmt: skip
