# SPDX-License-Identifier: Apache-2.0
"""Icons from an archive that is opened once."""

from __future__ import annotations

import zipfile

import viser
from viser import _icons

from motion_nodes.extras.viewer.browser import open_icons


def test_icons_are_the_same_and_the_archive_is_closed_afterwards() -> None:
    names = (viser.Icon.HAND_STOP, viser.Icon.TARGET)
    expected = [_icons.svg_from_icon(name) for name in names]
    _icons.svg_from_icon.cache_clear()
    with open_icons():
        assert [_icons.svg_from_icon(name) for name in names] == expected
    assert _icons.zipfile is zipfile
    _icons.svg_from_icon.cache_clear()
    assert _icons.svg_from_icon(names[0]) == expected[0]
