# SPDX-License-Identifier: Apache-2.0
"""The problems of bench_planning.py, solved by vamp; needs ``vamp-planner`` and NumPy.

``PYTHON planning_vamp.py PROBLEMS STEP ROUNDS`` prints one JSON object per problem and round.
"""

from __future__ import annotations

import json
import sys
import time

SEGMENT = 50_021  # Samples between the segments of the random sequence, one segment per seed


def main() -> None:
    """Plan and simplify each problem with vamp's own settings for the Panda."""
    import vamp

    with open(sys.argv[1]) as file:
        families = json.load(file)["problems"]
    step, rounds = int(sys.argv[2]), int(sys.argv[3])
    module, plan, settings, simplification = vamp.configure_robot_and_planner_with_kwargs(
        "panda", "rrtc"
    )
    # Its default buffers for a million samples cost a millisecond per call.
    settings.max_samples = 20000
    # Each seed is a separate segment of a pseudorandom sequence. A Halton sequence with constant
    # skips gave the same path for most problems, for all seeds.
    sampler = module.xorshift()
    valid = [(family, row) for family, rows in families.items() for row in rows if row["valid"]]
    for number in range(rounds):
        for index, (family, row) in enumerate(valid[::step]):
            sampler.reset()
            sampler.skip(SEGMENT * number)
            environment = vamp.problem_dict_to_vamp(row)
            begin = time.perf_counter()
            found = plan(row["start"], row["goals"], environment, settings, sampler)
            answer = {"family": family, "problem": index, "solved": bool(found.solved)}
            if found.solved:
                short = module.simplify(found.path, environment, simplification, sampler)
                answer |= {"wall": time.perf_counter() - begin,
                           "search": found.nanoseconds * 1e-9,
                           "first": found.path.cost(), "length": short.path.cost()}  # fmt: skip
            print(json.dumps(answer))


if __name__ == "__main__":
    main()
