"""The doctor's page: its key, what it tells, where Enter goes, how it comes back, and what is said before the replay."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from test_stage_keys import NARROW, WIDE, screen_text, stage_of
from textual.pilot import Pilot
from waiting import LONGEST, until

from core import doctor
from core.errors import BadInput
from core.scenario import find
from tui.app import NotesApp
from tui.keys import ACTIONS
from tui.screens.doctor import DoctorScreen
from tui.screens.help import Help
from tui.screens.home import HomeScreen

App = Callable[..., NotesApp]
HEAD = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
EARLY = "events received before they were sent"
both_sizes = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "120x40"])


def trades(path: Path, *, early: tuple[int, ...] = (), count: int = 30) -> Path:
    """Trades a second apart; those in ``early`` were received before they were sent."""
    start = 1_583_020_803_145_000
    rows = [f"x,X,{start + k * 10**6},{start + k * 10**6 + (-500 if k in early else 500)},{k},buy,{100 + k},1" for k in range(count)]
    path.write_text("\n".join([HEAD, *rows, ""]))
    return path


def funding(path: Path) -> Path:
    rows = [f"X,2024-01-{day:02d} {hour:02d}:00:00.000,0.0001" for day in range(1, 9) for hour in (3, 11, 19)]
    path.write_text("\n".join(["Symbol,Date,Funding Rate", *rows, ""]))
    return path


def shows_findings(app: NotesApp) -> bool:
    """Whether the page is there and its list, or why there is none, is drawn."""
    page = app.screen
    if not isinstance(page, DoctorScreen):
        return False
    why_none = page.examination.error
    return bool(page.findings) or (why_none != "" and page.list.empty == why_none)


async def opened(app: NotesApp, pilot: Pilot[None]) -> DoctorScreen:
    await app.wait_recorded()
    await pilot.press("D")
    await until(pilot, lambda: shows_findings(app))
    assert isinstance(app.screen, DoctorScreen)
    return app.screen


@both_sizes
async def test_page_tells_what_is_wrong_first_and_where_it_begins(app: App, tmp_path: Path, size: tuple[int, int]) -> None:
    made = app(scenario=find(str(trades(tmp_path / "a.csv", early=(7, 9)))))
    async with made.run_test(size=size) as pilot:
        page = await opened(made, pilot)
        text = screen_text(made)
        assert page.selected is not None and page.selected.name == EARLY
        assert "Wrong (1)" in text and "Looked at and sound" in text and "Doctor" in text and "1 of " in text
        assert "wrong: 2" in text and "step 8, line 9" in text and "Enter goes there" in text
        assert f"✗ {EARLY}" in text  # the sign says it without a colour
        assert all(len(line) <= size[0] for line in text.splitlines())


async def test_enter_goes_to_the_step_and_esc_comes_back_where_it_was(app: App, tmp_path: Path) -> None:
    made = app(scenario=find(str(trades(tmp_path / "a.csv", early=(7,)))))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("right", "right")
        await opened(made, pilot)
        await pilot.press("escape")
        await pilot.pause()
        assert made.screen is stage_of(made) and stage_of(made).player.step == 2
        await opened(made, pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert made.screen is stage_of(made) and stage_of(made).player.step == 7
        assert "A buyer takes 1 at 107" in screen_text(made)


async def test_finding_about_the_whole_file_has_no_step(app: App, tmp_path: Path) -> None:
    made = app(scenario=find(str(trades(tmp_path / "a.csv"))))
    async with made.run_test(size=WIDE) as pilot:
        page = await opened(made, pilot)
        assert "✓ none of" in screen_text(made)
        await pilot.press("end", "enter")
        await pilot.pause()
        assert made.screen is page and "no step" in page.message
        await pilot.press("escape", "up", "down", "home", "pagedown", "pageup", "j", "k")
        await pilot.pause()
        assert page.selected is page.findings[page.list.rows[0]]


async def test_file_with_a_fault_says_so_before_the_replay_and_a_sound_one_says_nothing(app: App, tmp_path: Path) -> None:
    for early, said in (((3,), True), ((), False)):
        made = app(scenario=find(str(trades(tmp_path / f"{len(early)}.csv", early=early))))
        async with made.run_test(size=WIDE) as pilot:
            await made.wait_recorded()
            await pilot.pause()
            line = f"1 of 5 things is wrong with this file: {EARLY} (1). D shows the doctor's page." if said else ""
            assert stage_of(made).notice == line
            assert ("✗ 1 of 5 things is wrong" in screen_text(made)) is said
            await pilot.press("right")
            await pilot.pause()
            assert "things is wrong" not in screen_text(made)  # said before, not during


async def test_first_event_does_not_wait_for_the_doctor_and_the_page_shows_how_far_it_is(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, look = threading.Event(), doctor.examine

    def slow(path: str, symbol: str, format: str, progress: Callable[[float, str], None]) -> object:
        progress(0.42, "looking at messages")
        go_on.wait(LONGEST)
        return look(path, symbol, format, progress)

    monkeypatch.setattr(doctor, "examine", slow)
    made = app(scenario=find(str(trades(tmp_path / "a.csv", early=(2,)))))
    async with made.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: made.stage and made.stage.front.done)
        await until(pilot, lambda: "A buyer takes 1 at 100" in screen_text(made))
        await pilot.press("right", "D")
        await until(pilot, lambda: "looking at messages: 42 %" in screen_text(made))
        assert "looking…" in screen_text(made)
        await pilot.press("escape")
        await pilot.pause()
        assert made.screen is stage_of(made)
        await pilot.press("D")
        go_on.set()
        await until(pilot, lambda: "Wrong (1)" in screen_text(made))


async def test_look_ends_with_the_stage(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, beats = threading.Event(), threading.Event()

    def endless(path: str, symbol: str, format: str, progress: Callable[[float, str], None]) -> object:
        try:
            while True:
                progress(0.5, "looking")
                beats.wait(0.01)
        finally:
            ended.set()

    monkeypatch.setattr(doctor, "examine", endless)
    made = app(scenario=find(str(trades(tmp_path / "a.csv"))))
    async with made.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: made.stage and made.stage.front.done)
        await pilot.pause(0.1)
        assert not ended.is_set()
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(made.screen, HomeScreen) and ended.is_set())


async def test_nothing_looks_any_more_once_the_explorer_has_ended(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[BaseException | None] = []
    monkeypatch.setattr("threading.excepthook", lambda told: raised.append(told.exc_value))
    looks, beats = [], threading.Event()

    def endless(path: str, symbol: str, format: str, progress: Callable[[float, str], None]) -> object:
        looks.append(threading.current_thread())
        while True:
            beats.wait(0.2)
            progress(0.5, "looking")

    monkeypatch.setattr(doctor, "examine", endless)
    made = app(scenario=find(str(trades(tmp_path / "a.csv"))))
    async with made.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: looks)
        assert looks[0].is_alive()
    assert not looks[0].is_alive() and raised == []


async def test_file_that_the_doctor_cannot_read_is_told_in_one_line(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **more: object) -> None:
        raise BadInput("a.csv: line 3", "found 'x'", "a number")

    def fall(*args: object, **more: object) -> None:
        raise KeyError("nowhere")

    for fault, said in ((refuse, "a.csv: line 3: found 'x'; allowed: a number"), (fall, "KeyError: 'nowhere' (this is a defect")):
        monkeypatch.setattr(doctor, "examine", fault)
        made = app(scenario=find(str(trades(tmp_path / "a.csv"))))
        async with made.run_test(size=WIDE) as pilot:
            await opened(made, pilot)
            assert said in screen_text(made) and "✗ no report" in screen_text(made)
            await pilot.press("enter", "down", "escape")
            await pilot.pause()
            assert made.screen is stage_of(made)


async def test_funding_history_opens_with_its_rates_and_its_page(app: App, tmp_path: Path) -> None:
    made = app(scenario=find(str(funding(tmp_path / "f.csv"))))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.pause()
        assert "Funding rate at each settlement" in screen_text(made) and "Longs pay shorts" in screen_text(made)
        await opened(made, pilot)
        assert "UTC+3" in screen_text(made) and "step 1, line 2" in screen_text(made)


async def test_run_without_a_file_says_that_there_is_nothing_to_look_at(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("D")
        await pilot.pause()
        assert made.screen is stage_of(made) and "no market data file" in stage_of(made).message
        assert "doctor" in stage_of(made).not_offered()


async def test_keys_of_the_page_stand_in_its_help_and_the_palette(app: App, tmp_path: Path) -> None:
    made = app(scenario=find(str(trades(tmp_path / "a.csv"))))
    async with made.run_test(size=(120, 60)) as pilot:
        page = await opened(made, pilot)
        offered = {command.title for command in made.get_system_commands(page)}
        assert "Go there" in offered and "Step" not in offered
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(made.screen, Help)
        for action in ACTIONS:
            if action.scope == "doctor":
                assert action.help in screen_text(made)


@both_sizes
@pytest.mark.parametrize("keys", ["D", "D end"])
def test_pictures(app: App, snap_compare: Callable[..., bool], tmp_path: Path, size: tuple[int, int], keys: str) -> None:
    made = app(scenario=find(str(trades(tmp_path / "day.csv", early=(7, 9)))))

    async def before(pilot: Pilot[None]) -> None:
        await opened(made, pilot)
        await pilot.press(*keys.split()[1:])
        await pilot.pause()

    assert snap_compare(made, terminal_size=size, run_before=before)


async def test_without_colour_the_page_reads_the_same(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    made = app(scenario=find(str(trades(tmp_path / "a.csv", early=(7,)))))
    async with made.run_test(size=NARROW) as pilot:
        await opened(made, pilot)
        assert f"▸ ✗ {EARLY}" in screen_text(made) and "✓ receive times that go back" in screen_text(made)


async def test_look_at_another_file_ends_the_one_before(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled, beats = threading.Event(), threading.Event()

    def endless(path: str, symbol: str, format: str, progress: Callable[[float, str], None]) -> object:
        try:
            while not path.endswith("other"):
                progress(0.5, "looking")
                beats.wait(0.01)
        finally:
            if not path.endswith("other"):
                cancelled.set()
        raise BadInput(path, "nothing", "something")

    monkeypatch.setattr(doctor, "examine", endless)
    made = app(scenario=find(str(trades(tmp_path / "a.csv"))))
    async with made.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: made.stage and made.stage.front.done)
        await pilot.pause(0.1)
        assert not cancelled.is_set()
        stage_of(made)._examined(doctor.DataFile("other", "", "auto"))
        assert cancelled.wait(LONGEST)


DAMAGED = {
    "cut.gz": gzip.compress(f"{HEAD}\n".encode() + b"x,X,1583020803145000,1583020803145000,a,buy,5,1\n" * 9)[:-9],
    "row.csv": f"{HEAD}\nx,X,1583020803145000,1583020803145000,a,buy,5,1\nx,X,later\n".encode(),
}


@pytest.mark.parametrize("name", DAMAGED)
async def test_damaged_file_says_so_in_the_explorer_which_goes_on(app: App, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(DAMAGED[name])
    made = app(scenario=find(str(tmp_path / name)))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.pause()
        assert "✗ stopped" in screen_text(made) and "allowed: " in stage_of(made).front.error
        assert ("ends too early" in stage_of(made).front.error) or ("line 3: 3 columns" in stage_of(made).front.error)
        await pilot.press("right", "left", "end", "D")
        await until(pilot, lambda: isinstance(made.screen, DoctorScreen) and "readable to its end" in screen_text(made))
        await pilot.press("escape")
        await until(pilot, lambda: made.screen is made.stage)
        for _ in range(3):  # what is said, a focus, the stage
            if made.screen is made.stage:
                await pilot.press("escape")
                await pilot.pause()
        await until(pilot, lambda: isinstance(made.screen, HomeScreen))


async def test_finding_about_a_message_goes_to_its_first_step(app: App, tmp_path: Path) -> None:
    import numpy as np

    columns = {
        "type": [0, 0, 0, 1, 0, 2], "side": [0, 1, 1, 0, 0, 0], "ioc": [0] * 6, "quantity": [5, 5, 5, 0, 12, 3],
        "order_id": [1, 2, 3, 1, 4, 77], "price": [100, 101, 102, 0, 105, 100],
    }  # fmt: skip
    path = tmp_path / "m.npz"
    np.savez(path, **{name: np.array(values, dtype=np.int64) for name, values in columns.items()})
    made = app(scenario=find(str(path)))
    async with made.run_test(size=WIDE) as pilot:
        page = await opened(made, pilot)
        row = next(n for n, finding in enumerate(page.findings) if finding.name == "messages about ids never seen")
        page.list.select(row)
        await pilot.pause()
        assert "message 6" in screen_text(made)
        await pilot.press("enter")
        recording = stage_of(made).front.recording
        await until(pilot, lambda: made.screen is made.stage and stage_of(made).player.step == len(recording) - 1)
        assert recording.values(stage_of(made).player.step)["order"] == 77  # message 5 has a step for each of its two matches
        assert stage_of(made).player.step == len(recording) - 1 > 5
