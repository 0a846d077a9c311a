# SPDX-License-Identifier: Apache-2.0
"""A fake controller as a process of its own, which ``FakeProcess`` starts.

It prints a line of JSON with ``device`` and ``settings`` of its driver, and answers each line on
standard input with a line: ``targets`` with those of the arm's first joint since the last time,
each with its time on the bus by the system's clock [s]; ``fail`` and ``mend`` cause a fault and
remove its cause. It exits at the end of its input.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from hardware.fake_controllers import FakeController, start

POLL = 5e-4
"""Period at which the target is polled [s]."""


class FakeProcess:
    """The process, seen from a test."""

    def __init__(self, driver: str, host: str) -> None:
        """Start it.

        Args:
            driver: key of ``fake_controllers.ROBOTS``.
            host: loopback address, for controllers on a network.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hardware.fake_process", driver, host],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=Path(__file__).parents[1],
        )  # fmt: skip
        self.controller = FakeController(**self._answer())

    def targets(self) -> list[tuple[float, float]]:
        """Return times [s] and targets [rad] since the last call."""
        self._say("targets")
        return [(time, value) for time, value in self._answer()]

    def fail(self) -> None:
        """Cause a fault."""
        self._say("fail")
        self._answer()

    def mend(self) -> None:
        """Remove the cause of the fault."""
        self._say("mend")
        self._answer()

    def close(self) -> None:
        """Switch it off."""
        self._process.kill()
        self._process.communicate()

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def main() -> None:
    """Run one until the input ends."""
    controller = start(*sys.argv[1:3])
    found: list[tuple[float, float]] = []

    def watch() -> None:
        last = None
        while True:
            value = controller.target()
            if value is not None and value != last:
                found.append((time.time(), value))
                last = value
            time.sleep(POLL)

    def targets() -> list[tuple[float, float]]:
        taken, found[:] = list(found), []
        return taken

    threading.Thread(target=watch, daemon=True).start()
    print(json.dumps({"device": controller.device, "settings": controller.settings}), flush=True)
    answers = {"targets": targets, "fail": controller.fail, "mend": controller.mend}
    for line in sys.stdin:
        print(json.dumps(answers[line.strip()]()), flush=True)


if __name__ == "__main__":
    main()
