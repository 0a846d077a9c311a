# SPDX-License-Identifier: Apache-2.0
"""Grasps with force over DDS, and widths of objects."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from control_msgs.action import GripperCommand
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import WrenchStamped
from joint_client import CONTROLLER, HOME, JointClient, smooth
from ros_client import LATCHED, values_of
from std_srvs.srv import Trigger

from motion_nodes.core.ik.tool_goal import ArticulationIk
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.extras.tasks.task_codes import SkillFailed, TaskCode
from motion_nodes.nodes.articulation.gripper_actions import COMMAND_NAMES, STATUS
from motion_nodes.nodes.task.arm_skills import ArmSkills
from motion_nodes.ros.names import IMPEDANCE_CONTROLLER

MASS = 0.5
OBJECTS = ["post:=box:0.1,0.1,0.3:20@0.5,0,0.15", f"block:=box:0.04,0.04,0.08:{MASS}@0.5,0,0.34"]


class Hand:
    """The gripper as a client sees it."""

    def __init__(self, client: Any) -> None:
        self.client, self.arm = client, JointClient(client)
        self.statuses = client.listen(DiagnosticStatus, f"/{STATUS}", LATCHED)
        self.wrenches = client.listen(WrenchStamped, f"/{IMPEDANCE_CONTROLLER}/external_wrench")
        self.ik = ArticulationIk(load_robot("franka"), "arm")
        self.at, self.above = self.configuration(0.355), self.configuration(0.45)

    def configuration(self, z: float, y: float = 0.0) -> dict[str, float]:
        found = self.ik.goal_for(from_xyz_rpy((0.5, y, z), (np.pi, 0.0, 0.0)), HOME)
        assert found.success
        return dict(zip(found.names, found.positions.tolist(), strict=True))

    def go(self, goal: dict[str, float], seconds: float = 2.0) -> Any:
        return self.arm.follow(smooth(goal, seconds)).result()

    def grip(self, position: float, max_effort: float = 0.0) -> Any:
        goal = GripperCommand.Goal()
        goal.command.position, goal.command.max_effort = position, max_effort
        return self.arm.send(goal, GripperCommand, f"/{COMMAND_NAMES[0]}").result()

    def grip_block(self, max_effort: float = 0.0) -> Any:
        """Release the hand, and grip the block where it stands."""
        assert self.grip(0.04)[1].reached_goal
        for goal in (self.above, self.at):
            assert self.go(goal)[0] == GoalStatus.STATUS_SUCCEEDED
        return self.grip(0.0, max_effort)

    @property
    def status(self) -> str:
        return self.statuses.newest.message if self.statuses else ""

    def value(self, key: str) -> str:
        return values_of(self.statuses.newest)[key]


@pytest.fixture(scope="module")
def hand(module_suite, module_client, tmp_path_factory):
    file = tmp_path_factory.mktemp("params") / "cell.yaml"
    file.write_text(
        f"mujoco_sim:\n  ros__parameters:\n    objects: {OBJECTS}\n"
        "joint_trajectory_controller:\n  ros__parameters:\n    gripper: {grasp_force: 3.0}\n"
    )
    module_suite.bring_up(
        "franka", params_file=str(file),
        without=("trajectory_generator", "rmpflow_policy", "rrt_planner", "ik_service"),
    )  # fmt: skip
    made = Hand(module_client)
    module_client.wait_for_diagnosis(CONTROLLER, "holding", within=120.0)
    made.arm.wait_for()
    return made


@pytest.mark.timeout(900)
def test_an_empty_hand_closes_without_a_grasp(hand):
    status, result = hand.grip(0.01)
    assert (status, result.reached_goal, result.stalled) == (
        GoalStatus.STATUS_SUCCEEDED, True, False,
    )  # fmt: skip
    hand.client.wait(lambda: hand.status == "empty", "status of an empty hand")


@pytest.mark.timeout(900)
@pytest.mark.long
def test_a_block_is_gripped_gently_and_harder_when_it_is_lifted(hand):
    status, result = hand.grip_block()
    assert (status, result.reached_goal, result.stalled) == (
        GoalStatus.STATUS_SUCCEEDED, False, True,
    )  # fmt: skip
    assert result.position == pytest.approx(0.02, abs=1e-3)
    assert result.effort == pytest.approx(3.0, abs=0.6)
    hand.client.wait(lambda: hand.status == "holding", "status of a grasp")
    assert hand.go(hand.above)[0] == GoalStatus.STATUS_SUCCEEDED
    hand.client.wait(lambda: float(hand.value("effort limit")) > 6.0, "more force")

    def estimated() -> bool:
        return hand.client.call(Trigger, f"{CONTROLLER}/estimate_payload").success

    hand.client.wait(estimated, "an estimate at rest")
    found = hand.client.get_parameter(CONTROLLER, "payload.mass")
    assert found == pytest.approx(MASS, rel=0.05)
    hand.wrenches.clear()
    weightless = lambda: abs(hand.wrenches.newest.wrench.force.z) < 0.5  # noqa: E731
    hand.client.wait(lambda: hand.wrenches and weightless(), "the payload in the model")
    assert hand.client.set_parameters(CONTROLLER, payload__mass=0.0).successful


@pytest.mark.timeout(900)
def test_a_trajectory_stops_at_the_max_external_force(hand):
    """The held block is pressed on the post."""
    assert hand.client.set_parameters(CONTROLLER, contact__max_force=25.0).successful
    try:
        status, result = hand.go(hand.configuration(0.32), 3.0)
        assert status == GoalStatus.STATUS_ABORTED
        assert "external force" in result.error_string
    finally:
        assert hand.client.set_parameters(CONTROLLER, contact__max_force=0.0).successful


@pytest.mark.timeout(900)
def test_forces_out_of_range_are_refused(hand):
    for values in (
        {"gripper__grasp_force": -1.0},
        {"gripper__friction": 0.0},
        {"gripper__slip_distance": float("nan")},
        {"payload__mass": -1.0},
        {"payload__center": [0.0, float("inf"), 0.0]},
        {"contact__max_force": float("nan")},
    ):
        assert not hand.client.set_parameters(CONTROLLER, **values).successful, values
    status, result = hand.grip(0.02, max_effort=-1.0)
    assert (status, result.reached_goal, result.stalled) == (
        GoalStatus.STATUS_ABORTED,
        False,
        False,
    )


WIDTH = 0.04


def done(result=None):
    """Return the work of a motion that ends at once."""
    yield
    return result


def grasp(width, *, max_width=0.08, check=True):
    """Close the fingers until they are ``width`` apart; return what was done."""
    log = []
    motions = SimpleNamespace(
        max_width=max_width, open=lambda: log.append("open") or done(),
        straight=lambda *_, what: log.append(what),
    )  # fmt: skip
    holding = SimpleNamespace(
        grip=lambda *_: done(width), free=lambda _: done(), fresh=lambda _: done(None),
        hold=lambda *_: log.append("hold"),
    )  # fmt: skip
    skills = ArmSkills.__new__(ArmSkills)
    skills._motions, skills._holding = motions, holding
    skills._parts = SimpleNamespace(params=SimpleNamespace(check_grasp=check))
    target = SimpleNamespace(name="cube")
    for _ in skills._grasp(SimpleNamespace(X_WG=np.eye(4), width=WIDTH), target):
        pass
    return log


def test_it_holds_what_is_as_wide_as_expected():
    assert grasp(WIDTH) == grasp(WIDTH + 0.003) == ["hold"]
    assert grasp(WIDTH + 0.01, check=False) == ["hold"]
    assert grasp(0.4, max_width=0.9) == ["hold"]  # an angle


@pytest.mark.parametrize("width", [0.0, 0.05])
def test_it_opens_and_retreats_from_an_object_that_is_missed_or_askew(width):
    with pytest.raises(SkillFailed) as raised:
        grasp(width)
    assert raised.value.code is TaskCode.NOT_GRASPED
    assert ("askew" in str(raised.value)) == (width > 0.0)
