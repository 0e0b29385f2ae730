"""Clock times, orders and trades of a size are found where a scan of every step finds them."""

from __future__ import annotations

import datetime
import operator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BadInput
from core.recording import Recorder, Recording, Word
from core.search import condition, examples, find
from core.simulation import record

DATA = Path(__file__).resolve().parents[2] / "../shared/data"
GOOG = DATA / "lobster" / "LOBSTER_SampleFile_GOOG_2012-06-21_10.zip"
ESH4 = DATA / "databento" / "esh4-glbx-mdp3-20231225.mbo.dbn.zst"
WORDS = {
    "order": Word(("order", "maker", "taker"), identity=True),
    "trade": Word(("quantity",), "event", ("trade", "hidden trade")),
}
DAY = 86_400


def market(times: list[float], seed: int = 0, clock: str = "ET") -> Recording:
    """Steps of orders and trades at ``times`` (seconds since midnight)."""
    rng = np.random.default_rng(seed)
    rec = Recorder(Recording("hand"))
    rec.recording.clock, rec.recording.time_unit, rec.recording.words = clock, "s", WORDS
    for time in times:
        kind = rng.integers(4)
        if kind < 2:
            values = {"event": "add" if kind else "cancel", "order": int(rng.integers(1, 9)), "quantity": int(rng.integers(1, 900))}
            rec.step("Order {order} of {quantity}: {event}", time=time, **values)
        else:
            maker, taker = (int(number) for number in rng.integers(1, 9, 2))
            name = "trade" if kind == 2 else "hidden trade"
            values = {"event": name, "maker": maker, "taker": taker, "quantity": int(rng.integers(1, 900))}
            rec.step("{taker} takes {quantity} from {maker}", time=time, **values)
    rec.recording.state = "finished"
    return rec.recording


def seconds(text: str) -> float:
    """A time of day by the standard library."""
    form = "%H:%M:%S.%f" if "." in text else "%H:%M:%S" if text.count(":") == 2 else "%H:%M"
    moment = datetime.datetime.strptime(text, form)
    return moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6


def day_times(draw_from: int = 40) -> st.SearchStrategy[list[float]]:
    return st.lists(st.integers(34_000_000, 35_000_000).map(lambda ms: ms / 1000), min_size=1, max_size=draw_from).map(sorted)


@settings(max_examples=150, deadline=None)
@given(day_times(), st.integers(33_990_000, 35_010_000), st.sampled_from(["{}", "@{}", " @ {} "]), st.sampled_from([0, 2, 3]))
def test_time_is_the_first_step_at_or_after_it(times: list[float], milliseconds: int, form: str, places: int) -> None:
    recording = market(times)
    whole, part = divmod(milliseconds, 1000)
    moment = (datetime.datetime(2012, 6, 21) + datetime.timedelta(seconds=whole)).time()
    text = f"{moment.hour}:{moment.minute:02d}" + (f":{moment.second:02d}" if places else "") + (f".{part:03d}" if places == 3 else "")
    wanted = next((step for step, time in enumerate(times) if time >= seconds(text) - 1e-9), None)
    if wanted is None:
        with pytest.raises(BadInput, match="no step at or after"):
            find(recording, form.format(text))
        return
    assert find(recording, form.format(text)).steps.tolist() == [wanted]
    for direction in (1, -1):
        for here in {0, wanted, len(times) - 1}:
            assert condition(form.format(text), recording)[0].next(recording, here, direction) == wanted, "a time is a place"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(34_200 * 10**9, 57_600 * 10**9), min_size=20, max_size=60, unique=True).map(sorted))
def test_every_step_is_found_by_its_own_time_as_it_is_shown(nanoseconds: list[int]) -> None:
    recording = market([float(f"{n // 10**9}.{n % 10**9:09d}") for n in nanoseconds])
    for step in range(len(nanoseconds)):
        assert find(recording, recording.time_text(step).removesuffix(" ET")).steps.tolist() == [step]


