# SPDX-License-Identifier: Apache-2.0
"""A local minimum traps the reactive policy; the planner frees the arm, which then follows on."""

import numpy as np
import pytest
import scene_requests as requests
from planner_client import Planner
from policy_client import POLICY, franka_policy
from u_trap import BEYOND_U, U_WALLS

RATE = 100.0
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def policy(module_suite, module_client):
    """A robot without physics, its controller, planner and policy."""
    with franka_policy(module_suite, module_client, RATE, use_orientation=False) as made:
        Planner(made.arm).wait()
        yield made


def walls():
    return [requests.box(name, size, at) for name, (size, at) in U_WALLS.items()]


def trapped(policy):
    """Bring the arm into the trap, and return the policy's status."""
    policy.begin_anew()
    assert policy.client.set_parameters(POLICY, escape="none").successful
    policy.scene(*walls())
    policy.go(BEYOND_U)
    return policy.wait_for("stuck")


@pytest.mark.long
def test_without_a_planners_help_the_trap_holds(policy):
    assert "no progress" in trapped(policy)
    policy.rest()
    assert policy.tool[0, 3] < 0.5
    policy.stays("stuck", 1.0)


@pytest.mark.long
def test_a_planner_brings_the_arm_out_and_it_goes_on_following(policy):
    trapped(policy)
    assert policy.client.set_parameters(POLICY, escape="plan").successful
    policy.wait_for("escaping", within=30.0)
    policy.wait_for("arrived", within=60.0)
    assert policy.tool[:3, 3] == pytest.approx(BEYOND_U, abs=0.01)
    assert policy.figure("escapes") != "0"
    x, y, z = BEYOND_U
    policy.go((x, y + 0.1, z))
    # It may arrive at the last target again before it receives this one.
    policy.client.wait(lambda: abs(policy.tool[1, 3] - 0.1) < 0.01, "the next target")
    policy.wait_for("arrived")


@pytest.mark.long
def test_a_target_in_collision_is_reported_as_such_and_tried_once(policy):
    policy.begin_anew()
    policy.scene(requests.box("block", (0.3, 0.3, 0.3), (0.6, 0.0, 0.3)))
    assert policy.client.set_parameters(POLICY, escape="plan", escape_planning_time=1.0).successful
    policy.go((0.6, 0.0, 0.3))
    # Either in collision, or not reachable without collision.
    policy.wait_for("stuck: the target is", within=30.0)
    escapes = policy.figure("escapes")
    policy.stays("stuck", 7.0)
    assert policy.figure("escapes") == escapes, "no endless attempts"
    assert np.isfinite(policy.q).all()
    policy.trigger(f"{POLICY}/clear_target")
    policy.wait_for("idle")
