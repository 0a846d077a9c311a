# SPDX-License-Identifier: Apache-2.0
"""The node rmpflow_policy with policy: mpc over DDS: a trap that RMPflow does not leave."""

from __future__ import annotations

import numpy as np
import pytest
import scene_requests as requests
from joint_client import CONTROLLER, JointClient
from policy_client import POLICY, PolicyClient

RATE = 50.0
TARGET = (0.68, 0.0, 0.25)
WALLS = {
    "back": ((0.02, 0.36, 0.4), (0.5, 0.0, 0.45)),
    "left": ((0.2, 0.02, 0.4), (0.4, 0.18, 0.45)),
    "right": ((0.2, 0.02, 0.4), (0.4, -0.18, 0.45)),
}
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def policy(module_suite, module_client):
    """A robot without physics, its controller, its scene and the policy."""
    common = {"robot": "franka", "use_sim_time": True}
    module_suite.node("mock_sim", robots=["franka"], update_rate=RATE)
    module_suite.node("articulation_controller", update_rate=RATE, **common)
    module_suite.node("rrt_planner", **common)
    options = {"policy": "mpc", "mpc__seed": 1, "use_orientation": False, "escape": "none"}
    # Others share the processors.
    module_suite.node("rmpflow_policy", update_rate=RATE, state_timeout=3.0, max_tracking_error=1.0,
                      **options, **common)  # fmt: skip
    arm = JointClient(module_client)
    for node, word in ((CONTROLLER, "holding"), (POLICY, "idle")):
        module_client.wait_for_diagnosis(node, word, within=60.0)
    arm.wait_for()
    yield PolicyClient(arm)
    arm.close()


def test_the_trap_is_left_and_bad_targets_are_rejected(policy):
    policy.begin_anew()
    policy.scene(*(requests.box(name, size, at) for name, (size, at) in WALLS.items()))
    policy.go((np.nan, 0.0, 0.4))
    policy.stays("idle", 0.3)
    policy.go(TARGET)
    policy.wait_for("arrived", within=40.0)
    assert policy.tool[:3, 3] == pytest.approx(TARGET, abs=0.01)
    assert not policy.client.set_parameters(POLICY, policy="rmpflow").successful
