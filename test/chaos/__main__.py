# SPDX-License-Identifier: Apache-2.0
"""``make chaos``: command line of fault injection."""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fuzz.robot_words import robot_words
from own_domain import ENVIRONMENT
from two_hosts import hosts

from motion_nodes.ros.transports import PROFILES, RANGE

ROBOTS = "arm:=franka,base:=jetbot@3,0,0"


def main() -> int:
    """Run a campaign, print its findings, and return the exit code."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="chance; none: a new one")
    parser.add_argument("--faults", type=int, default=100, help="how many")
    parser.add_argument("--fault", type=int, default=None, help="this one alone, by its number")
    parser.add_argument("--kinds", default="", help="comma-separated; default: all")
    parser.add_argument("--phases", default="", help="comma-separated; default: all")
    parser.add_argument("--wait", type=float, default=1.0, help="longest wait of a probe [s]")
    parser.add_argument("--robots", default=ROBOTS)
    parser.add_argument("--without", default="", help="executables that are left out")
    parser.add_argument("--backend", default="mujoco", choices=("mujoco", "mock"))
    parser.add_argument("--supervised", action="store_true",
                        help="motion up starts processes again, not the test")  # fmt: skip
    parser.add_argument("--network", action="store_true",
                        help="the robot on another host than its controllers")  # fmt: skip
    parser.add_argument("--keep", type=Path, default=Path("build/chaos"), help="for failures")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    pair = None
    if options.network:
        pair = hosts.TwoHosts(seed)
        hosts.enter(pair.names[0])
        os.environ.update(pair.environment)
    try:
        return _run(options, seed, pair)
    finally:
        if pair is not None:
            pair.close()


def _run(options: argparse.Namespace, seed: int, pair: hosts.TwoHosts | None) -> int:
    import rclpy
    from rclpy.signals import SignalHandlerOptions
    from ros_client import RosClient
    from ros_processes import Suite

    from chaos.campaign import Campaign
    from chaos.faults import KINDS, Scene
    from chaos.running_suite import RunningSuite, SupervisedSuite
    from chaos.small_home import SmallHome
    from chaos.work import PHASES

    folder = Path(tempfile.mkdtemp(prefix="motion_nodes-chaos-"))
    home = None
    try:
        home = SmallHome(folder / "home")
    except hosts.NotPermitted as reason:
        print(f"no faults of disks: {reason}")
    # The range that users have, without the profile of own_domain.
    variables = dict(pair.environment) if pair else dict.fromkeys(PROFILES, "") | {RANGE: "SUBNET"}
    os.environ.update(variables)
    environment = ENVIRONMENT | variables
    suite = Suite(folder, environment | (home.environment if home else {}))
    words = robot_words(options.robots)
    without = [name for name in options.without.split(",") if name]
    if options.supervised:
        running: RunningSuite = SupervisedSuite(suite, words, options.backend)
    else:
        running = RunningSuite(suite, words, options.backend, without)
    if pair is not None:
        running.prefix[running.simulation] = pair.prefix(1)
    else:
        print("no faults of the network: they need --network")
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    client = RosClient("fuzz_chaos")
    scene = Scene(running, client, home, pair)
    campaign = Campaign(
        scene, seed=seed, longest_wait=options.wait, say=lambda text: print(text, flush=True),
        kinds=_some(options.kinds, KINDS), phases=_some(options.phases, PHASES),
    )  # fmt: skip
    numbers = range(options.faults) if options.fault is None else [options.fault]
    print(f"seed {seed}, {len(numbers)} faults: {', '.join(campaign.kinds)}", flush=True)
    # An interrupted campaign still reports its findings.
    signal.signal(signal.SIGINT, lambda *_: campaign.stop())
    try:
        findings = campaign.run(numbers)
    finally:
        try:
            suite.close()
        finally:
            if home is not None:
                home.close()
    print(json.dumps(summary(findings), indent=2))
    if not findings.failures:
        print("nothing was found")
        return 0
    kept = options.keep / str(seed)
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "failures.txt").write_text("\n".join(findings.failures) + "\n")
    for i, process in enumerate(suite.processes):
        (kept / f"process_{i}.log").write_text(process.output)
    for failure in findings.failures:
        print(f"FOUND  {failure}")
    print(f"logs are in {kept}; one of them again: make chaos SEED={seed} FAULT=number")
    return 1


def summary(findings: object) -> dict[str, object]:
    """Return the counts and figures of a run."""
    strikes, recoveries = findings.strikes, findings.recoveries  # type: ignore[attr-defined]
    return {
        "faults": sum(strikes.values()),
        "failures": len(findings.failures),  # type: ignore[attr-defined]
        "strikes": dict(sorted(strikes.items())),
        "back after [s]: median, max": {
            kind: [round(sorted(times)[len(times) // 2], 1), round(max(times), 1)]
            for kind, times in sorted(recoveries.items())
        },
        **findings.figures,  # type: ignore[attr-defined]
    }


def _some(text: str, known: object) -> Sequence[str]:
    """Return the names in a comma-separated list; all known ones if it is empty."""
    names = [name for name in text.split(",") if name] or list(known)  # type: ignore[call-overload]
    unknown = [name for name in names if name not in known]  # type: ignore[operator]
    if unknown:
        raise SystemExit(f"not known: {', '.join(unknown)}; known: {', '.join(known)}")  # type: ignore[arg-type]
    return names


if __name__ == "__main__":
    sys.exit(main())
