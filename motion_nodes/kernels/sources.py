# SPDX-License-Identifier: Apache-2.0
"""What generated code depends on besides its robot: the files that generate it."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

ROOM = Path(__file__).parent


@functools.cache
def source_digest(names: tuple[str, ...]) -> str:
    """Return a hash of modules of this package, as hexadecimal digits.

    Args:
        names: of modules below ``motion_nodes.kernels``, such as ``rmp.rmp_codegen``. In a zipped
            or frozen install, which has no sources, the package's version alone has to tell.

    Raises:
        FileNotFoundError: names the module that there is not.
    """
    if not Path(__file__).is_file():
        return ""
    sha = hashlib.sha256()
    for name in names:
        sha.update(ROOM.joinpath(*name.split(".")).with_suffix(".py").read_bytes())
    return sha.hexdigest()
