# SPDX-License-Identifier: Apache-2.0
"""Names of colors: of single values, of all pixels of an image, and the typical value of a name."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

RGB: Mapping[str, tuple[float, float, float]] = {
    "red": (0.80, 0.13, 0.13), "orange": (0.95, 0.50, 0.10), "yellow": (0.95, 0.85, 0.15),
    "green": (0.15, 0.62, 0.22), "blue": (0.13, 0.33, 0.80), "purple": (0.55, 0.20, 0.65),
    "brown": (0.42, 0.26, 0.13), "white": (0.95, 0.95, 0.95), "gray": (0.50, 0.50, 0.50),
    "black": (0.06, 0.06, 0.06),
}  # fmt: skip
"""Typical value of each color, red, green and blue from 0 to 1."""
NAMES = tuple(RGB)
_HUES = ((15.0, "red"), (42.0, "orange"), (68.0, "yellow"), (165.0, "green"), (255.0, "blue"),
         (330.0, "purple"), (360.0, "red"))  # fmt: skip
"""Upper end of each range of hues [degrees]."""
_BLACK, _GRAY, _WHITE = 0.18, 0.2, 0.8
"""Value below which a pixel is black; saturation below which it is gray; value above which it is
white then."""
_BROWN = 0.6
"""Value below which orange is brown."""


def color_indices(rgb: ArrayLike) -> NDArray[np.intp]:
    """Return the index in :data:`NAMES` of each color.

    Args:
        rgb: red, green and blue from 0 to 1, shape (..., 3).

    Returns:
        Shape (...).

    Raises:
        InvalidCommand: another shape.

    Source:
        Hue, saturation and value: Smith, Color gamut transform pairs, SIGGRAPH 1978.
    """
    color = np.asarray(rgb, np.float64)
    if color.shape[-1:] != (3,):
        raise InvalidCommand(f"colors have the shape {color.shape}; (..., 3) is needed")
    r, g, b = np.moveaxis(color, -1, 0)
    value, low = color.max(axis=-1), color.min(axis=-1)
    chroma = value - low
    safe = np.where(chroma > 0.0, chroma, 1.0)
    hue = np.select(
        [value == r, value == g], [((g - b) / safe) % 6.0, (b - r) / safe + 2.0],
        (r - g) / safe + 4.0,
    ) * 60.0  # fmt: skip
    saturation = np.where(value > 0.0, chroma / np.where(value > 0.0, value, 1.0), 0.0)
    found = np.array([NAMES.index(name) for _, name in _HUES])[
        np.searchsorted([end for end, _ in _HUES[:-1]], hue, side="right")
    ]
    brown = (found == NAMES.index("orange")) & (value < _BROWN)
    found = np.where(brown, NAMES.index("brown"), found)
    pale = saturation < _GRAY
    found = np.where(pale, NAMES.index("gray"), found)
    found = np.where(pale & (value > _WHITE), NAMES.index("white"), found)
    return np.where(value < _BLACK, NAMES.index("black"), found)


def color_name(rgb: ArrayLike) -> str:
    """Return the name of the color of most of some pixels.

    Args:
        rgb: red, green and blue from 0 to 1, shape (3,) or (n, 3).

    Returns:
        Name; empty without pixels.
    """
    given = np.asarray(rgb, np.float64).reshape(-1, 3)
    if not len(given):
        return ""
    return NAMES[int(np.bincount(color_indices(given), minlength=len(NAMES)).argmax())]


def color_in(name: str) -> Array | None:
    """Return the typical value of the color that a name such as ``red_cube`` contains, shape (3,).

    None if it contains none.
    """
    for word in re.split(r"[^a-z]+", name.lower()):
        if word in RGB:
            return np.array(RGB[word])
    return None
