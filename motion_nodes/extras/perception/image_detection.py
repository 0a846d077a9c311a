# SPDX-License-Identifier: Apache-2.0
"""Objects in color images by description: one interface, a detector by colors and shapes behind it.

``detect(image, text)`` returns the regions of an image that a text describes. Other packages
register detectors, such as open-vocabulary models, by an entry point in the group
``motion_nodes.image_detectors``: a callable without arguments that returns an
:class:`ImageDetector` (docs/object_detection.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from motion_nodes.core.robot.colors import NAMES, color_indices
from motion_nodes.errors import InvalidCommand, InvalidConfig, did_you_mean

GROUP = "motion_nodes.image_detectors"
COLORS = "colors"
"""Name of the detector by colors and shapes."""
MIN_PIXELS = 12
"""Smallest region."""
MAX_SHARE = 0.5
"""Largest region, as a share of the image; larger ones are the background."""
MAX_TEXT = 1000
"""Max number of characters of a description."""
_ROUND = 0.055
"""Max standard deviation of the radius along the border of a round region, as a share of it."""
_CHROMATIC = frozenset(NAMES) - {"white", "gray", "black"}


@dataclass(frozen=True, eq=False)
class ImageRegion:
    """A part of an image that a text describes."""

    mask: NDArray[np.bool_]
    """Its pixels, shape (h, w)."""
    label: str
    """What it is, such as the text, or the color that was found."""
    score: float
    """Confidence from 0 to 1."""


class ImageDetector(Protocol):
    """Finds objects in a color image by a text."""

    def detect(self, image: NDArray[np.uint8], text: str) -> Sequence[ImageRegion]:
        """Return the regions that a text describes, the best one first.

        Args:
            image: red, green, blue, shape (h, w, 3).
            text: description, such as ``the left red cup``.

        Raises:
            InvalidCommand: the image has another layout, or the text is empty or too long.
        """


class ColorShapeDetector:
    """Regions of one color, with a shape, a relative size and a position in the image.

    Knows the colors of :mod:`motion_nodes.core.robot.colors`; ``ball``, ``sphere``, ``round`` and
    their opposites ``cube``, ``box``, ``block``; ``small``, ``big``; ``left``, ``right``, ``top``,
    ``bottom``. Other words are ignored. Without a color, regions of all colors but white, gray and
    black are considered.
    """

    def detect(self, image: NDArray[np.uint8], text: str) -> Sequence[ImageRegion]:
        """Return the regions; see :class:`ImageDetector`."""
        pixels = _checked_image(image)
        if not isinstance(text, str) or not 0 < len(text.strip()) <= MAX_TEXT:
            raise InvalidCommand(f"a description has 1 to {MAX_TEXT} characters")
        words = re.findall(r"[a-z]+", text.lower())
        colors = [word for word in words if word in NAMES]
        indices = color_indices(pixels.astype(np.float64) / 255.0)
        found = [
            region
            for name in (colors or sorted(_CHROMATIC))
            for region in _regions(indices == NAMES.index(name), name)
        ]
        if {"ball", "sphere", "round"} & set(words):
            found = [each for each in found if _is_round(each.mask)]
        elif {"cube", "box", "block", "square"} & set(words):
            found = [each for each in found if not _is_round(each.mask)]
        return _ordered(found, words)


def image_detector(name: str = COLORS) -> ImageDetector:
    """Return a detector.

    Args:
        name: ``colors``, or the name that another package registered.

    Raises:
        InvalidConfig: there is none of this name, or it cannot be loaded.
    """
    if name == COLORS:
        return ColorShapeDetector()
    registered: dict[str, EntryPoint] = {e.name: e for e in entry_points(group=GROUP)}
    if name not in registered:
        known = (COLORS, *sorted(registered))
        raise InvalidConfig(
            f"image detector '{name}' is not known.{did_you_mean(name, known)}",
            field="image_detector",
        )
    try:
        made: Any = registered[name].load()()
    except Exception as error:
        raise InvalidConfig(
            f"image detector '{name}' cannot be loaded: {error}", field="image_detector"
        ) from error
    if not callable(getattr(made, "detect", None)):
        raise InvalidConfig(
            f"image detector '{name}' has no method detect(image, text)", field="image_detector"
        )
    detector: ImageDetector = made
    return detector


def _checked_image(image: ArrayLike) -> NDArray[np.uint8]:
    """Return a color image, shape (h, w, 3); refuse other shapes and types."""
    pixels = np.asarray(image)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8 or not pixels.size:
        raise InvalidCommand(
            f"the image has the shape {pixels.shape} and the type {pixels.dtype}; (h, w, 3) and "
            "uint8 are needed"
        )
    return pixels


def checked_regions(
    found: Sequence[Any], shape: tuple[int, ...], name: str
) -> tuple[ImageRegion, ...]:
    """Return the regions that a detector of another package found.

    Args:
        found: result of its ``detect``.
        shape: height and width of the image.
        name: of the detector, for the error.

    Raises:
        InvalidCommand: no regions with a mask of that shape and a score from 0 to 1.
    """
    regions: list[ImageRegion] = []
    for each in found:
        mask, score = np.asarray(getattr(each, "mask", None)), getattr(each, "score", np.nan)
        if mask.shape != tuple(shape[:2]) or mask.dtype != np.bool_ or not 0.0 <= score <= 1.0:
            raise InvalidCommand(
                f"image detector '{name}' returned a mask of the shape {mask.shape} and the score "
                f"{score}; {tuple(shape[:2])}, bool, and 0 to 1 are needed"
            )
        regions.append(ImageRegion(mask, str(getattr(each, "label", "")), float(score)))
    return tuple(regions)


def _regions(mask: NDArray[np.bool_], name: str) -> list[ImageRegion]:
    labels, count = ndimage.label(mask)
    sizes = np.bincount(labels.ravel(), minlength=count + 1)
    kept = [k for k in range(1, count + 1) if MIN_PIXELS <= sizes[k] <= MAX_SHARE * mask.size]
    return [ImageRegion(labels == k, name, 1.0 - 1.0 / float(sizes[k])) for k in kept]


def _is_round(mask: NDArray[np.bool_]) -> bool:
    """Return whether the border of a region has nearly one distance from its centroid."""
    filled = ndimage.binary_fill_holes(mask)
    border = filled & ~ndimage.binary_erosion(filled)
    rows, columns = np.nonzero(border)
    center = np.array(np.nonzero(filled)).mean(axis=1)
    radius = np.hypot(rows - center[0], columns - center[1])
    # Half a pixel is the resolution of the border.
    spread = max(0.0, float(radius.std()) - 0.3)
    return spread <= _ROUND * float(radius.mean())


def _ordered(found: list[ImageRegion], words: Sequence[str]) -> list[ImageRegion]:
    """Return regions in the order of a position or a size; by their size without one."""
    axes = {"left": (1, 1.0), "right": (1, -1.0), "top": (0, 1.0), "bottom": (0, -1.0)}
    for word, (axis, sign) in axes.items():
        if word in words:
            return sorted(found, key=lambda r: sign * float(np.nonzero(r.mask)[axis].mean()))
    small = bool({"small", "smaller", "smallest", "little"} & set(words))
    return sorted(found, key=lambda r: int(r.mask.sum()) if small else -int(r.mask.sum()))
