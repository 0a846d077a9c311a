# SPDX-License-Identifier: Apache-2.0
"""The pictures of the docs: tests that show these scenes take the pictures, or compare with them.

``MOTION_NODES_PICTURES=1 pytest test/browser`` (``make pictures``) retakes them.
"""

import io
import os
from pathlib import Path

import numpy as np
from browser.chromium import PAGE_LIMIT, Image, Page, wait_for
from numpy.typing import NDArray

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
ASKED = "MOTION_NODES_PICTURES"
"""Environment variable: take pictures in place of comparing with them."""
MOST_BYTES = 60_000
QUALITY = 82
CELL = 20
"""[pixels] Pictures are compared by cells of this edge: letters and edges that lie half a pixel
elsewhere do not matter then."""
SEEN = 20.0
"""Two cells differ when one of their channels differs by more than this, of 255."""
MOST_UNLIKE = 0.04
"""Part of the cells in which two pictures of one scene may differ."""


def read_picture(path: Path) -> Image:
    """Return the pixels of a picture, shape (h, w, 3)."""
    from PIL import Image as Pillow

    with Pillow.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def write_picture(pixels: Image, path: Path) -> None:
    """Write a picture as WebP, lossy or lossless, whichever is smaller.

    Raises:
        AssertionError: the file is larger than the limit of the docs.
    """
    from PIL import Image as Pillow

    ways = []
    # Lossless files of drawings with few colours are smaller.
    for options in ({"quality": QUALITY}, {"lossless": True}):
        written = io.BytesIO()
        Pillow.fromarray(pixels).save(written, "WEBP", method=6, **options)
        ways.append(written.getvalue())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(min(ways, key=len))
    size = path.stat().st_size
    assert size <= MOST_BYTES, f"{path.name} has {size} bytes; at most {MOST_BYTES} are wanted"


def unlike(first: Image, second: Image) -> float:
    """Return the fraction of cells in which two pictures differ; 1 if their sizes differ."""
    if first.shape != second.shape:
        return 1.0
    apart = np.abs(_cells(first) - _cells(second)).max(axis=-1)
    return float((apart > SEEN).mean())


def _cells(image: Image) -> NDArray[np.float64]:
    """Return the mean colours of the cells, shape (rows, columns, 3)."""
    rows, columns = image.shape[0] // CELL, image.shape[1] // CELL
    whole = image[: rows * CELL, : columns * CELL].astype(np.float64)
    return whole.reshape(rows, CELL, columns, CELL, 3).mean(axis=(1, 3))


def keep_picture(page: Page, name: str, folder: Path) -> None:
    """Compare a page with its picture in the docs, or take that picture.

    Args:
        page: as to be shown; waits until the scene no longer moves.
        name: of the picture, without suffix.
        folder: for the current picture.

    Raises:
        AssertionError: the page does not come to match; the current picture is in the folder.
    """
    path = FOLDER / f"{name}.webp"
    if os.environ.get(ASKED):
        page.wait_until_drawn()
        write_picture(page.screenshot(folder / f"{name}.png"), path)
        return
    kept = read_picture(path)

    def alike() -> bool:
        return unlike(page.screenshot(folder / f"{name}.png"), kept) <= MOST_UNLIKE

    wait_for(alike, f"the page looks as {path.name} does; see {folder / name}.png", PAGE_LIMIT)
