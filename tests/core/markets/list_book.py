"""A naive order book for tests: one list of orders, sorted again for every question. It shares no code with the engines.

It says in plain tuples what `core.markets.matching.reports` has records for: the record's name, then its fields in their order.
"""

from __future__ import annotations


class ListBook:
    """``book``: dicts of resting orders in no order; ``trades``: (price, quantity, maker, taker); ``gone``: lots that never trade."""

    def __init__(self, modify_rule="benchmark", post_only="reject", self_trade="off", lowest=1):
        self.modify_rule, self.post_only, self.self_trade, self.lowest = modify_rule, post_only, self_trade, lowest
        self.book, self.stops, self.trades, self.said = [], [], [], []
        self.state, self.last, self.clock, self.gone, self.prints = "continuous", None, 0, 0, []

    def say(self, *words):
        self.said.append(words)

    # the order in which a taker of ``side`` meets the others: price, displayed before hidden, time
    def others(self, side, limit=None):
        found = [o for o in self.book if o["side"] == -side and (limit is None or side * (limit - o["price"]) >= 0)]
        return sorted(found, key=lambda o: (side * o["price"], o["hidden"], o["turn"]))

    def levels(self, side):
        """(price, displayed, [(id, shown), …]) from the best on, of prices that display something."""
        shown = [o for o in self.others(-side) if not o["hidden"]]
        out = {}
        for o in shown:
            out.setdefault(o["price"], []).append((o["id"], o["shown"]))
        return [(price, sum(q for _, q in queue), tuple(queue)) for price, queue in out.items()]

    def displayed(self, side, price):
        return sum(o["shown"] for o in self.book if o["side"] == side and o["price"] == price)

    def possible(self, price):
        return price is None or self.lowest <= price <= 2**40

    def fault(self, order_id, quantity, price, kind, tip, trigger):
        if order_id in [o["id"] for o in self.book + self.stops]:
            return "duplicate_id"
        wrong = not 1 <= quantity <= 2**50 or not self.possible(price) or not self.possible(trigger)
        wrong |= (price is None) != (kind in ("market", "stop")) or (trigger is None) != (kind not in ("stop", "stop_limit"))
        wrong |= (tip > 0) != (kind == "iceberg") or tip > quantity or quantity > 10_000 * (tip or quantity)
        if wrong:
            return "bad_value"
        closed = self.state == "halted" or (self.state == "auction" and kind in ("market", "ioc", "fok", "post_only"))
        return "not_trading" if closed else None

    def submit(self, order_id, side, quantity, price=None, kind="limit", *, tip=0, trigger=None, owner=0):
        """Returns how much is asked for."""
        fault = self.fault(order_id, quantity, price, kind, tip, trigger)
        if fault:
            self.say("Rejected", order_id, "submit", fault)
            return 0
        self.say("Accepted", order_id, side, quantity, price, kind)
        order = {"id": order_id, "side": side, "left": quantity, "price": price, "tip": tip, "hidden": kind == "hidden", "owner": owner}
        if trigger is not None:
            self.stops.append({**order, "trigger": trigger})
            self.say("Waits", order_id, side, trigger, quantity)
            if self.state == "continuous" and self.last is not None:
                self.prints = [self.last]
                self.run_stops()
            return quantity
        if self.state == "auction":
            self.rest(order)
            return quantity
        if kind == "post_only" and self.others(side, price):
            best = self.others(side)[0]["price"]
            if self.post_only == "reject" or best - side < self.lowest:
                self.say("Rejected", order_id, "submit", "post_only")
                return 0
            order["price"] = best - side
            self.say("Slid", order_id, side, price, best - side)
        if kind == "fok" and not self.could_fill(order):
            self.give_up(order, order["left"], "fok")
            return quantity
        self.arrive(order, kind)
        self.run_stops()
        return quantity

    def could_fill(self, order):
        """Tries it on a copy."""
        trial = ListBook(self.modify_rule, self.post_only, self.self_trade, self.lowest)
        trial.book, trial.clock = [dict(o) for o in self.book], self.clock
        taker = dict(order)
        trial.match(taker)
        return sum(q for _, q, _, taker_id in trial.trades if taker_id == order["id"]) == order["left"]

    def give_up(self, order, quantity, reason):
        self.gone += quantity
        self.say("Cancelled", order["id"], order["side"], order["price"], quantity, reason)

    def match(self, taker):
        while taker["left"] and self.others(taker["side"], taker["price"]):
            maker = self.others(taker["side"], taker["price"])[0]
            own = self.self_trade != "off" and taker["owner"] and taker["owner"] == maker["owner"]
            if own and self.self_trade != "decrement":
                if self.self_trade != "newest":
                    self.book.remove(maker)
                    self.give_up(maker, maker["left"], "self_trade")
                if self.self_trade != "oldest":
                    self.give_up(taker, taker["left"], "self_trade")
                    taker["left"] = 0
                continue
            quantity = min(taker["left"], maker["left"] if maker["hidden"] else maker["shown"])
            taker["left"] -= quantity
            refreshed = self.lessen(maker, quantity)
            if own:
                self.gone += 2 * quantity
            else:
                self.print(maker["price"], quantity, maker["id"], taker["id"])
            left = self.displayed(maker["side"], maker["price"])
            word = "Decremented" if own else "Trade"
            self.say(word, maker["price"], quantity, maker["id"], taker["id"], taker["side"], maker["left"], taker["left"], left)
            self.say_refreshed(*refreshed)

    def print(self, price, quantity, maker, taker):
        self.trades.append((price, quantity, maker, taker))
        self.prints.append(price)
        self.last = price

    def lessen(self, order, quantity):
        """Returns the order again if it shows its next tip."""
        order["left"] -= quantity
        if not order["left"]:
            self.book.remove(order)
        elif not order["hidden"]:
            order["shown"] -= quantity
            if not order["shown"]:
                order["shown"] = min(order["tip"], order["left"])
                order["turn"] = self.tick()
                return [order]
        return []

    def say_refreshed(self, *orders):
        for o in orders:
            self.say("Refreshed", o["id"], o["side"], o["price"], o["shown"], o["left"] - o["shown"])

    def tick(self):
        self.clock += 1
        return self.clock

    def rest(self, order):
        self.say("Rested", order["id"], order["side"], order["price"], order["left"], self.displayed(order["side"], order["price"]))
        shown = 0 if order["hidden"] else min(order["tip"] or order["left"], order["left"])
        self.book.append({**order, "shown": shown, "turn": self.tick()})

    def arrive(self, order, kind):
        self.match(order)
        if order["left"] and kind in ("market", "ioc", "fok"):
            self.give_up(order, order["left"], kind)
        elif order["left"]:
            self.rest(order)

    def run_stops(self):
        line = []
        while True:
            hit = [s for s in self.stops if any(s["side"] * (p - s["trigger"]) >= 0 for p in self.prints)]
            self.prints = []
            self.stops = [s for s in self.stops if s not in hit]
            line += hit
            if not line:
                return
            stop = line.pop(0)
            self.say("Triggered", stop["id"], stop["side"], stop["trigger"], stop["left"], stop["price"])
            self.arrive({k: v for k, v in stop.items() if k != "trigger"}, "market" if stop["price"] is None else "limit")

    def cancel(self, order_id):
        found = [o for o in self.book + self.stops if o["id"] == order_id]
        if not found:
            self.say("Rejected", order_id, "cancel", "unknown_order")
        for order in found:
            (self.stops if "trigger" in order else self.book).remove(order)
            self.give_up(order, order["left"], "cancel")

    def modify(self, order_id, quantity, price):
        """Returns by how much the order asks for more."""
        found = [o for o in self.book if o["id"] == order_id]
        fault = "waiting_stop" if order_id in [s["id"] for s in self.stops] else "unknown_order" if not found else None
        if not fault and self.state == "halted":
            fault = "not_trading"
        if not fault and (not 1 <= quantity <= 2**50 or not self.possible(price) or quantity > 10_000 * (found[0]["tip"] or quantity)):
            fault = "bad_value"
        if fault:
            self.say("Rejected", order_id, "modify", fault)
            return 0
        order = found[0]
        old, old_price = order["left"], order["price"]
        words = "Modified", order_id, order["side"], old_price, old, price, quantity
        if self.modify_rule == "keep_on_decrease" and price == old_price and quantity <= old:
            order["left"], order["shown"] = quantity, min(order["shown"], quantity)
            self.say(*words, True)
            return quantity - old
        self.book.remove(order)
        self.say("Withdrawn", order_id, order["side"], old_price, old)
        order["left"], order["price"] = quantity, price
        if self.state == "continuous":
            self.match(order)
        self.say(*words, False)
        if order["left"]:
            self.rest(order)
        self.run_stops()
        return quantity - old

    def halt(self):
        self.state = "halted"
        self.say("StateChanged", "halted", None, 0)

    def auction(self):
        self.state = "auction"
        self.say("StateChanged", "auction", None, 0)

    def clearing(self, reference):
        """Tries every price there is; (price, volume)."""
        bids, asks = ([o for o in self.book if o["side"] == side] for side in (1, -1))
        if not bids or not asks:
            return None, 0
        low, high = min(o["price"] for o in asks), max(o["price"] for o in bids)
        ranks = []
        for price in range(low, high + 1):
            buy = sum(o["left"] for o in bids if o["price"] >= price)
            sell = sum(o["left"] for o in asks if o["price"] <= price)
            ranks.append((-min(buy, sell), abs(buy - sell), abs(price - (low if reference is None else reference)), price))
        return (min(ranks)[3], -min(ranks)[0]) if ranks else (None, 0)

    def open(self, reference=None):
        price, volume = self.clearing(reference)
        self.state = "continuous"
        self.say("StateChanged", "continuous", price, volume)
        while volume:
            bid, ask = self.others(-1)[0], self.others(1)[0]
            quantity = min([volume] + [o["left"] if o["hidden"] else o["shown"] for o in (bid, ask)])
            self.print(price, quantity, ask["id"], bid["id"])
            volume -= quantity
            refreshed = self.lessen(bid, quantity) + self.lessen(ask, quantity)
            self.say("Trade", price, quantity, ask["id"], bid["id"], 0, ask["left"], bid["left"], self.displayed(-1, ask["price"]))
            self.say_refreshed(*refreshed)
        if not self.prints and self.last is not None:
            self.prints = [self.last]
        self.run_stops()
