# SPDX-License-Identifier: Apache-2.0
"""Runs URScript programs: their text becomes Python, which waits where the controller would."""

import math
from collections.abc import Callable
from typing import Any

BLOCKS = ("def ", "while ", "if ")
INNER = ("elif ", "else:")


class ProgramStopped(Exception):
    """The program was stopped from outside."""


def as_python(text: str) -> str:
    """Return a program as Python; checks that each block has its ``end``."""
    lines, depth = [], 0
    for line in text.splitlines():
        code = line.split("#")[0].strip()
        if not code:
            continue
        if code == "end":
            depth -= 1
            assert depth >= 0, "an 'end' without its block"
            continue
        inner = code.startswith(INNER)
        lines.append("  " * (depth - inner) + code)
        if code.startswith(BLOCKS):
            assert code.endswith(":"), code
            depth += 1
    assert depth == 0, "a block without 'end'"
    return "\n".join(lines)


class ScriptArm:
    """Six joints, registers, and the functions of URScript that move or read them.

    ``wait`` is called once for each period of the controller, by all functions that take time.
    """

    def __init__(self, wait: Callable[[], None], period: float = 0.002) -> None:
        self.period = period
        self.q, self.qd = [0.0] * 6, [0.0] * 6
        self.floats: dict[int, float] = {}
        self.integers: dict[int, int] = {}
        self.outputs: dict[int, int] = {24: 0, 25: 0}
        self.targets: list[list[float]] = []
        """Arguments of servoj, one for each period."""
        self.decelerations: list[float] = []
        self._wait = wait

    def run(self, text: str) -> None:
        """Run a program until it ends.

        Raises:
            ProgramStopped: by ``wait``.
        """
        functions: dict[str, Any] = {
            "get_steptime": lambda: self.period,
            "get_actual_joint_positions": lambda: list(self.q),
            "read_input_float_register": lambda i: self.floats.get(i, 0.0),
            "read_input_integer_register": lambda i: self.integers.get(i, 0),
            "write_output_integer_register": self.outputs.__setitem__,
            "norm": lambda v: math.sqrt(sum(x * x for x in v)),
            "sync": self._rest,
            "servoj": self._servoj,
            "stopj": self._stopj,
        }
        space = functions | {"__builtins__": {}}
        exec(as_python(text), space)
        space["motion_nodes"]()

    def _rest(self) -> None:
        self.qd = [0.0] * 6
        self._wait()

    def _servoj(self, q: list[float], t: float, lookahead_time: float, gain: float) -> None:
        assert t == self.period
        assert 0.03 <= lookahead_time <= 0.2
        assert 100 <= gain <= 2000
        self.targets.append(list(q))
        before, self.q = self.q, [a + 0.5 * (b - a) for a, b in zip(self.q, q, strict=True)]
        self.qd = [(b - a) / t for a, b in zip(before, self.q, strict=True)]
        self._wait()

    def _stopj(self, a: float) -> None:
        self.decelerations.append(a)
        while any(self.qd):
            step = a * self.period
            self.qd = [math.copysign(max(abs(v) - step, 0.0), v) for v in self.qd]
            self.q = [q + v * self.period for q, v in zip(self.q, self.qd, strict=True)]
            self._wait()
