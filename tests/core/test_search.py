"""Find and run-until give exactly what formatting every title and comparing every value would give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BadInput
from core.formatting import FORMATTER
from core.recording import Recorder, Recording
from core.search import condition, find, tag_mask, title_mask

WORDS = st.text("ab 0.", max_size=3)
SPECS = st.sampled_from(["", "bytes", "s", "%", "$", "count", ".1f", "elements"])
NUMBERS = st.one_of(st.integers(-30, 1200), st.floats(-3, 3000, width=32), st.sampled_from([0.0, 1e9, 1e-7, float("nan")]))
VALUES = {"n": st.integers(-3, 120), "x": NUMBERS, "name": st.sampled_from(["ab", "A", "", "b a", "0"]), "yes": st.booleans()}


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """A recording of up to 30 steps over a few random templates."""
    rec = Recorder(Recording("hand"))
    templates = []
    for _ in range(draw(st.integers(1, 3))):
        names = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3, unique=True))
        parts = [draw(WORDS)]
        for name in [*names, *(["absent"] if draw(st.booleans()) else [])]:
            spec = draw(SPECS) if name in ("n", "x") else ""
            parts += ["{" + name + (f":{spec}" if spec else "") + "}", draw(WORDS)]
        templates.append(("".join(parts), names))
    for _ in range(draw(st.integers(1, 30))):
        title, names = draw(st.sampled_from(templates))
        rec.step(title, **{name: draw(VALUES[name]) for name in names})
    rec.recording.state = "finished"
    return rec.recording


@settings(max_examples=300, deadline=None)
@given(recordings(), st.data())
def test_titles_found_are_those_that_contain_the_text(recording: Recording, data: st.DataObject) -> None:
    titles = [recording.title(step) for step in range(len(recording))]
    title = data.draw(st.sampled_from(titles))
    start = data.draw(st.integers(0, len(title)))
    query = title[start : start + data.draw(st.integers(1, 8))] or "a"
    query = data.draw(st.sampled_from([query, query.upper(), query + "a", query[:-1] + "0"]))
    if not query:
        return
    mask = title_mask(recording, query, len(recording))
    assert mask.tolist() == [query.lower() in text.lower() for text in titles]


@settings(max_examples=150, deadline=None)
@given(recordings(), st.data())
def test_tags_found_are_the_steps_that_hold_the_value(recording: Recording, data: st.DataObject) -> None:
    step = data.draw(st.integers(0, len(recording) - 1))
    for name, value in recording.values(step).items():
        written = FORMATTER.format_field(value, "") if isinstance(value, str | bool) else repr(value) if value is not None else "none"
        if not written:
            continue
        mask = tag_mask(recording, name, written, len(recording))
        want = []
        for other in range(len(recording)):
            held = recording.values(other).get(name, ...)
            same = held.lower() == value.lower() if isinstance(held, str) and isinstance(value, str) else held == value
            want.append(held is not ... and same)
        assert mask.tolist() == want


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=50, max_size=50), SPECS.filter(lambda spec: spec != "elements"))
def test_many_distinct_numbers_are_formatted_as_one_by_one(values: list[float], spec: str) -> None:
    """More distinct floats than are formatted singly: equal texts are found by bisection, and must be the same texts."""
    spread = np.concatenate(
        [np.array(values)[:, None] * (1 + np.arange(120) * 1e-5), np.array(values)[:, None] + np.arange(120) * 0.01]
    ).ravel()
    rec = Recorder(Recording("hand"))
    rec.steps([("at {x:" + spec + "}" if spec else "at {x}", "")], np.zeros(len(spread), dtype=int), x=spread)
    rng = np.random.default_rng(0)
    title = rec.recording.title(int(rng.integers(len(spread))))
    query = title[3:7]
    some = rng.integers(len(spread), size=300)
    mask = title_mask(rec.recording, query, len(spread))
    assert [bool(mask[step]) for step in some] == [query.lower() in rec.recording.title(int(step)).lower() for step in some]


def test_words_and_tags_hold_together() -> None:
    rec = Recorder(Recording("hand"))
    for n in range(20):
        rec.step("Rank {rank} sends chunk {chunk}" if n % 2 else "Rank {rank} waits", rank=n % 3, chunk=n)
    found = find(rec.recording, "rank:1 sends")
    assert found.steps.tolist() == [n for n in range(20) if n % 2 and n % 3 == 1]
    assert find(rec.recording, "rank:1 chunk:7").steps.tolist() == [7]
    assert find(rec.recording, "Rank 1 SENDS").steps.tolist() == found.steps.tolist()
    assert [find(rec.recording, "chunk 1").next(step, 1) for step in (0, 1, 19)] == [1, 11, 1]


def test_tag_of_an_unknown_name_is_refused_and_text_with_a_colon_is_text() -> None:
    rec = Recorder(Recording("hand"))
    rec.step("Note: done", rank=1)
    assert len(find(rec.recording, "note: d")) == 1
    with pytest.raises(BadInput, match="did you mean 'rank'"):
        find(rec.recording, "rnk:1")


def recording_with_facts() -> Recording:
    rec = Recorder(Recording("hand"))
    for n in range(30):
        rec.fact("level", n % 10)
        if n % 7 == 0:
            rec.fact("mood", "good" if n % 2 else "Bad")
            rec.fact("odd", bool(n % 2))
        rec.fact("share", n / 30, "%")
        rec.step("{n}", n=n, side="buy" if n % 4 else "sell")
    rec.fact_column("depth", np.arange(30) // 4)
    rec.fact_column("thin", np.arange(30) % 5 == 0)
    rec.recording.state = "finished"
    return rec.recording


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("level >= 8", lambda v: v["level"] >= 8),
        ("level>8", lambda v: v["level"] > 8),
        ("level = 3", lambda v: v["level"] == 3),
        ("level != 3", lambda v: v["level"] != 3),
        ("share < 10%", lambda v: v["share"] < 0.1),
        ("share >= 0.5", lambda v: v["share"] >= 0.5),
        ("mood = bad", lambda v: v["mood"] == "Bad"),
        ("mood != bad", lambda v: v["mood"] != "Bad"),
        ("odd = yes", lambda v: v["odd"]),
        ("depth >= 3", lambda v: v["depth"] >= 3),
        ("depth = deep", lambda v: False),
        ("depth != deep", lambda v: True),
        ("thin = yes", lambda v: v["thin"]),
        ("thin != yes", lambda v: not v["thin"]),
        ("n > 12", lambda v: v["n"] > 12),
        ("side = sell", lambda v: v["side"] == "sell"),
        ("side:sell", lambda v: v["side"] == "sell"),
        ("n:12", lambda v: v["n"] == 12),
    ],
)
def test_conditions_hold_where_each_step_says_so(text: str, holds: Any) -> None:
    recording = recording_with_facts()
    wanted, direction = condition(text, recording)
    assert direction == 1
    assert condition(f"< {text}", recording) == (wanted, -1)
    each = [bool(holds({**recording.values(n), **{f.name: f.value for f in recording.facts_at(n)}})) for n in range(len(recording))]
    assert wanted.mask(recording, len(recording)).tolist() == each
    starts = [n for n in range(30) if each[n] and (wanted.kind == "tag" or n == 0 or not each[n - 1])]
    for step in range(30):
        assert wanted.next(recording, step, 1) == next((n for n in starts if n > step), None)
        assert wanted.next(recording, step, -1) == next((n for n in reversed(starts) if n < step), None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no condition"),
        ("level", "no condition"),
        ("levle > 3", "did you mean 'level'"),
        ("sid:buy", "did you mean 'side'"),
        ("level > high", "found 'high'; allowed: a number"),
        ("side > buy", "holds text"),
    ],
)
def test_conditions_that_cannot_be_read_say_why(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        condition(text, recording_with_facts())


def test_a_million_steps_are_searched_without_writing_their_titles(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 1_000_000
    rng = np.random.default_rng(1)
    rec = Recorder(Recording("hand"))
    rec.steps(
        [("Order {id} buys {quantity} at {price:$}", ""), ("Order {id} leaves", "")],
        rng.integers(2, size=steps),
        np.arange(steps) * 0.001,
        id=rng.permutation(steps),
        quantity=rng.integers(1, 900, size=steps),
        price=np.round(100 + rng.normal(size=steps), 2),
    )
    with monkeypatch.context() as patch:
        patch.setattr(Recording, "title", lambda *_: pytest.fail("a title was written"))
        first = find(rec.recording, "buys 100 at 99.9")
        again = find(rec.recording, "order 123456 ")
    assert len(again) == 1
    for step in first.steps[:50].tolist():
        assert "buys 100 at 99.9" in rec.recording.title(step)
