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

    Args:
        names: modules below ``motion_nodes.kernels``, such as ``rmp.rmp_codegen``. A zipped or
            frozen install has no sources; there only the package's version is hashed.

    Raises:
        FileNotFoundError: names the missing module.
    """
    if not Path(__file__).is_file():
        return ""
    sha = hashlib.sha256()
    for name in names:
        sha.update(ROOM.joinpath(*name.split(".")).with_suffix(".py").read_bytes())
    return sha.hexdigest()