def test_time_that_goes_back_counts_where_it_first_comes() -> None:
    recording = market([34_200.0, 34_260.0, 34_230.0, 34_290.0, 34_240.0, 34_300.0])
    assert find(recording, "9:30:30").steps.tolist() == [1]
    assert find(recording, "9:31:20").steps.tolist() == [3]


def test_time_of_day_comes_once_a_day_and_another_day_can_be_named() -> None:
    times = [82_800.0, 82_860.0, DAY + 60.0, DAY + 3_600.0, DAY + 82_810.0, 2 * DAY + 120.0]
    recording = market(times, clock="UTC")
    assert recording.time_text(3) == "01:00:00 +1d UTC"
    assert find(recording, "23:00").steps.tolist() == [0, 4]
    assert find(recording, "00:01").steps.tolist() == [2, 5]
    assert find(recording, "00:01").next(3, 1) == 5 and find(recording, "00:01").next(3, -1) == 2
    assert find(recording, "01:00 +1d").steps.tolist() == [3] == find(recording, "25:00").steps.tolist()
    wanted, _ = condition("23:00", recording)
    assert [wanted.next(recording, step, 1) for step in (0, 3, 4)] == [4, 4, 4]
    assert [wanted.next(recording, step, -1) for step in (5, 4, 0)] == [4, 0, 0]


def test_seconds_from_zero_are_found_by_number_and_by_clock() -> None:
    recording = market([0.5, 1.25, 12.5, 70.0], clock="")
    assert find(recording, "@12.5").steps.tolist() == find(recording, "@0:00:12.5").steps.tolist() == [2]
    assert find(recording, "0:01").steps.tolist() == [3]
    with pytest.raises(BadInput, match=r"find '@71': no step at or after t = 71 s; allowed: 500 ms to 70 s"):
        find(recording, "@71")


def test_time_of_a_recording_without_times_is_text_and_refused_after_an_at() -> None:
    rec = Recorder(Recording("hand"))
    rec.step("Meets at 09:45")
    rec.step("Waits")
    assert find(rec.recording, "09:45").steps.tolist() == [0]
    with pytest.raises(BadInput, match="the steps of this recording have none"):
        find(rec.recording, "@09:45")
    timed = Recorder(Recording("hand"))
    timed.step("Forward", time=0.0)
    timed.step("Backward", time=2.0)
    assert find(timed.recording, "@1").steps.tolist() == [1]


@pytest.mark.parametrize("text", ["@", "@soon", "@9:61", "@9:45:70", "@9.45.12"])
def test_time_that_cannot_be_read_says_how_it_is_written(text: str) -> None:
    recording = market([34_200.0, 34_300.0])
    with pytest.raises(BadInput, match=r"allowed: a time, as @09:45 or @9:45:12\.5|no step at or after"):
        find(recording, text)


def test_time_that_cannot_be_read_is_told_to_whom_it_was_given() -> None:
    recording = market([34_200.0, 34_300.0])
    with pytest.raises(BadInput, match=r"^find '@soon': no time"):
        find(recording, "@soon")
    with pytest.raises(BadInput, match=r"^until '@soon': no time"):
        condition("@soon", recording)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(["#{}", "order {}", "Order #{}", "order = {}"]))
def test_order_is_found_wherever_it_took_part_and_nowhere_else(seed: int, form: str) -> None:
    recording = market(list(np.arange(60) + 34_200.0), seed)
    values = [recording.values(step) for step in range(len(recording))]
    for number in range(1, 9):
        mine = [n for n, held in enumerate(values) if number in (held.get("order"), held.get("maker"), held.get("taker"))]
        if not mine:
            continue
        found = find(recording, form.format(number))
        assert found.steps.tolist() == mine
        wanted, _ = condition(form.format(number), recording)
        for here in (0, 20, 59):
            assert wanted.next(recording, here, 1) == next((step for step in mine if step > here), None)
            assert wanted.next(recording, here, -1) == next((step for step in reversed(mine) if step < here), None)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 950), st.sampled_from([">=", ">", "<", "<=", "=", "!="]))
