"""The nearest values that work, for messages that refuse a size which ranks do not divide."""

from __future__ import annotations


def multiples(value: int, step: int) -> str:
    """The multiples of ``step`` below and above ``value``."""
    below = value // step * step
    return f"{below:,} and {below + step:,}" if below else f"{step:,}"


def divisors(value: int, whole: int) -> str:
    """The divisors of ``whole`` below and above ``value``."""
    all_of_them = [d for d in range(1, whole + 1) if whole % d == 0]
    below, above = [d for d in all_of_them if d < value], [d for d in all_of_them if d > value]
    return " and ".join(f"{d:,}" for d in (*below[-1:], *above[:1]))
