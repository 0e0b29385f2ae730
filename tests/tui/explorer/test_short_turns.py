"""Whoever ends first, the interpreter's turns stay short until the last one has."""

from __future__ import annotations

import sys

import pytest

from tui.short_turns import SWITCH_INTERVAL, ShortTurns


def test_turns_are_short_until_the_last_worker_ends() -> None:
    usual, turns = sys.getswitchinterval(), ShortTurns()
    try:
        turns.begin()
        turns.begin()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL)
        turns.end()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL)
        turns.end()
        assert sys.getswitchinterval() == pytest.approx(usual)
    finally:
        sys.setswitchinterval(usual)
