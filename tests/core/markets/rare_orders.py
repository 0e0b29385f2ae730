"""Seeded streams in which the rare orders meet each other: every kind as often, few prices, few owners, much changing of minds."""

from __future__ import annotations

import random

from core.markets.engine.engine import message
from core.markets.matching.reports import KINDS

MIDDLE = 100
ODD = (
    ("submit", {"quantity": 0}), ("submit", {"quantity": (1 << 50) + 1}), ("submit", {"price": 0}), ("submit", {"price": (1 << 40) + 1}),
    ("submit", {"tip": 2}), ("submit", {"kind": "iceberg"}), ("submit", {"kind": "iceberg", "tip": 6}), ("submit", {"kind": "stop"}),
    ("submit", {"kind": "market"}), ("submit", {"trigger": 100}), ("submit", {"price": None}),
    ("submit", {"kind": "iceberg", "tip": 1, "quantity": 10_001}), ("submit", {"kind": "stop_limit", "trigger": 0}),
)  # fmt: skip


def stream(seed, length, *, auctions=True):
    """``length`` actions as (name, fields), ids from 1; the ids that changes name have mostly been sent lately."""
    rng = random.Random(seed)
    ids, trading, made = [], True, 0
    while made < length:
        made += 1
        dice = rng.random()
        if dice < 0.02:
            yield ("halt", {}) if not auctions or rng.random() < 0.4 else ("auction", {})
            trading = False
        elif not trading and dice < 0.14:
            yield "open", {"reference": rng.choice((MIDDLE, MIDDLE, MIDDLE - 2, MIDDLE + 3))} if rng.random() < 0.7 or not auctions else {}
            trading = True
        elif dice < 0.145 and ids:
            order_id = of(rng, ids)
            yield "modify", {"order_id": order_id, "quantity": 30_001, "price": around(rng)}  # more tips than an iceberg may have
            yield "cancel", {"order_id": order_id}
        elif dice < 0.30 and ids:
            yield "modify", {"order_id": of(rng, ids), "quantity": rng.choice((1, 2, 3, 5, 8, 13, 0)), "price": around(rng)}
        elif dice < 0.40 and ids:
            yield "cancel", {"order_id": of(rng, ids)}
        elif dice < 0.42:
            name, fields = rng.choice(ODD)
            yield name, {"order_id": made, "side": 1, "quantity": 5, "price": MIDDLE, "kind": "limit", **fields}
        else:
            order = submit(rng, made if rng.random() < 0.98 or not ids else of(rng, ids))
            ids.append(order["order_id"])
            yield "submit", order


def of(rng, ids):
    """Mostly one of the last dozen."""
    return rng.choice(ids[-12:] if rng.random() < 0.8 else ids[-60:])


def around(rng):
    return MIDDLE + rng.choice((-3, -2, -1, -1, 0, 0, 0, 1, 1, 2, 3))


def submit(rng, order_id):
    kind = rng.choice((*KINDS, "fok", "fok", "iceberg", "iceberg"))
    quantity = rng.choice((1, 2, 3, 5, 8, 13))
    fields = {
        "order_id": order_id, "side": rng.choice((1, -1)), "quantity": quantity, "kind": kind, "owner": rng.choice((0, 1, 1, 2)),
        "price": None if kind in ("market", "stop") else around(rng),
    }  # fmt: skip
    if kind == "iceberg":
        fields["tip"] = rng.choice([tip for tip in (1, 2, 3, quantity) if tip <= quantity])
    if kind in ("stop", "stop_limit"):
        fields["trigger"] = around(rng)
    return fields


def for_engine(name, fields):
    """The action as a message of `core.markets.engine.engine`."""
    fields = dict(fields)
    if "reference" in fields:
        fields["price"] = fields.pop("reference")
    return message(name, **fields)


def moved(actions, *, mirror=False, shift=0):
    """The same actions with buy and sell exchanged around the middle, or with every price shifted."""
    for name, fields in actions:
        fields = dict(fields)
        for key in ("price", "trigger", "reference"):
            if fields.get(key) is not None:
                fields[key] = (2 * MIDDLE - fields[key] if mirror else fields[key]) + shift
        if mirror and "side" in fields:
            fields["side"] = -fields["side"]
        yield name, fields
