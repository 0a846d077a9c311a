# SPDX-License-Identifier: Apache-2.0
"""Compile the exact collision checks, in a separate process.

This takes some seconds once per machine and holds Python's GIL, which would stall a control loop in
the same process.

``python -m motion_nodes.core.scene.exact_warm_up [PARENT]`` is that process; it ends with the
process whose id is PARENT.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np

from motion_nodes.kernels.parent_death import die_with

_MARK = "exact-checks"
"""Marker of compiled kernels in the cache."""


def needs_compilation() -> bool:
    """Return whether the exact checks still have to be compiled on this machine."""
    from motion_nodes.kernels import jit

    return jit.is_compiled(_MARK) is False


def compile_exact_checks() -> None:
    """Compile the exact checks in another process, unless already done on this machine."""
    if needs_compilation():
        command = [sys.executable, "-m", "motion_nodes.core.scene.exact_warm_up", str(os.getpid())]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=False)


def after_compilation(action: Callable[[], None]) -> threading.Event:
    """Call a function that needs the exact checks, once they are compiled.

    Args:
        action: called at once if they are, else in a thread after another process has compiled
            them.

    Returns:
        An event that is set when they are compiled, before ``action`` is called.
    """
    compiled = threading.Event()
    if not needs_compilation():
        compiled.set()
        action()
        return compiled

    def wait() -> None:
        try:
            compile_exact_checks()
        finally:
            compiled.set()
        action()

    threading.Thread(target=wait, name="exact-checks", daemon=True).start()
    return compiled


def main() -> None:
    """Compile by running each kernel once on empty data."""
    from motion_nodes.core.scene.convex_pieces import boxes_around
    from motion_nodes.kernels import jit
    from motion_nodes.kernels.collision.path_sweep import separations, sweep
    from motion_nodes.kernels.collision.piece_arrays import example
    from motion_nodes.kernels.memory_layout import table_of

    for parent in sys.argv[1:]:
        die_with(int(parent))
    if os.name == "posix":
        os.nice(5)
    nothing = example()
    still = np.zeros((1, 0))
    table_work = nothing.work._replace(
        q=np.zeros((2, 0)), ends=np.zeros((1, 2)), lists=np.zeros((1, 2), np.int32)
    )
    kept = nothing._replace(work=table_work)
    table = table_of(kept)
    sweep(table, still, np.zeros(1), still, 0, 0.0, np.zeros((1, 3), np.int32), np.zeros(4))
    pieces, none = nothing.bodies.pieces, np.empty((0, 2), np.int32)
    work, out = np.zeros((6, 3)), np.empty((0, 2))
    separations(pieces, none, work, out)
    boxes_around(pieces)
    jit.mark_compiled(_MARK)


if __name__ == "__main__":
    main()
