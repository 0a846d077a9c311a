# SPDX-License-Identifier: Apache-2.0
"""Reads viser's icons from an archive that is opened once."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

from viser import _icons


@contextmanager
def open_icons() -> Iterator[None]:
    """Keep the archive of icons open meanwhile.

    viser opens it for each icon, which takes about 30 ms, as it contains some 5000.
    """
    with zipfile.ZipFile(_icons.ICONS_DIR / "tabler-icons.zip") as archive:
        kept = SimpleNamespace(ZipFile=lambda _file: nullcontext(archive))
        _icons.zipfile = kept  # type: ignore[assignment]
        try:
            yield
        finally:
            _icons.zipfile = zipfile
