"""A naive order book for tests: one list of orders, sorted again for every question. It shares no code with the engines."""

from __future__ import annotations


class ListBook:
    """``book``: dicts of resting orders in no order; ``trades``: (price, quantity, maker, taker); ``gone``: lots that never trade."""

    def __init__(self, modify_rule="benchmark", post_only="reject", self_trade="off", lowest=1):
        self.modify_rule, self.post_only, self.self_trade, self.lowest = modify_rule, post_only, self_trade, lowest
        self.book, self.stops, self.trades = [], [], []
        self.state, self.last, self.clock, self.gone, self.prints = "continuous", None, 0, 0, []

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

    def submit(self, order_id, side, quantity, price=None, kind="limit", *, tip=0, trigger=None, owner=0):
        busy = [o["id"] for o in self.book + self.stops]
        wrong = order_id in busy or quantity < 1 or any(p is not None and p < self.lowest for p in (price, trigger))
        wrong |= (price is None) != (kind in ("market", "stop")) or (trigger is None) != (kind not in ("stop", "stop_limit"))
        wrong |= (tip > 0) != (kind == "iceberg") or tip > quantity
        wrong |= self.state == "halted" or (self.state == "auction" and kind in ("market", "ioc", "fok", "post_only"))
        if wrong:
            return 0
        order = {"id": order_id, "side": side, "left": quantity, "price": price, "tip": tip, "hidden": kind == "hidden", "owner": owner}
        if trigger is not None:
            self.stops.append({**order, "trigger": trigger})
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
                return 0
            order["price"] = best - side
        if kind == "fok" and not self.could_fill(order):
            self.gone += quantity
            return quantity
        self.arrive(order, rests=kind not in ("market", "ioc", "fok"))
        self.run_stops()
        return quantity

    def could_fill(self, order):
        """Tries it on a copy."""
        trial = ListBook(self.modify_rule, self.post_only, self.self_trade, self.lowest)
        trial.book, trial.clock = [dict(o) for o in self.book], self.clock
        taker = dict(order)
        trial.match(taker)
        return sum(q for _, q, _, taker_id in trial.trades if taker_id == order["id"]) == order["left"]

    def match(self, taker):
        while taker["left"] and self.others(taker["side"], taker["price"]):
            maker = self.others(taker["side"], taker["price"])[0]
            own = self.self_trade != "off" and taker["owner"] and taker["owner"] == maker["owner"]
            if own and self.self_trade != "decrement":
                if self.self_trade != "newest":
                    self.gone += maker["left"]
                    self.book.remove(maker)
                if self.self_trade != "oldest":
                    self.gone += taker["left"]
                    taker["left"] = 0
                continue
            quantity = min(taker["left"], maker["left"] if maker["hidden"] else maker["shown"])
            if own:
                self.gone += 2 * quantity
            else:
                self.print(maker["price"], quantity, maker["id"], taker["id"])
            taker["left"] -= quantity
            self.lessen(maker, quantity)

    def print(self, price, quantity, maker, taker):
        self.trades.append((price, quantity, maker, taker))
        self.prints.append(price)
        self.last = price

    def lessen(self, order, quantity):
        order["left"] -= quantity
        if not order["hidden"]:
            order["shown"] -= quantity
            if not order["shown"] and order["left"]:
                order["shown"] = min(order["tip"], order["left"])
                order["turn"] = self.tick()
        if not order["left"]:
            self.book.remove(order)

    def tick(self):
        self.clock += 1
        return self.clock

    def rest(self, order):
        shown = 0 if order["hidden"] else min(order["tip"] or order["left"], order["left"])
        self.book.append({**order, "shown": shown, "turn": self.tick()})

    def arrive(self, order, rests):
        self.match(order)
        if order["left"] and rests:
            self.rest(order)
        else:
            self.gone += order["left"]

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
            self.arrive({k: v for k, v in stop.items() if k != "trigger"}, rests=stop["price"] is not None)

    def cancel(self, order_id):
        for place in (self.book, self.stops):
            for order in [o for o in place if o["id"] == order_id]:
                self.gone += order["left"]
                place.remove(order)

    def modify(self, order_id, quantity, price):
        """Returns by how much the order asks for more."""
        found = [o for o in self.book if o["id"] == order_id]
        if not found or self.state == "halted" or quantity < 1 or price < self.lowest:
            return 0
        order = found[0]
        more = quantity - order["left"]
        if self.modify_rule == "keep_on_decrease" and price == order["price"] and more <= 0:
            order["left"], order["shown"] = quantity, min(order["shown"], quantity)
            return more
        self.book.remove(order)
        order["left"], order["price"] = quantity, price
        if self.state == "continuous":
            self.match(order)
        if order["left"]:
            self.rest(order)
        self.run_stops()
        return more

    def halt(self):
        self.state = "halted"

    def auction(self):
        self.state = "auction"

    def open(self, reference=None):
        """Tries every price there is."""
        bids, asks = ([o for o in self.book if o["side"] == side] for side in (1, -1))
        best = None
        if bids and asks:
            low, high = min(o["price"] for o in asks), max(o["price"] for o in bids)
            for price in range(low, high + 1):
                buy = sum(o["left"] for o in bids if o["price"] >= price)
                sell = sum(o["left"] for o in asks if o["price"] <= price)
                near = abs(price - (low if reference is None else reference))
                rank = (-min(buy, sell), abs(buy - sell), near, price)
                best = rank if best is None else min(best, rank)
        self.state = "continuous"
        volume = -best[0] if best else 0
        while volume:
            bid, ask = self.others(-1)[0], self.others(1)[0]
            quantity = min([volume] + [o["left"] if o["hidden"] else o["shown"] for o in (bid, ask)])
            self.print(best[3], quantity, ask["id"], bid["id"])
            volume -= quantity
            self.lessen(bid, quantity)
            self.lessen(ask, quantity)
        if not self.prints and self.last is not None:
            self.prints = [self.last]
        self.run_stops()
