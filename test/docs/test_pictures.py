# SPDX-License-Identifier: Apache-2.0
"""Pictures of the docs: presence, size, content, and the measure that compares them."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL", reason="no Pillow")

from browser.pictures import FOLDER, MOST_BYTES, MOST_UNLIKE, read_picture, unlike

ROOT = Path(__file__).parents[2]
PICTURES = sorted(FOLDER.iterdir())
_SHOWN = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def shown(page: Path) -> list[tuple[str, Path]]:
    """Return alternative text and file of each local picture of a page."""
    found = _SHOWN.findall(page.read_text(encoding="utf-8"))
    return [(words, (page.parent / link).resolve()) for words, link in found if ":" not in link]


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_small_and_shows_something(path):
    assert path.suffix == ".webp"
    assert path.stat().st_size <= MOST_BYTES
    pixels = read_picture(path)
    assert min(pixels.shape[:2]) >= 300
    assert pixels.std() > 10.0, "it is blank"
    coarse = pixels.reshape(-1, 3) // 16 @ np.array([256, 16, 1])
    assert len(np.unique(coarse)) > 50, "it shows hardly anything"


def test_every_tutorial_shows_what_it_speaks_of():
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md")):
        pictures = shown(page)
        assert pictures, f"{page.name} has no picture"
        for words, path in pictures:
            assert path in PICTURES, f"{page.name}: {path.name}"
            assert len(words.split()) >= 2, f"{page.name}: {path.name} needs a text"


def test_no_two_pictures_pass_for_one_another():
    """The measure that detects changes of a page distinguishes any two pictures."""
    images = {path.name: read_picture(path) for path in PICTURES}
    for first, second in itertools.combinations(images, 2):
        if images[first].shape == images[second].shape:
            assert unlike(images[first], images[second]) > 2 * MOST_UNLIKE, (first, second)
    image = images[PICTURES[0].name]
    assert unlike(image, image) == 0.0
    noise = np.random.default_rng(3).normal(0.0, 20.0, image.shape)
    grainy = np.clip(image + noise, 0, 255).astype(np.uint8)
    assert unlike(image, grainy) < MOST_UNLIKE
