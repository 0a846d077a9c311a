# SPDX-License-Identifier: Apache-2.0
"""Planning with a payload: effort limits, and payloads that exceed them."""

from __future__ import annotations

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.core.planning import pipeline
from motion_nodes.core.planning.cartesian import cartesian_motion
from motion_nodes.core.planning.planning_problem import PlanRequest, PlanStatus
from motion_nodes.core.planning.recovery import RecoverySettings
from motion_nodes.core.robot.inverse_dynamics import PayloadDynamics
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.trajectory.joint_trajectory import Infeasible
from motion_nodes.core.trajectory.path_efforts import PathEfforts
from motion_nodes.core.trajectory.timed_path import TimedPath
from motion_nodes.errors import InvalidConfig, UnknownFrame

FRANKA = mn.load_robot("franka")
ARM, ROBOT = FRANKA["arm"], FRANKA.description
LOAD = mn.Payload("panda_hand_tcp", 2.5, (0.02, 0.0, 0.05))
pytestmark = pytest.mark.timeout(900)  # compiles on a new machine


def carrying(payload: mn.Payload | None, share: float = 0.9) -> mn.PlanOptions:
    return mn.PlanOptions(payload=payload, effort_share=share)


def test_efforts_of_a_payload_are_those_of_the_controllers_model():
    names = ROBOT.joint_names
    loaded = PayloadDynamics(ROBOT, names, LOAD.link)
    rng, kinematics = np.random.default_rng(2), Kinematics(ROBOT.tree, names)
    Q, V, A = rng.uniform(-1.0, 1.0, (3, 10, len(names)))
    added = LOAD.efforts_batch(kinematics, Q, V, A)
    for q, v, a, tau in zip(Q, V, A, added, strict=True):
        loaded.set_payload(0.0)
        bare = loaded.efforts(q, v, a)
        loaded.set_payload(LOAD.mass, LOAD.center)
        assert tau == pytest.approx(loaded.efforts(q, v, a) - bare, abs=1e-6)


def test_motions_with_a_payload_respect_the_effort_limits():
    """The same motion, planned without the payload, exceeds the effort limits."""
    start, goal = ARM.state("ready"), np.array([1.5, 0.9, 0.0, -0.6, 0.0, 1.6, 0.8])
    efforts = PathEfforts(ROBOT, ARM.joint_names, ROBOT.home, 0.6, LOAD)
    empty, loaded = (ARM.plan(start, goal, options=carrying(x, 0.6)) for x in (None, LOAD))
    assert empty.success, empty.reason
    assert loaded.success, loaded.reason
    assert efforts.stretch(empty.motion) > 1.01
    assert efforts.stretch(loaded.motion) <= 1.001
    assert loaded.motion.duration > empty.motion.duration


def test_payloads_beyond_the_effort_limits_are_rejected_by_joint():
    ready, far = ARM.state("ready"), ARM.state("ready").copy()
    far[[1, 3, 5]] = 1.5, -0.1, 1.6
    heavy = mn.Payload("panda_hand_tcp", 40.0)
    plan = ARM.plan(ready, far, options=carrying(heavy))
    assert plan.status is PlanStatus.INVALID_PATH
    assert "40 kg at panda_hand_tcp is too heavy at the start" in plan.reason
    assert "panda_joint" in plan.reason
    request = PlanRequest(ARM.checker(), ready, (mn.JointGoal(far),))
    recovered = pipeline.plan(request, carrying(heavy), RecoverySettings())
    assert recovered.reason == plan.reason, "no recovery was to be attempted"
    medium = mn.Payload("panda_hand_tcp", 9.0)
    assert not PathEfforts(ROBOT, ARM.joint_names, ROBOT.home, payload=medium).overload(ready)[1]
    plan = ARM.plan(ready, far, options=carrying(medium))
    assert plan.status is PlanStatus.GOAL_OUTSIDE_LIMITS
    assert "panda_joint2 needs" in plan.reason
    assert " N m to hold" in plan.reason
    plan = ARM.plan(ready, mn.PoseGoal(ARM.tip, ARM.fk(far)), options=carrying(medium))
    assert plan.status is PlanStatus.INVALID_PATH
    assert plan.trajectory is None
    assert "% of the motion" in plan.reason
    assert ARM.plan(ready, far, options=carrying(heavy, share=0.0)).success


def test_lines_with_a_payload_respect_the_effort_limits_too():
    path = np.array([ARM.state("ready"), [1.5, 0.9, 0.0, -0.6, 0.0, 1.6, 0.8]])
    efforts = PathEfforts(ROBOT, ARM.joint_names, ROBOT.home, 0.6, LOAD)

    def line(payload: mn.Payload | None, share: float = 0.6) -> TimedPath:
        return cartesian_motion(
            ARM.checker(), path, avoid_collisions=False, effort_share=share, payload=payload
        )

    empty, loaded = line(None), line(LOAD)
    assert efforts.stretch(empty) > 1.01
    assert efforts.stretch(loaded) <= 1.001
    assert line(LOAD, share=0.0).duration <= empty.duration < loaded.duration
    with pytest.raises(Infeasible, match="40 kg at panda_hand_tcp is too heavy: panda_joint"):
        line(mn.Payload("panda_hand_tcp", 40.0))


def test_invalid_payloads():
    for bad in ({"mass": -1.0}, {"mass": np.nan}, {"mass": 1.0, "center": (0.0, np.inf, 0.0)}):
        with pytest.raises(InvalidConfig):
            mn.Payload("panda_hand", **bad)
    with pytest.raises(UnknownFrame):
        ARM.plan("ready", "home", options=carrying(mn.Payload("hook", 1.0)))
