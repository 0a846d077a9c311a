# SPDX-License-Identifier: Apache-2.0
"""Rewards of picking: exact values, and exploits that the corrected form excludes."""

from itertools import pairwise

import numpy as np
import pytest

from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.learning.tasks.arm_tasks import PickReward, PickState, plain_pick_reward

LIMITS = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])
TRUE, FALSE = np.array([True]), np.array([False])


def state(gripper, item, target=(0.5, 0.0, 0.5), grasped=False, placed=False):
    rows = (np.array([gripper]), np.array([item]), np.array([target]))
    return PickState(*rows, np.array([grasped]), np.array([placed]))


def test_plain_reward_on_a_fixture():
    fixture = state((0.0, 0.0, 0.3), (0.0, 0.4, 0.0), (0.0, 0.4, 1.2), grasped=True, placed=True)
    # 0.5 m to the object, 1.2 m to the target, 87 and 10 N m.
    torques = np.array([[87.0, 0, 0, 0, 10.0, 0, 0]])
    assert plain_pick_reward(fixture, torques) == pytest.approx(-0.5 + 10 - 1.2 + 50 - 75.69 - 1.0)


def test_plain_reward_pays_for_hovering_and_the_corrected_one_does_not():
    hover = state((0.4, 0, 0.3), (0.4, 0, 0.3), grasped=True)
    rest = np.zeros((1, 7))
    plain = sum(plain_pick_reward(hover, rest)[0] for _ in range(1000))
    assert plain > 9000.0 > 50.0
    reward = PickReward(gamma=0.99)
    paid = sum(0.99**t * reward(hover, hover, rest, LIMITS, FALSE, TRUE)[0] for t in range(1000))
    placed = state((0.5, 0, 0.5), (0.5, 0, 0.5), grasped=True, placed=True)
    placing = reward(hover, placed, rest, LIMITS, FALSE, TRUE)[0]
    assert paid < 1.0 < 50.0 < placing


def test_shaping_telescopes_over_an_episode():
    rng, reward = np.random.default_rng(3), PickReward(gamma=0.97, grasp=0.0, place=0.0, torque=0.0)
    walk = [state(rng.normal(size=3), rng.normal(size=3), grasped=rng.random() < 0.5)
            for _ in range(30)]  # fmt: skip
    total = sum(
        0.97**t * reward(a, b, np.zeros((1, 7)), LIMITS, TRUE, TRUE)[0]
        for t, (a, b) in enumerate(pairwise(walk))
    )
    expected = 0.97**29 * reward.potential(walk[-1]) - reward.potential(walk[0])
    assert total == pytest.approx(expected[0], abs=1e-12)


def test_torques_count_relative_to_their_limits():
    reward, where = PickReward(distance=0.0), state((0, 0, 0), (0, 0, 0))
    paid = reward(where, where, LIMITS[None], LIMITS, TRUE, TRUE)
    assert paid == pytest.approx(-0.01 * 7)


def test_pushing_the_object_without_holding_it_earns_nothing():
    reward = PickReward(gamma=1.0)
    far, near = state((0.3, 0, 0), (0.3, 0, 0)), state((0.5, 0, 0), (0.5, 0, 0))
    assert reward(far, near, np.zeros((1, 7)), LIMITS, TRUE, TRUE) == pytest.approx(0.0)


def test_invalid_settings():
    with pytest.raises(InvalidConfig):
        PickReward(gamma=1.5)
    with pytest.raises(InvalidConfig):
        PickReward(torque=float("nan"))
