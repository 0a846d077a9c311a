# SPDX-License-Identifier: Apache-2.0
"""The same problems by vamp, in a process and, if need be, a Python of its own.

Run by ``bench_planning.py`` as ``PYTHON planning_vamp.py PROBLEMS ROUNDS``; prints one JSON object
per problem and round. It needs ``vamp-planner`` and NumPy, nothing of this package.
"""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    """Plan and simplify each problem with vamp's own settings for the Panda."""
    import vamp

    with open(sys.argv[1]) as file:
        families = json.load(file)["problems"]
    module, plan, settings, simplification = vamp.configure_robot_and_planner_with_kwargs(
        "panda", "rrtc"
    )
    # The buffers for a million samples that it otherwise allocates cost a millisecond each time.
    settings.max_samples = 20000
    for number in range(int(sys.argv[2])):
        sampler = module.halton()
        sampler.reset()
        sampler.skip(1000 * number)
        for family, rows in families.items():
            for row in rows:
                if not row["valid"]:
                    continue
                environment = vamp.problem_dict_to_vamp(row)
                begin = time.perf_counter()
                found = plan(row["start"], row["goals"], environment, settings, sampler)
                if not found.solved:
                    print(json.dumps({"family": family, "solved": False}))
                    continue
                short = module.simplify(found.path, environment, simplification, sampler)
                wall = time.perf_counter() - begin
                answer = {
                    "family": family,
                    "solved": True,
                    "search": found.nanoseconds * 1e-9,
                    "wall": wall,
                    "first": found.path.cost(),
                    "length": short.path.cost(),
                }
                print(json.dumps(answer))


if __name__ == "__main__":
    main()
