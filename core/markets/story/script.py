"""Orders written down as text, one statement after another: a small story that can be worked out by hand.

`1 sell 500 at 100.02` is order 1, a limit order; without ``at`` it is a market order. Words after that: ``ioc``, ``fok``,
``post only``, ``hidden``, ``tip 100`` (an iceberg that shows 100), ``stop 99.95`` (waits for that price), ``owner 7``. Then
`cancel 1`, `modify 1 to 300 at 100.02`, `halt`, `auction near 100.00`, `open`, and `[name]` for a phase. Statements are
separated by semicolons or line ends.
"""

from __future__ import annotations

import re
from decimal import Decimal

from core.errors import BadInput, nearest
from core.markets.matching.reports import BUY, MOST_TIPS, SELL, Kind
from core.markets.story.flow import Message

MOST_STATEMENTS = 500
LARGEST_QUANTITY = 1_000_000
HIGHEST_PRICE = 100_000
"""In ticks. An auction is checked by trying every price there is, so prices stay within reach of that."""

_FORMS = (
    "1 buy 300 at 100.02 (ioc, fok, post only, hidden, tip 100, stop 99.95, owner 7), cancel 1, modify 1 to 200 at 100.01, "
    "halt, auction near 100.00, open, [phase]"
)
_WORDS = ("ioc", "fok", "post", "hidden", "tip", "stop", "owner", "at")
_KINDS: dict[str, Kind] = {"ioc": "ioc", "fok": "fok", "post": "post_only", "hidden": "hidden"}


def read_script(text: str, where: str, *, phase: str, start: float = 0.0, reference: int | None = None) -> list[Message]:
    """The messages of ``text``, one a second after ``start``. BadInput names the statement, what was found and what is allowed."""
    found: list[Message] = []
    statements = [statement.strip() for statement in re.split(r"[;\n]", text) if statement.strip()]
    if len(statements) > MOST_STATEMENTS:
        raise BadInput(where, f"{len(statements):,} statements", f"at most {MOST_STATEMENTS:,}")
    for number, statement in enumerate(statements, 1):
        if statement.startswith("[") and statement.endswith("]") and statement[1:-1].strip():
            phase = statement[1:-1].strip()
            continue
        line = _Statement(statement, f"{where}: statement {number}")
        message = line.message(start + len(found) + 1.0, phase, reference)
        if message.action == "auction":
            reference = message.price
        found.append(message)
    return found


class _Statement:
    """One statement, read word by word."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.words = text.lower().split()

    def message(self, time: float, phase: str, reference: int | None) -> Message:
        word = self.words.pop(0)
        match word:
            case "halt":
                return self._end(Message(time, phase, "halt"))
            case "auction" | "open":
                price = self._price("near") if self.words[:1] == ["near"] else reference if word == "open" else None
                return self._end(Message(time, phase, "auction" if word == "auction" else "open", price=price))
            case "cancel":
                return self._end(Message(time, phase, "cancel", self._whole("an order's number")))
            case "modify":
                order = self._whole("an order's number")
                quantity = self._quantity("to")
                return self._end(Message(time, phase, "modify", order, quantity=quantity, price=self._price("at")))
        self.words.insert(0, word)
        return self._order(time, phase)

    def _order(self, time: float, phase: str) -> Message:
        order = self._whole("an order's number, cancel, modify, halt, auction or open")
        side = {"buy": BUY, "sell": SELL}.get(self._next("buy or sell"), 0)
        if not side:
            raise self._bad("buy or sell")
        quantity = self._quantity()
        kind: Kind = "limit"
        price: int | None = None
        trigger: int | None = None
        tip = owner = 0
        while self.words:
            word = self.words[0]
            if word == "at":
                price = self._price("at")
            elif word == "stop":
                trigger = self._price("stop")
            elif word == "tip":
                tip = self._quantity("tip")
            elif word == "owner":
                self.words.pop(0)
                owner = self._whole("an owner's number")
            elif word in _KINDS and kind == "limit":
                self.words.pop(0)
                kind = _KINDS[word]
                if word == "post":
                    self._expect("only")
            else:
                raise BadInput(self.where, f"{self.text!r}: {word!r}", nearest(word, _WORDS) if word not in _KINDS else "one kind an order")
        return Message(
            time, phase, "submit", order, side, quantity, price, self._kind(kind, price, trigger, tip, quantity), tip, trigger, owner
        )

    def _kind(self, kind: Kind, price: int | None, trigger: int | None, tip: int, quantity: int) -> Kind:
        if trigger is not None and (kind != "limit" or tip):
            raise BadInput(self.where, f"{self.text!r}: a stop that is something else too", "stop with or without at")
        if trigger is not None:
            return "stop" if price is None else "stop_limit"
        if tip and (kind != "limit" or not 1 <= tip <= quantity <= tip * MOST_TIPS):
            raise BadInput(self.where, f"{self.text!r}: tip {tip}", f"a limit order whose tip is between 1 and its quantity {quantity}")
        if tip:
            kind = "iceberg"
        if price is None and kind != "limit":
            raise BadInput(self.where, f"{self.text!r}: no price", "at and a price")
        return "market" if price is None else kind

    # words -----------------------------------------------------------------------------------------------------------

    def _next(self, wanted: str) -> str:
        if not self.words:
            raise BadInput(self.where, f"{self.text!r} ends early", wanted)
        return self.words.pop(0)

    def _expect(self, word: str) -> None:
        if self._next(word) != word:
            raise self._bad(word)

    def _whole(self, wanted: str) -> int:
        word = self._next(wanted)
        if not re.fullmatch(r"[0-9]{1,7}", word) or not 1 <= int(word) <= LARGEST_QUANTITY:
            raise self._bad(wanted)
        return int(word)

    def _quantity(self, before: str = "") -> int:
        if before:
            self._expect(before)
        return self._whole(f"a quantity from 1 to {LARGEST_QUANTITY:,}")

    def _price(self, before: str) -> int:
        self._expect(before)
        word = self._next("a price")
        ticks = Decimal(word) * 100 if re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,4})?", word) else Decimal(0)
        if ticks != int(ticks) or not 1 <= ticks <= HIGHEST_PRICE:
            raise BadInput(self.where, f"{self.text!r}: price {word}", f"cents from 0.01 to {HIGHEST_PRICE / 100:,.2f}")
        return int(ticks)

    def _end(self, message: Message) -> Message:
        if self.words:
            raise BadInput(self.where, f"{self.text!r}: {' '.join(self.words)!r} too much", _FORMS)
        return message

    def _bad(self, wanted: str) -> BadInput:
        return BadInput(self.where, f"{self.text!r}", f"{wanted}; as in {_FORMS}")
