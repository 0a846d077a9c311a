# SPDX-License-Identifier: Apache-2.0
"""``make soak``: valid random work for some minutes, from the command line."""

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

from own_domain import ENVIRONMENT

ROBOTS = ["arm:=franka", "base:=jetbot@3,0,0"]
JUDGED = 20.0
"""[min] Shorter runs show drift without judging it: what fills up at first passes for drift."""


def main() -> int:
    """Run a soak, print its tables, and return the exit code."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=None, help="chance; none: a new one")
    parser.add_argument("--backend", default="mujoco", choices=("mujoco", "mock"))
    parser.add_argument("--keep", type=Path, default=Path("build/soak"), help="for failures")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed

    import rclpy
    from chaos.running_suite import RunningSuite
    from rclpy.signals import SignalHandlerOptions
    from ros_client import RosClient
    from ros_processes import Suite

    from soak.campaign import Soak, drifts, exceeded
    from soak.tables import print_tables

    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    suite = Suite(Path(tempfile.mkdtemp(prefix="motion_nodes-soak-")), ENVIRONMENT)
    running = RunningSuite(suite, ROBOTS, options.backend)
    soak = Soak(running, RosClient("fuzz_soak"), seed)
    seconds = 60.0 * options.minutes
    print(f"seed {seed}, {options.minutes:g} minutes", flush=True)
    # An interrupted run still reports its findings.
    signal.signal(signal.SIGINT, lambda *_: soak.stop())
    try:
        samples = soak.run(seconds, max(1.0, seconds / 500.0))
    finally:
        suite.close()
    print_tables(samples)
    failures = list(samples.failures)
    worked = samples.times[-1] / 60.0
    if worked >= JUDGED:
        failures += exceeded(drifts(samples))
    else:
        print(f"drift is judged in runs of {JUDGED:g} minutes and more")
    if not failures:
        print("nothing was found")
        return 0
    kept = options.keep / str(seed)
    kept.mkdir(parents=True, exist_ok=True)
    for i, process in enumerate(suite.processes):
        (kept / f"process_{i}.log").write_text(process.output)
    for failure in failures:
        print(f"FOUND  {failure}")
    print(f"logs are in {kept}; again: make soak SEED={seed} MINUTES={options.minutes:g}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
