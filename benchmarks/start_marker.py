# SPDX-License-Identifier: Apache-2.0
"""Runs a node or the container as the suite does, and prints when it got how far.

``python benchmarks/start_marker.py EXECUTABLE [ARGUMENTS]``. Measured inside, because another
process learns of a new node only after discovery, which would be most of what it saw. Prints one
line ``@@{...}`` once all nodes are active: milliseconds since ``BENCH_BEGAN_NS``.
"""

from __future__ import annotations

import time

PYTHON_UP = time.monotonic_ns()

import json  # noqa: E402 -- the line above is what is measured
import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402


def main() -> None:
    """Hook the base of the nodes, then run what was asked for."""
    executable = sys.argv.pop(1)
    from motion_nodes.nodes.__main__ import run
    from motion_nodes.ros.node import MotionNode

    began = int(os.environ["BENCH_BEGAN_NS"])
    expected = 1
    if executable == "container":
        expected = len(json.loads(sys.argv[sys.argv.index("--nodes") + 1]))
    marks = {"python": (PYTHON_UP - began) * 1e-6}
    active: list[Any] = []

    def after(name: str, mark: str) -> None:
        original: Callable[..., Any] = getattr(MotionNode, name)

        def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
            if name == "__init__":
                marks.setdefault("imported", (time.monotonic_ns() - began) * 1e-6)
            result = original(self, *args, **kwargs)
            marks[mark] = (time.monotonic_ns() - began) * 1e-6
            if mark == "active" and self.active:
                active.append(self)
                if len(active) == expected:
                    print(f"@@{json.dumps(marks)}", flush=True)
            return result

        setattr(MotionNode, name, hooked)

    after("__init__", "created")
    after("on_configure", "configured")
    after("on_activate", "active")
    run(executable)


if __name__ == "__main__":
    main()
