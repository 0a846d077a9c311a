# SPDX-License-Identifier: Apache-2.0
"""Runs a node or the container like the suite, and records the times of its start.

``python harness/marked_node.py EXECUTABLE [ARGUMENTS]``. Times are recorded inside, as another
process sees a new node only after discovery, and as stamps of references are deadlines, not start
times of ticks. Prints ``@@{...}`` once all nodes are active: milliseconds since BENCH_BEGAN_NS. If
BENCH_TICKS names a file, the start times of ticks [ns] are written to it at the end.
"""

from __future__ import annotations

import time

PYTHON_UP = time.monotonic_ns()

import json  # noqa: E402 -- after the start time
import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402


def main() -> None:
    """Hook the base class of the nodes, then run the executable."""
    sys.path.pop(0)  # the node must not import this folder's modules
    executable = sys.argv.pop(1)
    from motion_nodes.nodes.__main__ import run
    from motion_nodes.ros.node import MotionNode

    began = int(os.environ["BENCH_BEGAN_NS"])
    nodes = sys.argv[sys.argv.index("--nodes") + 1] if executable == "container" else "[1]"
    expected = len(json.loads(nodes))
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
    tick, leave, ticks, file = MotionNode._tick, os._exit, [], os.environ.get("BENCH_TICKS")

    def ended(code: int) -> None:  # nodes exit by os._exit
        Path(file or "").write_text(json.dumps(ticks))
        leave(code)

    if file:
        MotionNode._tick = lambda self: (ticks.append(time.monotonic_ns()), tick(self))
        os._exit = ended
    run(executable)


if __name__ == "__main__":
    main()
