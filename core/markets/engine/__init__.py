"""The matching engine for millions of messages: the rules of `core.markets.matching` on arrays, compiled."""
