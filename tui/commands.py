"""The commands behind ``notes-tui``: list, run, plan and snapshot, and the options with which the explorer opens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from core.errors import BadInput
from tui.exits import BAD_INPUT, FAILED, OK
from tui.plain import complain, write_out

if TYPE_CHECKING:
    from pathlib import Path

    from core.export import Run
    from core.recording import Recording
    from core.scenario import Scenario


def _help(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    """Help goes out as every other text does: to a full disk it is bad input, to a closed pipe it is silent."""
    if wanted and not ctx.resilient_parsing:
        write_out([ctx.get_help(), "\n"])
        ctx.exit(OK)


class Helped(click.Command):
    """A command with `_help`."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _help
        return option


class Commands(Helped, click.Group):
    """A group whose commands win over a bare NAME or FILE, which opens the explorer."""

    command_class = Helped

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            return "open", self.commands["open"], args
        return super().resolve_command(ctx, args)


def _pairs(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """``--set name=value`` options as a mapping; the last of a name counts."""
    pairs = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise BadInput("--set", f"found {text!r}", "NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs


_target = click.argument("target", metavar="NAME|FILE")
_variant = click.option("--variant", metavar="V", help="Only this variant.")
_set = click.option("--set", "overrides", multiple=True, metavar="K=V", callback=_pairs, help="Change a parameter; may be repeated.")
_device = click.option(
    "--device", default="cpu", show_default=True, envvar="NOTES_TUI_DEVICE", help="Where tensors live: cpu, cuda, cuda:1."
)
_device_or_settings = click.option(
    "--device", metavar="D", help="Where tensors live: cpu, cuda, cuda:1. Without it, the device of the settings."
)
_seed = click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Seed of everything drawn at random.")


@click.group(
    cls=Commands,
    invoke_without_command=True,
    subcommand_metavar="[NAME|FILE] | COMMAND …",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--version", is_flag=True, help="Print the version and exit.")
@click.pass_context
def commands(ctx: click.Context, version: bool) -> int:
    """Step through how training systems and markets really work.

    Without a command it opens the explorer: at home, or on NAME (a scenario or simulation) or FILE (a scenario,
    market data, a model's config.json, router logits).
    """
    if version:
        from importlib.metadata import version as installed

        write_out([f"notes-tui {installed('notes-tui')}\n"])
        ctx.exit(OK)
    if ctx.invoked_subcommand is not None:
        return OK
    from tui.launch import explore

    return explore(None)


@commands.command("open", hidden=True)
@_target
@_variant
@_set
@_device_or_settings
@_seed
def open_target(target: str, variant: str | None, overrides: dict[str, str], device: str | None, seed: int) -> int:
    """Open NAME or FILE in the explorer."""
    from tui.launch import explore

    return explore(target, variant, overrides, device, seed)


@commands.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def list_command(as_json: bool) -> int:
    """Scenarios and simulations, by family."""
    from core.scenario import broken_folders, names, read, story_order
    from core.simulation import families

    found, broken = [], broken_folders()
    for name, path in names().items():
        try:
            found.append(read(path, name))
        except BadInput as error:
            broken.append(str(error))
    found = story_order(found)
    write_out(_list_json(found, families()) if as_json else _list_text(found, families()), raw=as_json)
    for reason in broken:
        complain(reason)
    return BAD_INPUT if broken else OK


@commands.command("run")
@_target
@_set
@_variant
@_device
@_seed
@click.option("--steps", is_flag=True, help="The steps too, not only facts and checks.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def run_command(
    target: str, overrides: dict[str, str], variant: str | None, device: str, seed: int, steps: bool, as_json: bool
) -> int:  # fmt: skip
    """Run NAME or FILE without a terminal: facts and checks.

    Exit code 0 when all checks and expectations hold, 1 when one failed, 2 for bad input, 3 for an internal error.
    """
    from core.export import json_pieces, text_heading, text_section
    from core.scenario import find

    scenario = find(target)
    chosen = [variant] if variant is not None else scenario.variant_names
    for name in chosen:
        scenario.parsed(name, overrides)  # every variant's parameters are sound before the first one runs
    if device != "cpu":
        from core.device import require

        require(device)
    runs: dict[str, Run] = {}
    if as_json:
        for name in chosen:
            runs[name] = _record(scenario, name, overrides, device, seed)
        write_out(json_pieces(scenario, runs, steps=steps), raw=True)
    else:
        write_out([text_heading(scenario)])
        for name in chosen:
            runs[name] = _record(scenario, name, overrides, device, seed)
            write_out(["\n", text_section(name, runs[name])])
            if steps:
                write_out(_step_lines(runs[name]))
        write_out(_closing(scenario, runs, changed=bool(overrides) or seed != 0))
    return OK if all(run.holds for run in runs.values()) else FAILED


@commands.command("plan")
@click.argument("config", metavar="[CONFIG.JSON]", required=False)
@click.option("--gpus", metavar="N", help="GPUs in all.")
@click.option("--accelerator", metavar="NAME", help="Kind of GPU: a100, h100, h200, b200.")
@click.option("--sequence", metavar="N", help="Tokens of a sample.")
@click.option("--global-batch", metavar="N", help="Samples of an optimizer step, over all ranks.")
@click.option("--node-size", metavar="N", help="GPUs that share a node.")
@click.option("--top", type=click.IntRange(1, 1000), default=10, show_default=True, help="Layouts to print, the fastest first.")
@click.option("--profile", is_flag=True, help="Rates measured on this machine's --device instead of the data sheet's.")
@_device
@_set
@click.option("--json", "as_json", is_flag=True, help="One JSON object with every layout instead of text.")
def plan_command(
    config: str | None, top: int, profile: bool, device: str, overrides: dict[str, str], as_json: bool, **given: str | None
) -> int:
    """Which layouts of a model fit on your GPUs, the fastest first, and why the others do not.

    Without CONFIG.JSON the model is described by sizes (--set layers=48 --set hidden=6144 ...).
    """
    from core.export import Run
    from core.plan_export import plan_json, plan_text
    from core.recording import Recording
    from core.scenario import bare

    named = {name: value for name, value in given.items() if value is not None}
    overrides = named | ({"model": config} if config else {}) | ({"profile": "true"} if profile else {}) | overrides
    scenario = bare("plan")
    recording = Recording(scenario.simulation, device=device)
    try:
        run = _record(scenario, scenario.variant_names[0], overrides, device, 0, recording)
    except BadInput:
        if as_json and len(recording):  # nothing fits: every layout with its reason, and still exit code 2
            write_out(plan_json(Run(recording)), raw=True)
        raise
    write_out(plan_json(run) if as_json else plan_text(run, top), raw=as_json)
    return OK if run.holds else FAILED


@commands.command("snapshot")
@_target
@click.option("--step", type=int, default=1, show_default=True, help="Counted from 1, as on the screen.")
@click.option("--size", default="120x40", show_default=True, metavar="WxH", help="Columns and rows of the terminal.")
@_variant
@_set
@_device
@_seed
@click.option("-o", "--output", required=True, metavar="F.svg|F.txt", help="Where the picture goes.")
def snapshot_command(
    target: str, step: int, size: str, variant: str | None, overrides: dict[str, str], device: str, seed: int, output: str
) -> int:
    """A picture of the screen at a step of NAME or FILE."""
    from pathlib import Path

    from core.scenario import find

    width, height = _size(size)
    place = Path(os.path.expanduser(output))  # noqa: PTH111 - never raises
    if place.suffix not in (".svg", ".txt"):
        raise BadInput("--output", f"found {output!r}", "a file that ends in .svg or .txt")
    scenario = find(target)
    scenario.parsed(variant if variant is not None else scenario.variant_names[0], overrides)
    from tui.snapshot import picture

    text = picture(scenario, step, (width, height), place.suffix, variant=variant, overrides=overrides, device=device, seed=seed)
    _write(place, text)
    return OK


@commands.command("doctor")
@click.argument("file", metavar="FILE")
@click.option("--symbol", default="", help="Which instrument, where the file holds several.")
@click.option("--format", "data_format", default="auto", show_default=True, help="lobster, databento, itch, binance, tardis, messages.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def doctor_command(file: str, symbol: str, data_format: str, as_json: bool) -> int:
    """What is wrong with a market data file, and what it cannot say. Nothing is repaired.

    Exit code 0 when nothing is wrong, 1 when something is, 2 when FILE is no market data.
    """
    from core import doctor

    report = doctor.examine(file, symbol, data_format)
    write_out([doctor.as_json(report)] if as_json else doctor.as_text(report), raw=as_json)
    return OK if report.healthy else FAILED


# what the commands share -----------------------------------------------------------------------------------------------


def _record(
    scenario: Scenario, variant: str, overrides: Mapping[str, str], device: str, seed: int, recording: Recording | None = None
) -> Run:
    """One variant, recorded and judged. [expect] speaks of unmodified parameters and of the seed the file was written with."""
    from core.export import Run
    from core.scenario import judge
    from core.simulation import record

    recording = record(scenario.simulation, scenario.parsed(variant, overrides), device, seed=seed, recording=recording)
    expected = [] if overrides or seed else judge(scenario, variant, recording)
    return Run(recording, expected)


def _step_lines(run: Run) -> Iterator[str]:
    from core.export import step_rows

    width = len(f"{len(run.recording):,}")
    phase = None
    for number, row in enumerate(step_rows(run.recording), start=1):
        if row["phase"] != phase:
            phase = row["phase"]
            yield f"  -- {phase}\n"
        time = f"{run.recording.time_text(number - 1)}  " if run.recording.clock else ""
        yield f"  {number:>{width},}  {time}{row['title']}\n"


def _closing(scenario: Scenario, runs: Mapping[str, Run], *, changed: bool) -> Iterator[str]:
    checks = [check for run in runs.values() for check in run.checks]
    failed = sum(not check.ok for check in checks)
    count = f"{len(checks)} check" + ("" if len(checks) == 1 else "s")
    yield f"\n{count}, {f'{failed} failed' if failed else 'all hold'}"
    yield "; expectations not judged: parameters or seed changed\n" if changed and scenario.expect else "\n"
    if scenario.takeaway and not changed:
        yield f"{scenario.takeaway}\n"


def _list_text(scenarios: Sequence[Scenario], simulations: Mapping[str, str]) -> Iterator[str]:
    from core.simulation import FAMILIES

    width = max((len(s.name) for s in scenarios), default=0)
    first = True
    for family, heading in FAMILIES.items():
        mine = [s for s in scenarios if s.family == family]
        bare = [name for name, place in simulations.items() if place == family]
        if not mine and not bare:
            continue
        yield heading + "\n" if first else f"\n{heading}\n"
        first = False
        for scenario in mine:
            variants = f"  ({', '.join(scenario.variants)})" if scenario.variants else ""
            yield f"  {scenario.name:<{width}}  {scenario.title}{variants}\n"
        if bare:
            yield f"  simulations: {', '.join(bare)}\n"


def _list_json(scenarios: Sequence[Scenario], simulations: Mapping[str, str]) -> Iterator[str]:
    import json

    rows = [
        {
            "name": s.name, "family": s.family, "simulation": s.simulation, "title": s.title, "question": s.question,
            "variants": s.variant_names,
        }
        for s in scenarios
    ]  # fmt: skip
    bare = [{"name": name, "family": family} for name, family in simulations.items()]
    yield json.dumps({"format": 1, "scenarios": rows, "simulations": bare}, ensure_ascii=False, indent=1) + "\n"


def _size(text: str) -> tuple[int, int]:
    width, cross, height = text.lower().partition("x")
    if not cross or not width.isdecimal() or not height.isdecimal():
        raise BadInput("--size", f"found {text!r}", "columns x rows, such as 120x40")
    columns, rows = int(width), int(height)
    if not (10 <= columns <= 1000 and 3 <= rows <= 500):
        raise BadInput("--size", f"found {text!r}", "10x3 to 1000x500")
    return columns, rows


def _write(place: Path, text: str) -> None:
    from core.export import write_pieces

    if os.path.isdir(place):  # noqa: PTH112 - never raises
        raise BadInput(str(place), "found a directory", "the path of a file")
    write_pieces([text], place)


def dispatch(args: Sequence[str]) -> int:
    """Run the command that ``args`` name and return its exit code. Raises BadInput where click cannot read them."""
    try:
        with commands.make_context("notes-tui", list(args)) as ctx:
            return int(commands.invoke(ctx) or OK)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        where = getattr(getattr(error, "ctx", None), "command_path", "notes-tui")
        complain(f"{where.removeprefix('notes-tui').strip()}: {error.format_message()}".removeprefix(": "))
        return BAD_INPUT
