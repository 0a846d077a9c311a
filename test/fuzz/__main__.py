# SPDX-License-Identifier: Apache-2.0
"""``make fuzz``: one campaign from the command line."""

import argparse
import json
import random
import signal
import sys
import tempfile
from pathlib import Path

from own_domain import ENVIRONMENT
from ros_processes import Suite

from fuzz.campaign import PHASES, Campaign
from fuzz.robot_words import robot_words

ROBOTS = "arm:=franka,base:=jetbot@3,0,0,car:=leatherback@6,0,0"


def main() -> int:
    """Run a campaign, print its findings, and return the exit code."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="chance; none: a new one")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=300.0, help="[Hz]")
    parser.add_argument("--wait", type=float, default=1.0, help="longest wait of a probe [s]")
    parser.add_argument("--robots", default=ROBOTS)
    parser.add_argument("--backend", default="mujoco", choices=("mujoco", "mock"))
    parser.add_argument("--phases", default=",".join(PHASES))
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="for failures")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    robots = robot_words(options.robots)

    import rclpy
    from rclpy.signals import SignalHandlerOptions

    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    folder = Path(tempfile.mkdtemp(prefix="motion_nodes-fuzz-"))
    suite = Suite(folder, ENVIRONMENT)
    campaign = Campaign(
        suite, robots, seed=seed, messages=options.messages, rate=options.rate,
        longest_wait=options.wait, backend=options.backend, phases=options.phases.split(","),
        say=lambda text: print(text, flush=True),
    )  # fmt: skip
    print(f"seed {seed}, {options.messages} messages, {', '.join(robots)}", flush=True)
    # An interrupted campaign still reports its findings.
    signal.signal(signal.SIGINT, lambda *_: campaign.stop())
    try:
        findings = campaign.run()
    finally:
        suite.close()
    print(json.dumps(findings.figures, indent=2))
    if not findings.failures:
        print("nothing was found")
        return 0
    kept = options.keep / str(seed)
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "failures.txt").write_text("\n".join(findings.failures) + "\n")
    (kept / "newest_messages.txt").write_text("\n".join(campaign.journal) + "\n")
    for i, process in enumerate(suite.processes):
        (kept / f"process_{i}.log").write_text(process.output)
    for failure in findings.failures:
        print(f"FOUND  {failure}")
    print(f"logs are in {kept}; again: make fuzz SEED={seed} MESSAGES={options.messages}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
