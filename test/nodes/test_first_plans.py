# SPDX-License-Identifier: Apache-2.0
"""Plans on a new machine, while the planner is being compiled."""

import sys

import pytest
from joint_client import ARM, CANCELED, HOME, SUCCEEDED, JointClient
from planner_client import Planner, box
from ros_processes import usual
from scene_requests import diff

# The planner node on a machine on which only straight motions are compiled, until the file exists.
PLANNER = """
import sys, time
from pathlib import Path
from motion_nodes.nodes import rrt_planner

def compile_apart(robot, direct, ready, given_up):
    direct()
    while not Path(FILE).exists():
        if given_up():
            return
        time.sleep(0.02)
    ready()

rrt_planner.is_prepared = lambda: False
rrt_planner.compile_apart = compile_apart
rrt_planner.main()
"""
ASIDE = {**{name: HOME[name] for name in ARM}, "panda_joint1": 0.6}
BEHIND = {**ASIDE, "panda_joint1": 1.9}
pytestmark = pytest.mark.timeout(300)


def test_straight_motions_do_not_wait_for_the_planner(suite, client, tmp_path):
    compiled = tmp_path / "compiled"
    suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    suite.node("articulation_controller", robot="franka", use_sim_time=True, update_rate=100.0)
    parameters = [f"{key}:={value}" for key, value in usual("rrt_planner").items()]
    parameters += ["robot:=franka", "use_sim_time:=true"]
    suite.run(
        [sys.executable, "-c", PLANNER.replace("FILE", repr(str(compiled))), "--ros-args"]
        + [word for each in parameters for word in ("-p", each)]
    )
    arm = JointClient(client)
    arm.wait_for()
    planner = Planner(arm)
    status, result = planner.move(ASIDE).result()
    assert status == SUCCEEDED, result.error_code.message
    arm.rest()
    # A request waits for the planner that it names, or if its line is blocked.
    other = planner.move(BEHIND, planner_id="RRTstar")
    assert other.accepted()
    client.spin(1.0)
    assert not other.done
    assert other.cancel()
    assert other.result()[0] == CANCELED
    post = diff(box("post", (0.04, 0.04, 1.2), (0.1, 0.3, 0.6)))
    blocked = planner.move(BEHIND, options={"planning_scene_diff": post})
    assert blocked.accepted()
    client.spin(1.0)
    assert not blocked.done
    compiled.touch()
    status, result = blocked.result()
    assert status == SUCCEEDED, result.error_code.message
