"""What partial updates leave on a terminal is what a full update draws; widgets beside those that changed are not asked for lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from rich.console import Console, RenderableType
from rich.segment import Segment
from textual.app import App as TextualApp
from textual.app import ComposeResult
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tui.app import NotesApp
from tui.compositor import RowCompositor, RowsUpdate

App = Callable[..., NotesApp]
WIDE = (120, 40)
Cells = dict[tuple[int, int], tuple[str, object]]


def drawn(strips: list[Strip]) -> Cells:
    return {(y, x): cell for y, strip in enumerate(strips) for x, cell in enumerate(_cells(strip))}


def _cells(segments: Iterable[Segment]) -> list[tuple[str, object]]:
    return [(letter, segment.style) for segment in segments for letter in segment.text]


async def test_steps_leave_on_the_screen_what_a_full_update_draws(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    made = app()
    updates: list[object] = []
    small = 0
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        screen = made.screen
        assert isinstance(screen._compositor, RowCompositor)
        terminal = drawn(screen._compositor.render_strips())
        show = made._display

        def noted(where: Screen[object], update: RenderableType | None) -> None:
            updates.append(update)
            show(where, update)

        monkeypatch.setattr(made, "_display", noted)
        for key in ("right", "right", "tab", "right", "down", "end", "home", "5"):
            await pilot.press(key)
            await pilot.pause()
            for update in updates:
                if not isinstance(update, RowsUpdate):  # the whole screen
                    terminal = drawn(screen._compositor.render_strips())
                    continue
                for y, x, segments in update.pieces:
                    terminal |= {(y, x + at): cell for at, cell in enumerate(_cells(segments))}
            assert terminal == drawn(screen._compositor.render_strips()), key
            assert key == "tab" or all(isinstance(update, RowsUpdate) for update in updates), key
            small += len(updates) if key != "tab" else 0
            updates.clear()
        assert small >= 6


class Counted(Widget):
    """Counts for how many lines it was asked."""

    asked = 0

    def render_line(self, y: int) -> Strip:
        self.asked += 1
        return super().render_line(y)


class Pair(TextualApp[None]):
    CSS = """
    Screen { layers: below above; }
    #left, #right { width: 10; height: 5; layer: below; }
    #right { offset: 10 0; }
    #over { width: 8; height: 3; offset: 6 1; layer: above; background: red; }
    """

    def __init__(self, over: bool) -> None:
        super().__init__()
        self.over = over

    def get_default_screen(self) -> Screen[None]:
        screen: Screen[None] = Screen(id="_default")
        screen._compositor = RowCompositor()
        return screen

    def compose(self) -> ComposeResult:
        yield Counted(id="left")
        yield Counted(id="right")
        if self.over:
            yield Counted(id="over")


async def test_only_the_widget_that_changed_is_asked_for_its_lines() -> None:
    app = Pair(over=False)
    async with app.run_test(size=(30, 10)) as pilot:
        left, right = app.query_one("#left", Counted), app.query_one("#right", Counted)
        left.asked = right.asked = 0
        left.refresh()
        await pilot.pause()
        assert (left.asked, right.asked) == (5, 0)


async def test_where_widgets_lie_over_each_other_the_front_one_stays_in_front() -> None:
    app = Pair(over=True)
    async with app.run_test(size=(30, 10)) as pilot:
        compositor = app.screen._compositor
        assert isinstance(compositor, RowCompositor)
        await pilot.pause()
        region = app.query_one("#left").region
        compositor._dirty_regions.add(region)
        update = compositor.render_partial_update()
        assert update is not None
        sent = update.render_segments(Console())
        compositor._dirty_regions.add(region)
        whole = super(RowCompositor, compositor).render_partial_update()
        assert whole is not None
        assert sent == whole.render_segments(Console())


async def test_what_moved_is_painted_though_somebody_asked_for_the_layout_before(app: App) -> None:
    """A widget that is new asks for its size while the others are still to be moved."""
    made = app()
    async with made.run_test(size=(80, 24)) as pilot:
        await made.wait_recorded()
        await pilot.pause()
        stage = made.stage
        assert stage is not None
        compositor, rule = stage._compositor, stage.views[0].title_rule
        assert compositor.full_map[rule].region.width == 80
        compositor._dirty_regions.clear()
        stage.views[0].styles.width = 40
        for part in (stage, *stage.walk_children()):
            part._clear_arrangement_cache()
        compositor._full_map_invalidated = True
        assert compositor.full_map[rule].region.width == 40
        assert rule in compositor.reflow(stage, stage.size).resized
        assert any(region.contains(79, rule.region.y) for region in compositor._dirty_regions)


async def test_only_what_is_in_sight_and_under_nothing_is_painted_by_itself() -> None:
    app = Pair(over=True)
    async with app.run_test(size=(15, 10)) as pilot:
        compositor = app.screen._compositor
        assert isinstance(compositor, RowCompositor)
        await pilot.pause()
        left, right, over = (app.query_one(name) for name in ("#left", "#right", "#over"))
        assert compositor.alone(over) == over.region
        assert compositor.alone(left) is None, "something lies over it"
        over.display = False
        await pilot.pause()
        assert compositor.alone(left) == left.region
        assert compositor.alone(over) is None
        assert right.region.right > 15 and compositor.alone(right) is None, "a part of it is outside"
