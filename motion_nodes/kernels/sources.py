# SPDX-License-Identifier: Apache-2.0
"""Hashes of the source files that generate code."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

ROOM = Path(__file__).parent


@functools.cache
def source_digest(names: tuple[str, ...]) -> str:
    """Return a hash of modules of this package, as hexadecimal digits.

    Empty in a zipped or frozen installation, which has no sources.

    Args:
        names: modules below ``motion_nodes.kernels``, such as ``rmp.rmp_codegen``.

    Raises:
        FileNotFoundError: there is no module of this name.
    """
    if not Path(__file__).is_file():
        return ""
    sha = hashlib.sha256()
    for name in names:
        sha.update(ROOM.joinpath(*name.split(".")).with_suffix(".py").read_bytes())
    return sha.hexdigest()
