"""Parameters: what is accepted, what is refused, and in which words."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from msgspec import Meta

from core.errors import BadInput
from core.simulation import Params, PathText, families, fields, load, parse, record


class Sample(Params):
    ranks: Annotated[int, Meta(ge=1, le=64, description="devices")] = 4
    link_rate: Annotated[float, Meta(gt=0, description="bytes/s")] = 1e9
    times: tuple[Annotated[float, Meta(ge=0)], ...] = (1.0,)
    rule: Literal["keep", "lose"] = "keep"
    stage: Literal[0, 1, 2] = 0
    causal: bool = True
    file: Annotated[PathText, Meta(description="an order-book file")] = ""


@pytest.mark.parametrize(
    ("raw", "name", "value"),
    [
        ({"ranks": "8"}, "ranks", 8),
        ({"ranks": "1e1"}, "ranks", 10),
        ({"ranks": 8.0}, "ranks", 8),
        ({"link_rate": "7e9"}, "link_rate", 7e9),
        ({"link_rate": "1_000"}, "link_rate", 1000.0),
        ({"times": "1,2,1,1"}, "times", (1.0, 2.0, 1.0, 1.0)),
        ({"times": 2}, "times", (2.0,)),
        ({"times": [1, 2]}, "times", (1.0, 2.0)),
        ({"stage": "2"}, "stage", 2),
        ({"stage": 1}, "stage", 1),
        ({"causal": "no"}, "causal", False),
        ({"rule": "lose"}, "rule", "lose"),
    ],
)
def test_values_are_read_from_text_and_from_toml(raw, name, value):
    got = getattr(parse(Sample, raw), name)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"rank": 3}, ["made.rank", "unknown parameter", "did you mean 'ranks'?"]),
        ({"ranks": 0}, ["made.ranks", "found 0", "from 1 to 64", "devices"]),
        ({"ranks": 65}, ["found 65", "from 1 to 64"]),
        ({"ranks": "two"}, ["found two", "a whole number"]),
        ({"ranks": 2.5}, ["found 2.5", "a whole number"]),
        ({"ranks": True}, ["found True", "a whole number"]),
        ({"ranks": "nan"}, ["found nan"]),
        ({"ranks": ""}, ["found ''"]),
        ({"link_rate": 0}, ["found 0", "above 0", "bytes/s"]),
        ({"link_rate": "inf"}, ["found inf"]),
        ({"times": "1,,x"}, ["found 1,,x", "separated by commas"]),
        ({"times": "1,-1"}, ["found 1,-1", "from 0"]),
        ({"rule": "kep"}, ["found kep", "keep, lose"]),
        ({"stage": 3}, ["found 3", "0, 1, 2"]),
        ({"causal": "maybe"}, ["found maybe", "true or false"]),
        ({"file": 3}, ["found 3", "path of a file"]),
    ],
)
def test_a_bad_value_is_refused_in_one_line_that_says_what_is_allowed(raw, words):
    with pytest.raises(BadInput) as refused:
        parse(Sample, raw, "made")
    line = str(refused.value)
    assert "\n" not in line
    for word in words:
        assert word in line


def test_paths_are_taken_beside_the_scenario_file_when_they_exist_there(tmp_path):
    (tmp_path / "day.csv").write_text("x")
    assert parse(Sample, {"file": "day.csv"}, base=tmp_path).file == str(tmp_path / "day.csv")
    assert parse(Sample, {"file": "other.csv"}, base=tmp_path).file == "other.csv"


def test_every_declared_parameter_has_bounds_or_choices_in_words():
    for name in families():
        for field in fields(load(name).params):
            assert field.allowed, (name, field.name)
            assert field.description, f"{name}.{field.name} has no description"


def test_unknown_simulation_names_the_nearest():
    with pytest.raises(BadInput, match="did you mean 'pipeline'"):
        record("pipelin")


def test_a_device_this_machine_lacks_is_refused():
    with pytest.raises(BadInput, match="device"):
        record("pipeline", {}, device="cuda:99")
    with pytest.raises(BadInput, match="device"):
        record("pipeline", {}, device="abacus")
