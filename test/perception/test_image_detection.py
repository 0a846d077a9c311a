# SPDX-License-Identifier: Apache-2.0
"""Objects in color images by description, and detectors of other packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import numpy as np
import pytest

from motion_nodes.core.robot.colors import NAMES, RGB, color_in, color_name
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.perception import image_detection
from motion_nodes.extras.perception.image_detection import (
    ColorShapeDetector,
    ImageRegion,
    checked_regions,
    image_detector,
)


def picture(*items: tuple[str, str, int, int, int]) -> np.ndarray:
    """Return an image with colored squares and disks: color, shape, row, column, half size."""
    image = np.full((120, 160, 3), 210, np.uint8)
    rows, columns = np.mgrid[:120, :160]
    for color, shape, row, column, half in items:
        dr, dc = rows - row, columns - column
        inside = (
            np.hypot(dr, dc) <= half if shape == "disk" else np.maximum(abs(dr), abs(dc)) <= half
        )
        image[inside] = np.round(255 * np.array(RGB[color]))
    return image


SCENE = picture(
    ("red", "square", 60, 30, 8), ("red", "disk", 40, 120, 10), ("blue", "square", 90, 80, 12),
    ("blue", "square", 20, 70, 6),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("red cube", (60, 30)), ("the red ball", (40, 120)), ("left red thing", (60, 30)),
        ("right red thing", (40, 120)), ("big blue box", (90, 80)), ("small blue box", (20, 70)),
        ("the top blue block", (20, 70)), ("a round object", (40, 120)),
    ],
)  # fmt: skip
def test_the_best_region_is_the_described_one(text: str, at: tuple[int, int]) -> None:
    best = ColorShapeDetector().detect(SCENE, text)[0]
    assert best.mask[at]
    assert np.array(np.nonzero(best.mask)).mean(axis=1) == pytest.approx(at, abs=1.0)
    assert 0.0 < best.score <= 1.0


def test_what_is_not_there_is_not_found() -> None:
    assert not ColorShapeDetector().detect(SCENE, "green cup")
    assert not ColorShapeDetector().detect(picture(), "red cube")


@pytest.mark.parametrize(
    "image", [np.zeros((10, 10)), np.zeros((10, 10, 4), np.uint8), np.zeros((10, 10, 3)), None]
)
def test_invalid_images_are_refused(image: object) -> None:
    with pytest.raises(InvalidCommand):
        ColorShapeDetector().detect(image, "red cube")


@pytest.mark.parametrize("text", ["", "  ", "x" * 1001])
def test_invalid_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidCommand):
        ColorShapeDetector().detect(SCENE, text)


@pytest.mark.parametrize("name", NAMES)
def test_colors_keep_their_name_in_light_and_shadow(name: str) -> None:
    low, high = (0.85, 1.05) if name in ("white", "brown", "orange", "gray") else (0.6, 1.1)
    for light in np.linspace(low, high, 5):
        assert color_name(np.clip(light * np.array(RGB[name]), 0.0, 1.0)) == name
    assert color_in(f"{name}_cube") == pytest.approx(RGB[name])


def test_names_without_a_color_have_none() -> None:
    assert color_in("cube") is None
    assert color_in("bored_cube") is None
    assert color_name(np.empty((0, 3))) == ""


def _register(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = EntryPoint("mine", value, image_detection.GROUP)
    monkeypatch.setattr(image_detection, "entry_points", lambda group: (entry,))


def test_detectors_of_other_packages_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    _register(monkeypatch, "motion_nodes.extras.perception.image_detection:ColorShapeDetector")
    assert isinstance(image_detector("mine"), ColorShapeDetector)
    with pytest.raises(InvalidConfig, match="colors"):
        image_detector("color")


@pytest.mark.parametrize("value", ["no.such.module:x", "motion_nodes.errors:MotionError"])
def test_detectors_that_cannot_be_used_are_named(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    _register(monkeypatch, value)
    with pytest.raises(InvalidConfig, match="mine"):
        image_detector("mine")


def test_results_of_other_detectors_are_checked() -> None:
    good = ImageRegion(np.zeros((4, 5), bool), "cup", 0.5)
    assert checked_regions([good], (4, 5), "mine")[0].label == "cup"
    for bad in (
        ImageRegion(np.zeros((5, 4), bool), "cup", 0.5),
        ImageRegion(np.zeros((4, 5)), "cup", 0.5),
        ImageRegion(np.zeros((4, 5), bool), "cup", float("nan")),
        object(),
    ):
        with pytest.raises(InvalidCommand, match="mine"):
            checked_regions([bad], (4, 5), "mine")
