"""Steps that belong together: their numbers, firsts and lasts are those of counting one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.joins import Joins
from core.recording import Recorder, Recording


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_happenings_are_those_of_counting_the_steps_one_by_one(joined: list[bool]) -> None:
    joined[0] = False
    groups: list[list[int]] = []
    for step, with_before in enumerate(joined):
        if with_before:
            groups[-1].append(step)
        else:
            groups.append([step])
    joins = Joins(step for step, with_before in enumerate(joined) if with_before)
    assert len(joins) == sum(joined)
    for number, group in enumerate(groups):
        assert {joins.number(step) for step in group} == {number}
        assert (joins.first(number), joins.last(number)) == (group[0], group[-1])


@given(st.lists(st.lists(st.booleans(), max_size=5), max_size=6))
def test_joins_of_blocks_and_of_single_steps_are_the_same(blocks: list[list[bool]]) -> None:
    single, whole = Recorder(Recording("hand")), Recorder(Recording("hand"))
    for block in blocks:
        for joined in block:
            single.step("a", joins=joined)
        whole.steps([("a", "")], np.zeros(len(block), dtype=int), joins=np.array(block, dtype=bool))
    assert list(single.recording.joins.steps) == list(whole.recording.joins.steps)
    assert 0 not in single.recording.joins.steps, "the first step has none before it"
