# SPDX-License-Identifier: Apache-2.0
"""Controllers and robot on two hosts: discovery, and a cable that is cut during a motion.

Prints the measurements as JSON. Exit code 77: no permission for namespaces.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from own_domain import ENVIRONMENT

from two_hosts.hosts import ADDRESSES, NotPermitted, TwoHosts, enter

SKIPPED = 77
PORT = 11811
"""Of the discovery server."""
CUT = 3.0
"""[s]"""


def main() -> int:
    """Run the journey."""
    parser = argparse.ArgumentParser(prog="two_hosts", description=__doc__)
    parser.add_argument(
        "--discovery", default="multicast", choices=("multicast", "peers", "server")
    )
    options = parser.parse_args()
    try:
        hosts = TwoHosts()
        enter(hosts.names[0])
    except NotPermitted as reason:
        print(reason)
        return SKIPPED
    server = None
    try:
        os.environ.update(hosts.environment)
        if options.discovery != "multicast":
            hosts.no_multicast()
        if options.discovery == "server":
            os.environ["ROS_DISCOVERY_SERVER"] = f"{ADDRESSES[0]}:{PORT}"
            program = str(Path(sys.executable).with_name("fast-discovery-server"))
            server = subprocess.Popen([program, "-i", "0", "-l", ADDRESSES[0], "-p", str(PORT)])
        figures = _journey(hosts, options.discovery)
    finally:
        if server is not None:
            server.kill()
            server.wait()
        hosts.close()
    print(json.dumps(figures))
    return 0


def _journey(hosts: TwoHosts, discovery: str) -> dict[str, float | str]:
    import rclpy
    from diagnostic_msgs.msg import DiagnosticStatus
    from joint_client import ABORTED, CONTROLLER, HOME, SUCCEEDED, JointClient, smooth
    from ros_client import RosClient
    from ros_processes import Suite

    variables = [dict(os.environ), dict(os.environ)]
    if discovery == "peers":
        for i, address in enumerate(reversed(ADDRESSES)):
            variables[i] |= {
                "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_STATIC_PEERS": address
            }  # fmt: skip
        os.environ.update(variables[0])
    suite = Suite(Path(tempfile.mkdtemp(prefix="motion_nodes-hosts-")), ENVIRONMENT)
    figures: dict[str, float | str] = {"discovery": discovery}
    rclpy.init(args=[])
    client = RosClient("fuzz_two_hosts")
    controller = f"/arm{CONTROLLER}"
    python = [sys.executable, "-m", "motion_nodes.nodes"]
    sim = [*hosts.prefix(1), *python, "mock_sim", "--ros-args", "-p", 'robots:=["arm:=franka"]']
    arm_node = [*python, "articulation_controller", "--ros-args", "-r", "__ns:=/arm",
                "-p", 'robot:="franka"', "-p", "use_sim_time:=true",
                "-p", "diagnostic_updater.period:=0.1"]  # fmt: skip
    try:
        suite.run(sim, **variables[1])
        suite.run(arm_node, **variables[0])
        begin = time.monotonic()
        client.wait_for_diagnosis(controller, "holding", within=60.0)
        figures["start [s]"] = time.monotonic() - begin
        arm = JointClient(client, namespace="/arm")
        arm.wait_for()
        away = {name: value + 0.4 for name, value in list(HOME.items())[:3]}
        call = arm.follow(smooth(away, 6.0))
        assert call.accepted()
        arm.moving()
        hosts.cut()
        cut = time.monotonic()
        status, result = call.result()
        assert status == ABORTED, result.error_string
        figures["goal aborted after [s]"] = time.monotonic() - cut
        figures["reason"] = result.error_string
        client.wait(lambda: _level(client, controller) == DiagnosticStatus.ERROR, "ERROR")
        figures["reported after [s]"] = time.monotonic() - cut
        client.spin(max(0.0, CUT - (time.monotonic() - cut)))
        hosts.quality()
        joined = time.monotonic()
        client.wait_for_diagnosis(controller, "holding", within=60.0)
        figures["back after [s]"] = time.monotonic() - joined
        place = arm.rest()
        assert all(HOME[n] - 0.01 <= place[n] <= away[n] + 0.01 for n in away), place
        status, result = arm.follow(smooth(away, 2.0)).result()
        assert status == SUCCEEDED, result.error_string
        arm.close()
    except BaseException:
        print(*suite.processes, sep="\n")
        raise
    finally:
        client.close()
        suite.close()
    return figures


def _level(client: object, node: str) -> bytes:
    status = client.diagnostics(node)  # type: ignore[attr-defined]
    return b"" if status is None else bytes(status.level)


if __name__ == "__main__":
    sys.exit(main())
