# SPDX-License-Identifier: Apache-2.0
"""The node rmpflow_policy with policy mpc over DDS: leaves a local minimum that traps RMPflow."""

import numpy as np
import pytest
import scene_requests as requests
from policy_client import POLICY, franka_policy
from u_trap import BEYOND_U, U_WALLS

RATE = 50.0
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def policy(module_suite, module_client):
    """A robot without physics, its controller, its scene and the policy."""
    options = {"policy": "mpc", "mpc__seed": 1, "use_orientation": False, "escape": "none"}
    # For loaded machines.
    patience = {"state_timeout": 3.0, "max_tracking_error": 1.0}
    with franka_policy(module_suite, module_client, RATE, **options, **patience) as made:
        yield made


@pytest.mark.long
def test_the_trap_is_left_and_bad_targets_are_rejected(policy):
    policy.begin_anew()
    policy.scene(*(requests.box(name, size, at) for name, (size, at) in U_WALLS.items()))
    policy.go((np.nan, 0.0, 0.4))
    policy.stays("idle", 0.3)
    policy.go(BEYOND_U)
    policy.wait_for("arrived", within=40.0)
    # The newest joint states may be older than the status.
    at_target = pytest.approx(BEYOND_U, abs=0.01)
    policy.client.wait(lambda: policy.tool[:3, 3] == at_target, "the tool at the target")
    assert not policy.client.set_parameters(POLICY, policy="rmpflow").successful
