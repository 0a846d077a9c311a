# SPDX-License-Identifier: Apache-2.0
"""An arm wipes an uneven table with a sponge in its suction cup, pressed with 10 N.

Judged by the contact forces between sponge and table in MuJoCo.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.sim.wiping import STROKE, WipingCell, WipingConfig
from motion_nodes.nodes.demo.wipe import run_wipe


@pytest.mark.long
def test_an_uneven_table_is_wiped_with_the_force_that_was_asked(tmp_path: Path) -> None:
    plot = tmp_path / "wipe.svg"
    assert run_wipe(headless=True, port=0, output=plot) == 0
    assert plot.read_text().count("polyline") >= 6


@pytest.mark.long
def test_a_faster_stroke_over_the_same_bumps_is_worse() -> None:
    """The demo's check can fail."""
    cell = WipingCell(WipingConfig(speed=0.2))
    *_, stroke = cell.wipe()
    assert stroke is not None
    assert stroke.places[-1] > 0.5 * STROKE - 0.01
    assert stroke.within(0.2) < 0.9


@pytest.mark.parametrize("values", [{"force": -1.0}, {"speed": float("nan")}, {"bump": 1.0}])
def test_numbers_out_of_range_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(InvalidConfig):
        WipingConfig(**values)


def test_a_plot_that_cannot_be_written_is_refused_before_the_demo(tmp_path: Path) -> None:
    for file in (tmp_path / "wipe.png", tmp_path / "none" / "wipe.svg"):
        with pytest.raises(InvalidConfig):
            run_wipe(headless=True, port=0, output=file)
