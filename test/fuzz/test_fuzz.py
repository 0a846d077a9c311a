# SPDX-License-Identifier: Apache-2.0
"""A short campaign of the fuzzer with a fixed seed; ``make fuzz`` runs long ones."""

import random

import pytest
from geometry_msgs.msg import PoseStamped
from moveit_msgs.action import MoveGroup
from sensor_msgs.msg import JointState

from fuzz.campaign import Campaign
from fuzz.values import Values

pytestmark = pytest.mark.real_time
SEED, MESSAGES = 20260, 800
PATIENCE = 60.0
"""[s] That a probe may wait here, where other tests compute too."""


def test_equal_seeds_make_equal_messages():
    def made(seed: int) -> list[str]:
        values = Values(random.Random(seed), ["a", "b"], lambda: 10**9)
        kinds = (PoseStamped, JointState, MoveGroup.Goal)
        return [repr(values.mutate(values.message(kind), 3)) for kind in kinds * 5]

    assert made(3) == made(3)
    assert made(3) != made(4)


@pytest.mark.timeout(900)
def test_a_suite_withstands_hostile_messages(suite, ros):
    campaign = Campaign(
        suite,
        ["arm:=franka", "base:=jetbot@3,0,0"],
        seed=SEED,
        messages=MESSAGES,
        longest_wait=PATIENCE,
        backend="mock",
        without=("trajectory_generator", "rrt_planner"),
        phases=("messages",),
    )
    findings = campaign.run()
    assert not findings.failures, f"make fuzz SEED={SEED} MESSAGES={MESSAGES}: {findings}"
    assert all(count > 100 for count in findings.figures["commands watched"].values())
