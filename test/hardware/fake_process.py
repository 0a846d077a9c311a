# SPDX-License-Identifier: Apache-2.0
"""What stands for a driver's controller, as a process of its own.

    PYTHONPATH=test python -m hardware.fake_process DRIVER HOST

Prints a line of JSON with ``device`` and ``settings`` of its driver. For each line on standard
input it prints the targets of the arm's first joint since the last line, each with its time on the
bus, by the system's clock [s]. It ends with its input.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from hardware.standins import start

POLL = 5e-4
"""[s] Time between two looks at the target."""


def main() -> None:
    """Run one until the input ends."""
    standin = start(*sys.argv[1:3])
    found: list[tuple[float, float]] = []

    def watch() -> None:
        last = None
        while True:
            value = standin.target()
            if value is not None and value != last:
                found.append((time.time(), value))
                last = value
            time.sleep(POLL)

    threading.Thread(target=watch, daemon=True).start()
    print(json.dumps({"device": standin.device, "settings": standin.settings}), flush=True)
    for _ in sys.stdin:
        taken, found[:] = list(found), []
        print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    main()