def test_trade_of_a_size_is_found_among_trades_only(seed: int, size: int, op: str) -> None:
    recording = market(list(np.arange(60) + 34_200.0), seed)
    compare = {">=": operator.ge, ">": operator.gt, "<": operator.lt, "<=": operator.le, "=": operator.eq, "!=": operator.ne}[op]
    values = [recording.values(step) for step in range(len(recording))]
    mine = [n for n, held in enumerate(values) if "trade" in str(held["event"]) and compare(held["quantity"], size)]
    wanted, _ = condition(f"trade {op} {size}", recording)
    assert np.flatnonzero(wanted.mask(recording, 60)).tolist() == mine
    assert [wanted.next(recording, 30, d) for d in (1, -1)] == [
        next((n for n in mine if n > 30), None), next((n for n in reversed(mine) if n < 30), None),
    ]  # fmt: skip
    if mine:
        assert find(recording, f"Trade{op}{size}").steps.tolist() == mine


def test_numbers_of_64_bits_are_told_apart() -> None:
    rec = Recorder(Recording("hand"))
    rec.recording.words = WORDS
    for number in (9_007_199_254_740_992, 9_007_199_254_740_993, 6_413_000_000_000_000_001):
        rec.step("Order {order}", order=number)
    assert find(rec.recording, "#9007199254740993").steps.tolist() == [1]
    assert find(rec.recording, "order:9007199254740992").steps.tolist() == [0]
    assert find(rec.recording, "#6413000000000000001").steps.tolist() == [2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#77", r"find '#77': no step with it; allowed: a number as \d"),
        ("order 77", "no step with it"),
        ("order > 5", "a number that names it, as order 12345 or #12345"),
        ("trade >= big", "found 'big'; allowed: a number, as trade >= 500"),
        ("trade >= 5k", "no step with it; allowed: another number"),
        ("16:00", "no step at or after 16:00:00; allowed: 09:30:00 to 09:30:59 ET"),
    ],
)
def test_what_is_not_there_is_said_in_one_line_with_what_is(text: str, message: str) -> None:
    recording = market(list(np.arange(60) + 34_200.0))
    with pytest.raises(BadInput, match=message) as caught:
        find(recording, text)
    assert "\n" not in str(caught.value)


def test_words_mean_nothing_to_a_recording_that_has_none() -> None:
    rec = Recorder(Recording("hand"))
    rec.step("Issue #12 and order 12")
    rec.step("Nothing")
    assert find(rec.recording, "#12").steps.tolist() == find(rec.recording, "order 12").steps.tolist() == [0]
    with pytest.raises(BadInput, match="no fact or tag 'trade'"):
        condition("trade >= 5", rec.recording)


def test_a_growing_recording_is_searched_as_far_as_it_is_there() -> None:
    rec = Recorder(Recording("hand"))
    rec.recording.clock, rec.recording.words = "UTC", WORDS
    for n in range(50):
        rec.step("Order {order}", time=36_000.0 + n, order=n % 7, event="trade" if n % 3 else "add", quantity=n)
        if n < 20:
            with pytest.raises(BadInput, match="no step at or after 10:00:20 so far"):
                find(rec.recording, "10:00:20")
            assert condition("10:00:20", rec.recording)[0].next(rec.recording, 0, 1) is None
        else:
            assert find(rec.recording, "10:00:20").steps.tolist() == [20]
        if n >= 3:
            assert find(rec.recording, "#3").steps.tolist() == list(range(3, n + 1, 7))


