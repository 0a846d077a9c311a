# SPDX-License-Identifier: Apache-2.0
"""A trap holds the reactive policy; the planner brings the arm out, and it goes on following."""

from __future__ import annotations

import numpy as np
import pytest
import scene_requests as requests
from joint_client import CONTROLLER, JointClient
from planner_client import Planner
from policy_client import POLICY, PolicyClient

RATE = 100.0
TARGET = (0.68, 0.0, 0.25)
WALLS = {
    "back": ((0.02, 0.36, 0.4), (0.5, 0.0, 0.45)),
    "left": ((0.2, 0.02, 0.4), (0.4, 0.18, 0.45)),
    "right": ((0.2, 0.02, 0.4), (0.4, -0.18, 0.45)),
}
"""A U that is open towards the robot and upwards; the target is beyond it."""
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def policy(module_suite, module_client):
    """A robot without physics, its controller, planner and policy."""
    common = {"robot": "franka", "use_sim_time": True}
    module_suite.node("mock_sim", robots=["franka"], update_rate=RATE)
    module_suite.node("articulation_controller", update_rate=RATE, **common)
    module_suite.node("rrt_planner", **common)
    module_suite.node("rmpflow_policy", update_rate=RATE, use_orientation=False, **common)
    arm = JointClient(module_client)
    for node, word in ((CONTROLLER, "holding"), (POLICY, "idle")):
        module_client.wait_for_diagnosis(node, word, within=60.0)
    arm.wait_for()
    Planner(arm).wait()
    yield PolicyClient(arm)
    arm.close()


def walls():
    return [requests.box(name, size, at) for name, (size, at) in WALLS.items()]


def trapped(policy):
    """Bring the arm into the trap, and return what is said of it."""
    policy.begin_anew()
    assert policy.client.set_parameters(POLICY, escape="none").successful
    policy.scene(*walls())
    policy.go(TARGET)
    return policy.wait_for("stuck")


def test_without_a_planners_help_the_trap_holds(policy):
    assert "no nearer" in trapped(policy)
    policy.rest()
    assert policy.tool[0, 3] < 0.5
    policy.stays("stuck", 1.0)


def test_a_planner_brings_the_arm_out_and_it_goes_on_following(policy):
    trapped(policy)
    assert policy.client.set_parameters(POLICY, escape="plan").successful
    policy.wait_for("escaping", within=30.0)
    policy.wait_for("arrived", within=60.0)
    assert policy.tool[:3, 3] == pytest.approx(TARGET, abs=0.01)
    assert policy.figure("escapes") != "0"
    x, y, z = TARGET
    policy.go((x, y + 0.1, z))
    policy.wait_for("following")
    policy.wait_for("arrived")
    assert policy.tool[1, 3] == pytest.approx(0.1, abs=0.01)


def test_a_target_in_collision_is_reported_as_such_and_tried_once(policy):
    policy.begin_anew()
    policy.scene(requests.box("block", (0.3, 0.3, 0.3), (0.6, 0.0, 0.3)))
    assert policy.client.set_parameters(POLICY, escape="plan", escape_planning_time=1.0).successful
    policy.go((0.6, 0.0, 0.3))
    # By one word or the other: in collision, or not reachable without.
    policy.wait_for("stuck: the target is", within=30.0)
    escapes = policy.figure("escapes")
    policy.stays("stuck", 7.0)
    assert policy.figure("escapes") == escapes, "it must not be tried for ever"
    assert np.isfinite(policy.q).all()
    policy.trigger(f"{POLICY}/clear_target")
    policy.wait_for("idle")
