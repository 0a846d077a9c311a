# SPDX-License-Identifier: Apache-2.0
"""``python -m motion_nodes.nodes EXECUTABLE [--ros-args ...]`` runs one node, or the container."""

from __future__ import annotations

import sys

from motion_nodes import kernels
from motion_nodes.kernels.parent_death import die_with_parent_if_set
from motion_nodes.ros import signals


def run(executable: str) -> None:
    """Run an executable; signals are handled from the start, before slow imports."""
    signals.stop_quietly()
    die_with_parent_if_set()
    kernels.uses_blas = False
    if executable == "container":
        from motion_nodes.nodes.container import main

        main()
        return
    from motion_nodes.errors import MotionError
    from motion_nodes.nodes.registry import node_class
    from motion_nodes.ros.process_reports import FAILED, report_state

    try:
        node = node_class(executable)
    except MotionError as error:
        print(error, file=sys.stderr)
        report_state(FAILED, text=str(error))
        sys.exit(2)
    except Exception as error:
        report_state(FAILED, text=f"{type(error).__name__}: {error}")
        raise
    from motion_nodes.ros.run import run_node

    run_node(node)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print("usage: python -m motion_nodes.nodes EXECUTABLE [--ros-args ...]", file=sys.stderr)
        sys.exit(2)
    run(sys.argv.pop(1))