def test_examples_are_forms_that_find_something() -> None:
    recording = market(list(np.arange(200) + 34_200.0))
    step = next(step for step in range(100, 200) if recording.values(step)["event"] == "add")
    forms = examples(recording, step)
    assert list(forms) == ["tag", "time", "order", "trade"] and forms["tag"] == "event:add"
    assert step in find(recording, forms["order"]).steps
    for form in forms.values():
        assert len(find(recording, form))
    assert forms["time"] == "09:32"
    assert examples(Recording("hand"), 0) == {}


def test_a_million_steps_are_searched_by_whole_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 1_000_000
    rng = np.random.default_rng(1)
    rec = Recorder(Recording("hand"))
    rec.recording.clock, rec.recording.words = "ET", WORDS
    kind = rng.integers(2, size=steps)
    time, order, quantity = np.sort(rng.uniform(34_200, 57_600, steps)), rng.integers(1, 400_000, steps), rng.integers(1, 900, steps)
    rec.steps(
        [("Order {order} of {quantity}", ""), ("Taker takes {quantity} from {maker}", "")], kind, time,
        order=order, maker=order[::-1].copy(), quantity=quantity, event=np.where(kind == 1, "trade", "add"),
    )  # fmt: skip
    for name in ("values", "title"):
        monkeypatch.setattr(Recording, name, lambda *_: pytest.fail("a step was looked at alone"))
    assert find(rec.recording, "12:45").steps.tolist() == [int(np.searchsorted(time, 45_900.0))]
    number = int(order[1000])
    mine = np.flatnonzero(((order == number) & (kind == 0)) | ((order[::-1] == number) & (kind == 1)))
    assert find(rec.recording, f"#{number}").steps.tolist() == mine.tolist()
    large = np.flatnonzero((kind == 1) & (quantity >= 890))
    assert np.array_equal(find(rec.recording, "trade >= 890").steps, large)


@pytest.mark.skipif(not GOOG.exists(), reason="the LOBSTER sample days are not here (../shared/data/lobster)")
def test_a_lobster_day_is_found_by_clock_order_and_trade() -> None:
    recording = record("order_book", {"file": str(GOOG)})
    assert recording.time_text(0) == "09:30:00.015105074 ET" and recording.time_text(0, 0) == "09:30:00 ET"
    times, columns = (
        list(recording.times),
        {name: recording.columns[name].array(len(recording)).tolist() for name in ("order", "quantity", "type")},
    )
    assert find(recording, "09:45").steps.tolist() == [next(n for n, t in enumerate(times) if t >= 9.75 * 3600)]
    order = columns["order"][5000]
    assert find(recording, f"#{order}").steps.tolist() == [n for n, other in enumerate(columns["order"]) if other == order]
    traded = [
        n for n, (kind, size) in enumerate(zip(columns["type"], columns["quantity"], strict=True)) if kind in (4, 5, 6) and size >= 500
    ]
    assert find(recording, "trade >= 500").steps.tolist() == traded and len(traded) == 29


@pytest.mark.skipif(not ESH4.exists(), reason="the Databento day is not here (../shared/data/databento)")
def test_a_databento_day_is_found_by_clock_order_and_trade() -> None:
    recording = record("order_book", {"file": str(ESH4)})
    assert recording.clock == "UTC"
    length = len(recording)
    times, order, size = list(recording.times), *(recording.columns[n].array(length).tolist() for n in ("order", "quantity"))
    event = recording.columns["event"]
    events = [event.texts[code] for code in event.array(length).tolist()]
    for text, second in (("23:00", 82_800.0), ("23:30:15.5", 84_615.5)):
        wanted = next(n for n, time in enumerate(times) if time >= second)
        assert find(recording, text).steps.tolist()[:1] == [wanted]
    some = order[20_000]
    assert find(recording, f"order {some}").steps.tolist() == [n for n, other in enumerate(order) if other == some]
    assert find(recording, "trade >= 20").steps.tolist() == [n for n in range(length) if events[n] == "trade" and size[n] >= 20]
