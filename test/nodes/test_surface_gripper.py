# SPDX-License-Identifier: Apache-2.0
"""A surface gripper over DDS: it lifts a box, which is attached in the planning scene meanwhile."""

from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from control_msgs.action import GripperCommand
from diagnostic_msgs.msg import DiagnosticStatus
from joint_client import JointClient, smooth
from moveit_msgs.srv import GetPlanningScene
from planner_client import Planner
from ros_client import LATCHED, values_of
from std_srvs.srv import SetBool

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
ARM = ("shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint", "wrist_1_joint",
       "wrist_2_joint", "wrist_3_joint")  # fmt: skip
ABOVE = dict(zip(ARM, (0.0, -1.2, 1.6, -1.97, -1.57, 0.0), strict=True))
AT = dict(zip(ARM, (-0.0003, -0.9024, 1.7726, -2.4402, -1.57, -0.0003), strict=True))
"""The flange 8 mm above the box."""
BOX = "box:=box:0.1,0.1,0.1:1.5@0.868,0.174,0.05"


class Suction:
    """The gripper as a client sees it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.statuses = client.listen(DiagnosticStatus, "/surface_gripper/status", LATCHED)
        self.arm = JointClient(client)
        self.planner = Planner(self.arm)

    @property
    def status(self) -> tuple[str, str]:
        if not self.statuses:
            return "", ""
        newest = self.statuses.newest
        return newest.message, values_of(newest)["gripped objects"]

    def wait(self, state: str, held: str) -> None:
        self.client.wait(lambda: self.status == (state, held), f"{state} with '{held}'")

    def attached(self) -> list[str]:
        scene = self.client.call(GetPlanningScene, "/get_planning_scene").scene
        return [item.object.id for item in scene.robot_state.attached_collision_objects]

    def in_world(self) -> list[str]:
        scene = self.client.call(GetPlanningScene, "/get_planning_scene").scene
        return [item.id for item in scene.world.collision_objects]

    def set(self, on: bool) -> Any:
        return self.client.call(SetBool, "/surface_gripper/activate", SetBool.Request(data=on))

    def go(self, goal: dict[str, float]) -> None:
        status, result = self.arm.follow(smooth(goal, 4.0)).result()
        assert status == GoalStatus.STATUS_SUCCEEDED, result.error_string

    def grip(self, position: float) -> Any:
        goal = GripperCommand.Goal()
        goal.command.position = position
        return self.arm.send(goal, GripperCommand, "/surface_gripper/gripper_cmd").result()


@pytest.fixture(scope="module")
def suction(module_suite, module_client, tmp_path_factory):
    file = tmp_path_factory.mktemp("params") / "suction.yaml"
    file.write_text(
        "mujoco_sim:\n  ros__parameters:\n"
        "    surface_gripper: {max_grip_distance: 0.02, coaxial_force_limit: 60.0}\n"
    )
    module_suite.bring_up(
        "ur10e",
        params_file=str(file),
        suction=True,
        objects=(BOX,),
        rate=100.0,
        without=("trajectory_generator", "rmpflow_policy"),
    )
    made = Suction(module_client)
    made.planner.wait()
    made.arm.wait_for()
    made.wait("open", "")
    # The wrist first: otherwise the stretched arm would hit the box.
    made.go({name: ABOVE[name] for name in ARM[3:]})
    made.go(ABOVE)
    return made


@pytest.mark.long
def test_it_closes_on_nothing_and_says_so(suction):
    suction.go(ABOVE)
    status, result = suction.grip(0.0)
    assert (status, result.reached_goal) == (GoalStatus.STATUS_ABORTED, False)
    suction.wait("open", "")


@pytest.mark.long
def test_it_lifts_the_box_which_is_part_of_the_arm_until_it_is_dropped(suction):
    suction.go(ABOVE)
    suction.go(AT)
    status, result = suction.grip(0.0)
    assert (status, result.reached_goal, result.stalled) == (
        GoalStatus.STATUS_SUCCEEDED, True, True
    )  # fmt: skip
    suction.wait("closed", "box")
    suction.client.wait(lambda: suction.attached() == ["box"], "the box in the planning scene")
    suction.go(ABOVE)
    assert suction.status == ("closed", "box")
    assert suction.set(False).success
    suction.wait("open", "")
    suction.client.wait(lambda: suction.attached() == [], "the box gone")
    suction.client.wait(lambda: "box" not in suction.in_world(), "nor in the world")
    status, result = suction.grip(1.0)
    assert (status, result.reached_goal) == (GoalStatus.STATUS_SUCCEEDED, True)


def test_positions_that_are_no_numbers_are_refused(suction):
    status, result = suction.grip(float("nan"))
    assert (status, result.reached_goal) == (GoalStatus.STATUS_ABORTED, False)
    suction.wait("open", "")
