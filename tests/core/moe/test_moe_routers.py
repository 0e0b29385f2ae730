"""Routers, capacity and drops against loops written out and published numbers."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.moe.routers import Routing, expert_capacity, route, seat, uniform_drops
from core.simulation import record


def test_mixtral_and_qwen3_gates_are_the_softmax_of_the_chosen_logits_alone():
    logits = torch.tensor([[1.0, 3.0, 2.0, -1.0]])
    for router in ("mixtral", "qwen3"):
        routing = route(router, logits, 2)
        assert routing.experts.tolist() == [[1, 2]]
        assert torch.allclose(routing.gates, torch.softmax(torch.tensor([[3.0, 2.0]]), 1))


def test_the_softmax_router_keeps_the_probabilities_as_they_are():
    logits = torch.tensor([[1.0, 3.0, 2.0, -1.0]])
    routing = route("softmax", logits, 2)
    assert torch.allclose(routing.gates, torch.softmax(logits, 1)[:, [1, 2]])
    assert float(routing.gates.sum()) < 0.95


def test_gates_of_bfloat16_logits_are_computed_in_float32():
    logits = torch.randn(16, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert torch.equal(route("mixtral", logits, 2).gates, route("mixtral", logits.float(), 2).gates)


@pytest.mark.parametrize(
    ("factor", "tokens", "top_k", "experts", "capacity"),
    [(1.0, 1024, 1, 8, 128), (1.25, 1024, 1, 64, 20), (1.1, 10, 1, 1, 11), (1.0, 10, 2, 8, 3), (0.001, 8, 1, 8, 1), (0.0, 8, 2, 4, None)],
)
def test_capacity_is_the_ceiling_of_the_written_factor(factor, tokens, top_k, experts, capacity):
    assert expert_capacity(factor, tokens, top_k, experts) == capacity


def seated_by_hand(experts, gates, capacity, order):
    """One assignment after the other, counting on."""
    tokens, top_k = experts.shape
    ids = [(t, s) for t in range(tokens) for s in range(top_k)]
    if order == "choice":
        ids.sort(key=lambda a: (a[1], a[0]))
    elif order == "gate":
        ids.sort(key=lambda a: (-gates[a], a))
    taken, kept = Counter(), np.zeros(experts.shape, dtype=bool)
    for assignment in ids:
        expert = experts[assignment]
        kept[assignment] = taken[expert] < capacity
        taken[expert] += 1
    return kept


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 10_000), st.sampled_from(["choice", "position", "gate"]), st.data())
def test_who_is_dropped_equals_seating_one_by_one(tokens, experts, seed, order, data):
    top_k = data.draw(st.integers(1, experts))
    capacity = data.draw(st.integers(1, tokens))
    logits = torch.randn(tokens, experts, generator=torch.Generator().manual_seed(seed))
    routing = route("mixtral", logits, top_k)
    seated = seat(routing, capacity, order)
    want = seated_by_hand(routing.experts.numpy(), routing.gates.numpy(), capacity, order)
    assert np.array_equal(seated.kept.numpy(), want)
    assert torch.equal(seated.kept, seated.place < capacity)


def test_choice_order_seats_every_first_choice_before_a_second_one():
    experts = torch.tensor([[0, 1], [1, 0], [0, 1]])
    routing = Routing(torch.zeros(3, 2), experts, torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2]]))
    assert seat(routing, 2, "choice").kept.tolist() == [[True, True], [True, False], [True, False]]
    assert seat(routing, 2, "position").kept.tolist() == [[True, True], [True, True], [False, False]]
    assert seat(routing, 2, "gate").kept.tolist() == [[True, False], [True, False], [True, True]]


@pytest.mark.parametrize(
    ("tokens", "experts", "factor", "percent", "digits"),
    [
        (1024, 8, 1.0, 3.30, 2), (1024, 8, 1.25, 0.004, 3), (1024, 64, 1.0, 9.84, 2), (1024, 64, 1.25, 2.24, 2),
        (1024, 64, 1.5, 0.305, 3), (4096, 64, 1.0, 4.94, 2), (4096, 64, 1.25, 0.127, 3), (4096, 256, 1.0, 9.90, 2),
        (4096, 256, 1.25, 2.28, 2), (4096, 256, 1.5, 0.317, 3),
    ],
)  # fmt: skip
def test_the_binomial_drop_rate_is_the_published_table(tokens, experts, factor, percent, digits):
    rate, _ = uniform_drops(tokens, experts, 1, expert_capacity(factor, tokens, 1, experts))
    assert round(100 * rate, digits) == percent


def test_no_row_is_dropped_from_experts_with_a_seat_for_every_token():
    assert uniform_drops(8, 4, 2, 8) == (0.0, 0.0)
    assert uniform_drops(8, 2, 2, 6) == (0.25, 0.0)


@pytest.mark.parametrize(("experts", "factor"), [(8, 1.0), (8, 1.25), (64, 1.0), (64, 1.25)])
def test_a_uniform_router_drops_what_the_binomial_says_over_many_draws(experts, factor):
    tokens, draws = 1024, 200
    capacity = expert_capacity(factor, tokens, 1, experts)
    generator = torch.Generator().manual_seed(7)
    rates = []
    for _ in range(draws):
        routing = route("uniform", torch.randn(tokens, experts, generator=generator), 1)
        rates.append(float((~seat(routing, capacity, "choice").kept).float().mean()))
    rate, spread = uniform_drops(tokens, experts, 1, capacity)
    error = max(float(np.std(rates, ddof=1)), spread / 4) / draws**0.5
    assert abs(np.mean(rates) - rate) < 4 * error, (np.mean(rates), rate)
    assert np.std(rates, ddof=1) < 1.5 * spread


@pytest.mark.parametrize(("experts", "factor"), [(8, 1.0), (64, 1.0), (64, 1.25)])
def test_the_recorded_drop_rate_is_within_sampling_error_of_the_binomial(experts, factor):
    params = {"tokens": 1024, "experts": experts, "top_k": 1, "router": "uniform", "capacity_factor": factor, "hidden": 8, "ffn": 8}
    got = [record("dispatch", params, seed=seed) for seed in range(12)]
    rate, spread = uniform_drops(1024, experts, 1, expert_capacity(factor, 1024, 1, experts))
    rates = [r.fact("drop_rate") for r in got]
    assert abs(np.mean(rates) - rate) < 4 * spread / len(rates) ** 0.5
    assert got[0].fact("uniform_drop_rate") == rate
    held = [c for r in got for c in r.checks if c.name.startswith("drop rate")]
    assert len(held) == (12 if rate * 1024 >= 30 else 0) and all(c.ok for c in held)
