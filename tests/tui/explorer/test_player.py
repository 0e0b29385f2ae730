"""The player: steps from elapsed time, whatever happens to the frames in between."""

from __future__ import annotations

import pytest
from walking import Clock

from core.errors import BadInput
from core.recording import Recorder, Recording
from core.search import condition
from tui.player import STEPS_PER_SECOND, Player


@pytest.fixture
def recording() -> Recording:
    rec = Recorder(Recording("hand"))
    for step in range(40):
        if step in (0, 10, 25):
            rec.phase({0: "a", 10: "b", 25: "c"}[step])
        rec.fact("level", step // 8)
        rec.step("Step {n} of {kind}", n=step, kind="odd" if step % 2 else "even")
    rec.recording.state = "finished"
    return rec.recording


@pytest.fixture
def player(recording: Recording, clock: Clock) -> Player:
    return Player(recording, clock)


def test_step_follows_elapsed_time_however_many_frames_are_drawn(player: Player, clock: Clock) -> None:
    player.play()
    for _ in range(40):
        clock.now += 0.125
        player.tick()
    assert player.step == int(5 * STEPS_PER_SECOND)
    clock.now += 5  # a long stall: the next frame shows the newest state
    assert player.tick() == int(10 * STEPS_PER_SECOND)


def test_playing_stops_at_the_end_of_a_finished_recording_and_starts_over(player: Player, clock: Clock) -> None:
    player.play()
    clock.now += 1000
    assert player.tick() == 39
    assert not player.playing
    player.play()
    assert (player.step, player.playing) == (0, True)


def test_playing_waits_at_the_end_of_a_growing_recording(player: Player, recording: Recording, clock: Clock) -> None:
    recording.state = "recording"
    player.play()
    clock.now += 1000
    assert player.tick() == 39
    assert player.playing
    rec = Recorder(recording)
    for n in range(20):
        rec.step("More {n}", n=n)
    clock.now += 1
    assert player.tick() == 39 + int(STEPS_PER_SECOND)


def test_speed_changes_keep_the_place(player: Player, clock: Clock) -> None:
    player.play()
    clock.now += 2
    here = player.tick()
    assert player.change_speed(1) == 2.0
    assert player.step == here
    clock.now += 1
    assert player.tick() == here + int(2 * STEPS_PER_SECOND)
    for _ in range(60):
        player.change_speed(-1)
    assert player.speed == 0.25


def test_moves_stay_within_the_recording(player: Player) -> None:
    assert player.move(-1) == 0
    assert player.far(1) == 4
    assert player.move(1000) == 39
    assert [player.tenth(n) for n in (0, 5, 9)] == [0, 20, 35]


def test_phases_go_to_their_starts(player: Player) -> None:
    player.seek(12)
    assert player.phase(-1) == 10
    assert player.phase(-1) == 0
    assert [player.phase(1) for _ in range(3)] == [10, 25, 39]


def test_wanted_step_is_reached_as_soon_as_it_is_recorded(clock: Clock) -> None:
    rec = Recorder(Recording("hand"))
    player = Player(rec.recording, clock)
    player.want(5)
    for n in range(10):
        rec.step("{n}", n=n)
        assert player.tick() == min(n, 5)


def test_wanted_step_that_never_comes_ends_at_the_last(clock: Clock, recording: Recording) -> None:
    player = Player(recording, clock)
    player.want(500)
    assert player.tick() == 39
    player.move(-1)
    assert player.tick() == 38


def test_bookmarks_are_kept_in_order_and_taken_back(player: Player) -> None:
    for step in (9, 3, 9):
        player.seek(step)
        player.toggle_bookmark()
    assert player.bookmarks == (3,)


def test_find_goes_on_around_the_end_and_backwards(player: Player) -> None:
    player.seek(35)
    assert player.find("of odd") == 35
    assert player.find_again(1) == 37
    assert player.find_again(1) == 39
    assert player.find_again(1) == 1
    assert player.find_again(-1) == 39
    assert player.find("nothing of the kind") is None


def test_run_until_stops_where_a_fact_begins_to_hold_in_either_direction(player: Player, recording: Recording) -> None:
    wanted, _ = condition("level >= 2", recording)
    assert player.run_until(wanted, 1) == 16
    assert player.run_until(wanted, 1) is None, "it holds on and never begins again"
    player.seek(30)
    assert player.run_until(wanted, -1) == 16
    tag, _ = condition("kind:odd", recording)
    assert player.run_until(tag, -1) == 15


def test_unknown_tag_names_the_nearest(player: Player) -> None:
    with pytest.raises(BadInput, match="did you mean 'kind'"):
        player.find("kin:odd")


# steps that belong together ----------------------------------------------------------------------------------------------

JOINED = (2, 3, 4, 8, 12, 13, 19)
"""Of twenty steps those that belong to the step before: the whole takers end at 4, 8, 13 and 19."""
ENDS = [0, 4, 5, 6, 8, 9, 10, 13, 14, 15, 16, 17, 19]
"""The last step of every happening; 1 begins a taker and is no end."""


def taken(steps: int = 20, joined: tuple[int, ...] = JOINED) -> Recorder:
    rec = Recorder(Recording("hand"))
    for step in range(steps):
        rec.step("Step {n}", n=step, joins=step in joined)
    return rec


def test_playing_shows_whole_takers_each_as_long_as_any_other_step(clock: Clock) -> None:
    rec = taken()
    rec.recording.state = "finished"
    player = Player(rec.recording, clock)
    player.play()
    seen = []
    for _ in range(4 * len(ENDS)):
        seen.append(player.tick())
        clock.now += 0.25 / STEPS_PER_SECOND
    assert [step for n, step in enumerate(seen) if n == 0 or step != seen[n - 1]] == ENDS
    assert all(seen.count(step) == 4 for step in ENDS[:-1])


def test_a_fast_player_still_ends_on_whole_takers(clock: Clock) -> None:
    rec = taken()
    rec.recording.state = "finished"
    player = Player(rec.recording, clock)
    player.speed = 4.0
    player.play()
    while player.playing:
        clock.now += 0.37
        assert player.tick() in ENDS


def test_stepping_stops_at_every_match_of_a_taker(clock: Clock) -> None:
    rec = taken()
    rec.recording.state = "finished"
    player = Player(rec.recording, clock)
    assert [player.move(1) for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert [player.move(-1) for _ in range(4)] == [5, 4, 3, 2]
    clock.now += 100
    assert player.tick() == 2, "paused in the middle of a taker it stays there"


def test_playing_from_within_a_taker_goes_to_its_end_first(clock: Clock) -> None:
    rec = taken()
    rec.recording.state = "finished"
    player = Player(rec.recording, clock)
    player.seek(2)
    player.play()
    assert player.tick() == 4
    clock.now += 1 / STEPS_PER_SECOND
    assert player.tick() == 5
    player.pause()
    assert player.step == 5


def test_player_waits_for_the_taker_that_is_still_being_recorded(clock: Clock) -> None:
    rec = taken(steps=13)  # the last step begins or continues a taker: nobody knows yet
    player = Player(rec.recording, clock)
    player.play()
    clock.now += 1000
    assert (player.tick(), player.playing) == (10, True)
    rec.step("Step {n}", n=13, joins=True)
    clock.now += 1000
    assert player.tick() == 10
    rec.step("Step {n}", n=14)
    clock.now += 1 / STEPS_PER_SECOND
    assert player.tick() == 13, "the next one has begun, so this one is whole"
    rec.recording.state = "finished"
    clock.now += 1 / STEPS_PER_SECOND
    assert (player.tick(), player.playing) == (14, False)


def test_speed_changes_within_takers_keep_the_place(clock: Clock) -> None:
    rec = taken()
    rec.recording.state = "finished"
    player = Player(rec.recording, clock)
    player.play()
    clock.now += 1.5 / STEPS_PER_SECOND
    assert player.tick() == 4
    player.change_speed(1)
    assert player.tick() == 4
    clock.now += 0.5 / STEPS_PER_SECOND
    assert player.tick() == 5
