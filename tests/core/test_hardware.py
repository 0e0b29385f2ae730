"""Hardware figures against the published ridge points, and times against the formula."""

from __future__ import annotations

import pytest

from core.errors import BadInput
from core.hardware import ACCELERATORS, LINKS, accelerator, link, operation_time


@pytest.mark.parametrize(("name", "ridge"), [("a100_40", 201), ("a100", 153), ("h100", 295), ("h200", 206), ("b200", 281)])
def test_ridge_points_are_the_published_ones(name, ridge):
    assert round(accelerator(name).ridge_point()) == ridge


def test_every_figure_names_its_source_and_its_link_exists():
    for device in ACCELERATORS.values():
        assert device.source
        assert device.link in LINKS
    assert all(k.source for k in LINKS.values())


def test_link_time_is_alpha_per_message_plus_bytes_over_bandwidth():
    nvlink = link("nvlink_a100")
    assert nvlink.time(300e9, messages=3) == pytest.approx(1 + 3 * nvlink.latency)


def test_an_operation_takes_the_longer_of_compute_and_memory():
    h100 = accelerator("h100")
    assert operation_time(989e12, 1, h100) == pytest.approx(1)
    assert operation_time(1, 3.35e12, h100) == pytest.approx(1)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(BadInput, match="did you mean 'h100'"):
        accelerator("h10")
    with pytest.raises(BadInput, match="did you mean 'nvlink_h100'"):
        link("nvlink_h10")
