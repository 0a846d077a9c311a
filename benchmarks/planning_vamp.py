# SPDX-License-Identifier: Apache-2.0
"""The same problems by vamp, in a process and, if need be, a Python of its own.

Run by ``bench_planning.py`` as ``PYTHON planning_vamp.py PROBLEMS ROUNDS``; prints one JSON object
per problem and round. With a third number, STEP, each so many-th problem is planned by AORRTC, once
for each of some numbers of iterations: what it had found after which time. It needs
``vamp-planner`` and NumPy, nothing of this package.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

ITERATIONS = (50, 150, 500, 1500, 5000, 15000, 50000)
"""Of AORRTC."""
SEGMENT = 50_021
"""Samples between the segments of the random sequence that seeds stand for."""
LONGEST = 0.2
"""After a search of this duration no longer one is made [s]."""


def main() -> None:
    """Plan all problems."""
    with open(sys.argv[1]) as file:
        families = json.load(file)["problems"]
    if len(sys.argv) > 3:
        better_and_better(families, int(sys.argv[3]))
    else:
        first_paths(families, int(sys.argv[2]))


def better_and_better(families: dict[str, Any], step: int) -> None:
    """Plan some of the problems with AORRTC, vamp's asymptotically optimal planner."""
    import vamp

    module, plan, settings, _ = vamp.configure_robot_and_planner_with_kwargs("panda", "aorrtc")
    # Memory of that size is made anew for each search inside, outside of its clock.
    settings.max_samples = settings.rrtc.max_samples = 50000
    sampler = module.halton()
    valid = [(family, row) for family, rows in families.items() for row in rows if row["valid"]]
    for family, row in valid[::step]:
        environment = vamp.problem_dict_to_vamp(row)
        seen = []
        for iterations in ITERATIONS:
            settings.max_iterations = iterations
            sampler.reset()
            found = plan(row["start"], row["goals"], environment, settings, sampler)
            if found.solved:
                seen.append((found.nanoseconds * 1e-9, found.path.cost()))
            if found.nanoseconds > LONGEST * 1e9:
                break
        print(json.dumps({"family": family, "seen": seen}))


def first_paths(families: dict[str, Any], rounds: int) -> None:
    """Plan and simplify each problem with vamp's own settings for the Panda."""
    import vamp

    module, plan, settings, simplification = vamp.configure_robot_and_planner_with_kwargs(
        "panda", "rrtc"
    )
    # The buffers for a million samples that it otherwise allocates cost a millisecond each time.
    settings.max_samples = 20000
    # Each seed is a segment of its own of a pseudorandom sequence. A Halton sequence, skipped by a
    # constant, led to one and the same path for most problems, whatever the seed.
    sampler = module.xorshift()
    valid = [(family, row) for family, rows in families.items() for row in rows if row["valid"]]
    for number in range(rounds):
        for index, (family, row) in enumerate(valid):
            sampler.reset()
            sampler.skip(SEGMENT * number)
            environment = vamp.problem_dict_to_vamp(row)
            begin = time.perf_counter()
            found = plan(row["start"], row["goals"], environment, settings, sampler)
            if not found.solved:
                print(json.dumps({"family": family, "solved": False, "problem": index}))
                continue
            short = module.simplify(found.path, environment, simplification, sampler)
            wall = time.perf_counter() - begin
            answer = {
                "family": family,
                "problem": index,
                "solved": True,
                "search": found.nanoseconds * 1e-9,
                "wall": wall,
                "first": found.path.cost(),
                "length": short.path.cost(),
            }
            print(json.dumps(answer))


if __name__ == "__main__":
    main()
