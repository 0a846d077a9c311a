# SPDX-License-Identifier: Apache-2.0
"""``make dying-listeners``: a suite stays reachable while DDS participants start and are killed.

Each listener is a participant with subscriptions to the busiest topics; half of them are killed
(SIGKILL), so that their leases expire, half leave the graph. Reported is what the supervisor of a
suite prints meanwhile: conditions of processes, restarts. ``--lease`` sets the lease of the
listeners, of which thousands expire in minutes then (default of Fast DDS: 20 s), ``--suite-lease``
that of the suite.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from own_domain import ENVIRONMENT

LISTENER = """
import os, sys, time
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

rounds, killed, life = int(sys.argv[1]), sys.argv[2] == "killed", float(sys.argv[3])
for number in range(rounds):
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        print(number, flush=True)
        continue
    # Only the child has a participant.
    rclpy.init()
    node = rclpy.create_node(f"listener_{os.getpid()}", enable_rosout=False,
                             start_parameter_services=False)
    for kind, topic in ((JointState, "joint_states"), (JointState, "joint_command"),
                        (TFMessage, "/tf"), (DiagnosticArray, "/diagnostics")):
        node.create_subscription(kind, topic, lambda _: None, 10)
    end = time.monotonic() + life
    while time.monotonic() < end:
        rclpy.spin_once(node, timeout_sec=0.02)
    if killed:
        os.kill(os.getpid(), 9)
    node.destroy_node()
    rclpy.shutdown()
    os._exit(0)
"""
"""Imports once and forks for each listener, in a tenth of the time of a start."""

PROFILE = """<?xml version="1.0" encoding="UTF-8" ?>
<profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
  <participant profile_name="short_lease" is_default_profile="true">
    <rtps><builtin><discovery_config>
      <leaseDuration><sec>{sec}</sec><nanosec>{nanosec}</nanosec></leaseDuration>
      <leaseAnnouncement><sec>{a_sec}</sec><nanosec>{a_nanosec}</nanosec></leaseAnnouncement>
    </discovery_config></builtin></rtps>
  </participant>
</profiles>
"""


def lease_profile(folder: Path, seconds: float) -> dict[str, str]:
    """Return environment variables for a participant lease [s]; none for 0."""
    if seconds <= 0.0:
        return {}
    file = folder / f"lease_{seconds:g}.xml"
    (sec, nano), (a_sec, a_nano) = (divmod(round(s * 1e9), 10**9) for s in (seconds, seconds / 3.0))
    file.write_text(PROFILE.format(sec=sec, nanosec=nano, a_sec=a_sec, a_nanosec=a_nano))
    return {"FASTRTPS_DEFAULT_PROFILES_FILE": str(file)}


class Suite:
    """A supervised suite, whose output goes to a file."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.log = folder / "suite.log"
        command = [sys.executable, "-m", "motion_nodes.bringup.suite", "robot:=franka",
                   "backend:=mock", "viewer:=none"]  # fmt: skip
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=environment
            )
        end = time.monotonic() + 300.0
        while "READY after" not in self.text:
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit(f"the suite did not start:\n{self.text}")
            time.sleep(0.2)

    @property
    def text(self) -> str:
        """Output so far."""
        return self.log.read_text(errors="replace")

    def close(self) -> None:
        """Stop it."""
        self.process.send_signal(2)
        self.process.wait(30.0)


def finished(streams: list[subprocess.Popen[str]]) -> bool:
    """Return whether all processes that start listeners have ended."""
    return all(stream.poll() is not None for stream in streams)


def main() -> None:
    """Run, and print the reports of the supervisor."""
    parser = argparse.ArgumentParser(prog="dying_listeners", description=__doc__)
    parser.add_argument("--listeners", type=int, default=1000)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--life", type=float, default=0.15, help="of a listener [s]")
    parser.add_argument("--lease", type=float, default=1.0, help="of listeners [s]; 0: default")
    parser.add_argument("--suite-lease", type=float, default=0.0, help="of the suite [s]")
    parser.add_argument("--minutes", type=float, default=30.0, help="at most")
    options = parser.parse_args()
    random.seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = dict(ENVIRONMENT, ROS_LOG_DIR=name)
        suite = Suite(folder, {**base, **lease_profile(folder, options.suite_lease)})
        try:
            measure(suite, options, {**base, **lease_profile(folder, options.lease)})
        finally:
            suite.close()


def measure(suite: Suite, options: argparse.Namespace, environment: dict[str, str]) -> None:
    """Start and end listeners; print the reports of the supervisor."""
    time.sleep(5.0)
    begin = time.monotonic()
    before = len(suite.text)
    rounds = -(-options.listeners // options.parallel)
    streams = [
        subprocess.Popen(
            [sys.executable, "-c", LISTENER, str(rounds), "killed" if i % 2 == 0 else "leaves",
             str(options.life * random.uniform(0.7, 1.3))],
            stdout=subprocess.PIPE, text=True, env=environment,
        )
        for i in range(options.parallel)
    ]  # fmt: skip
    while not finished(streams) and time.monotonic() - begin < 60.0 * options.minutes:
        time.sleep(1.0)
    for stream in streams:
        stream.terminate()
    made = sum(len((stream.communicate()[0] or "").splitlines()) for stream in streams)
    # The last leases have to expire.
    time.sleep(max(options.lease, 20.0 if options.lease <= 0.0 else 0.0) + 5.0)
    lines = [line for line in suite.text[before:].splitlines() if line.startswith("motion: ")]
    found = [line for line in lines if re.search("unreachable|wedged|stalled|starved|busy", line)]
    elapsed = time.monotonic() - begin
    print(f"{made} listeners in {elapsed:.0f} s, {made / elapsed:.1f} /s")
    print(f"leases: listeners {options.lease:g} s, suite {options.suite_lease:g} s (0: default)")
    print(f"reports of the supervisor about processes: {len(found)}")
    for line in lines:
        print(f"  {line}")


if __name__ == "__main__":
    main()
