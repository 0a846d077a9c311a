# SPDX-License-Identifier: Apache-2.0
"""Recovery: how many jammed arms get out with depths that only decrease, and how long it takes.

Run: ``python benchmarks/bench_recovery.py`` (two minutes for 200 states of each kind and robot).

States are random and seeded, drawn by ``test/jammed_states.py``: from a collision-free
configuration towards a random one in collision, until a pair is 0.5 to 20 mm deep; or one or two
joints up to 0.05 rad outside their limits. Depths are checked at 2 mm steps, by generic checks.
Refused are those with a pair deeper than the default allows (30 mm), and those for which no path
was found.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
from harness import TEST, Cell, Report, Spread, arguments, progress

from motion_nodes.model.loader import load_robot
from motion_nodes.planning.recovery import Recovery, recover
from motion_nodes.scene.checker import CollisionChecker

sys.path.append(TEST)
from jammed_states import KINDS, jam_checker, jammed

ROBOTS = ("franka", "ur10e")
TOLERANCE = 1.1e-5  # [m]


def increases(checker: CollisionChecker, path: np.ndarray) -> bool:
    """Return whether any pair gets deeper on the way, or is in collision at its end."""
    least: dict[tuple[str, str], float] | None = None
    for a, b in itertools.pairwise(path):
        count = int(np.ceil(np.linalg.norm((b - a) / checker.resolution) * 10.0)) + 1
        for share in np.linspace(0.0, 1.0, count + 1):
            found = {c.pair: c.depth for c in checker.explain(a + share * (b - a))}
            if least is not None and any(
                depth > least.get(pair, 0.0) + TOLERANCE for pair, depth in found.items()
            ):
                return True
            known = found if least is None else least
            least = {pair: min(depth, known.get(pair, 0.0)) for pair, depth in found.items()}
    return bool(least)


def row(robot: str, kind: str, states: int) -> list[Cell]:
    """Return the table's row about the jammed states of one kind."""
    checker = jam_checker(load_robot(robot), kind)
    rng = np.random.default_rng(1)
    results: list[Recovery] = []
    deeper = 0
    for _ in range(states):
        out = recover(checker, jammed(checker, kind, rng))
        results.append(out)
        deeper += out.success and increases(checker, out.path)
    done = [out for out in results if out.success]
    times = Spread.of(1e3 * out.time for out in results)
    moved = Spread.of(float(np.abs(out.path[-1] - out.path[0]).max()) for out in done)
    too_deep = sum("too deep" in out.reason for out in results)
    return [
        f"{robot}, {kind}", states, len(done), too_deep, states - len(done) - too_deep, deeper,
        times.p50, times.maximum, moved.p50, moved.maximum,
    ]  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--states", type=int, default=200)
    options = parser.parse_args()
    report = Report("Recovery from shallow collisions and exceeded limits")
    rows = []
    for robot, kind in itertools.product(ROBOTS, KINDS):
        progress(f"{robot}, {kind}")
        rows.append(row(robot, kind, options.states))
    report.table(
        "Jammed states",
        ["", "states", "recovered", "refused: too deep", "refused: no path", "got deeper",
         "median [ms]", "max [ms]", "median motion [rad]", "max [rad]"],
        rows,
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
