# SPDX-License-Identifier: Apache-2.0
"""The planning scene holds the simulation's floor, and its objects are bodies of the simulation."""

import numpy as np
import pytest
import scene_requests as requests
from joint_client import ARM, HOME, JointClient
from moveit_msgs.msg import CollisionObject, PlanningScene
from moveit_msgs.srv import ApplyPlanningScene, GetPlanningScene, GetPositionIK, GetStateValidity
from planner_client import Planner, state
from ros_client import values_of
from sensor_msgs.msg import JointState

from motion_nodes.core.scene.scenery import FLOOR

BELOW = HOME | {"panda_joint2": 1.7, "panda_joint4": -0.1}
"""The hand would be in the floor."""
LOW = HOME | {"panda_joint2": HOME["panda_joint2"] + 0.8}
"""Free of the floor; a table would be hit."""
PLACE = (0.45, 0.0, 0.15)


class Cell:
    """A Franka in MuJoCo with its planner, as a client sees them."""

    def __init__(self, client) -> None:
        self.client = client
        self.planner = Planner(JointClient(client))
        self.commands = client.publisher(JointState, "/joint_command")

    def scene(self) -> PlanningScene:
        return self.client.call(GetPlanningScene, "/get_planning_scene").scene

    def apply(self, scene: PlanningScene) -> None:
        request = ApplyPlanningScene.Request(scene=scene)
        assert self.client.call(ApplyPlanningScene, "/apply_planning_scene", request).success

    @property
    def names(self) -> set[str]:
        return {item.id for item in self.scene().world.collision_objects}

    @property
    def report(self) -> dict[str, str]:
        status = self.client.diagnostics("/mujoco_sim")
        return values_of(status) if status is not None else {}

    def wait_for_bodies(self, count: int) -> None:
        self.client.wait(lambda: self.report.get("scene bodies") == str(count), f"{count} bodies")

    def contacts_with(self, name: str) -> bool:
        return name in self.report.get("contact pairs", "")

    def drive(self, joints: dict[str, float], until, what: str) -> None:
        """Command the simulation directly, without planner and controller."""
        message = JointState(name=list(joints), position=list(joints.values()))
        self.client.repeat(lambda: self.commands.publish(message), until, what)


@pytest.fixture(scope="module")
def cell(module_suite, module_client):
    # Without the controller, which holds the joints: here they are commanded directly.
    without = ("trajectory_generator", "articulation_controller", "controller_manager",
               "rmpflow_policy")  # fmt: skip
    module_suite.bring_up("franka@1,0.5,0.7", scene_bodies=True, without=without, rate=100.0)
    made = Cell(module_client)
    made.planner.wait()
    made.wait_for_bodies(0)
    # The inverse kinematics receives the scene from the planner, later under load.
    below = GetStateValidity.Request(robot_state=state(BELOW))

    def floor_known() -> bool:  # not only a contact of the robot with itself
        answer = module_client.call(GetStateValidity, "/check_state_validity", below)
        return FLOOR in {contact.contact_body_2 for contact in answer.contacts}

    module_client.wait(floor_known, "the floor in the scene of the inverse kinematics")
    module_client.wait(
        lambda: made.scene().robot_state.joint_state.position, "the planner to know the arm's state"
    )
    return made


def test_the_floor_is_in_the_scene(cell):
    scene = cell.scene()
    floor = next(item for item in scene.world.collision_objects if item.id == FLOOR)
    assert len(floor.planes) == 1
    assert floor.pose.position.z == 0.0
    matrix = scene.allowed_collision_matrix
    row = matrix.entry_values[list(matrix.entry_names).index(FLOOR)].enabled
    allowed = {name for name, value in zip(matrix.entry_names, row, strict=True) if value}
    assert allowed == {"panda_link0"}


def test_what_is_in_the_floor_is_refused_with_its_name(cell):
    request = GetStateValidity.Request(robot_state=state(BELOW))
    answer = cell.client.call(GetStateValidity, "/check_state_validity", request)
    assert not answer.valid
    assert FLOOR in {c.contact_body_2 for c in answer.contacts}
    here = GetStateValidity.Request(robot_state=state(HOME))
    assert cell.client.call(GetStateValidity, "/check_state_validity", here).valid
    arm = {name: BELOW[name] for name in ARM}
    assert FLOOR in cell.planner.refused(arm)[1]


def test_inverse_kinematics_follows_it(cell):
    request = GetPositionIK.Request()
    asked = request.ik_request
    asked.group_name, asked.avoid_collisions = "arm", True
    asked.robot_state = state(HOME)
    asked.pose_stamped.header.frame_id = "panda_link0"
    place = asked.pose_stamped.pose
    place.position.x, place.position.z, place.orientation.x = 0.5, -0.1, 1.0
    answer = cell.client.call(GetPositionIK, "/compute_ik", request)
    assert answer.error_code.val != 1
    asked.avoid_collisions = False
    assert cell.client.call(GetPositionIK, "/compute_ik", request).error_code.val == 1


def test_an_object_is_a_body_that_links_meet_until_it_is_moved_away_or_removed(cell):
    table = requests.box("table", (0.6, 1.2, 0.3), PLACE)
    cell.apply(requests.diff(table))
    cell.wait_for_bodies(1)
    cell.drive(LOW, lambda: cell.contacts_with("scene:table"), "a contact with the table")
    states = cell.client.listen(JointState, "/joint_states")

    def off() -> float:
        newest = states.messages[-1]
        found = dict(zip(newest.name, newest.position, strict=True))
        return max(abs(found[name] - LOW[name]) for name in ARM)

    cell.drive(LOW, lambda: len(states.messages) > 200, "the arm at rest")
    assert off() > 0.1
    cell.apply(requests.diff(requests.moved("table", (-1.0, 0.0, 0.15))))
    cell.drive(LOW, lambda: off() < 0.05, "the arm where the table was")
    cell.apply(requests.diff(requests.removed("table")))
    cell.wait_for_bodies(0)


def test_an_object_inside_the_robot_is_named_and_holds_nobody(cell):
    cell.apply(requests.diff(requests.box("inside", (0.1, 0.1, 0.1), (0.0, 0.0, 0.35))))
    status = cell.client.wait_for_diagnosis("/mujoco_sim", "scene:inside")
    assert "inside" in status.message
    assert np.isfinite(float(values_of(status)["simulated time [s]"]))
    cell.apply(requests.diff(requests.removed("inside")))
    cell.wait_for_bodies(0)


def test_a_whole_scene_keeps_the_floor_until_it_is_removed_by_its_name(cell):
    """As pymoveit2 clears a scene."""
    cell.apply(requests.diff(requests.box("crate", (0.1, 0.1, 0.1), (0.0, 0.6, 0.3))))
    cell.wait_for_bodies(1)
    cell.apply(requests.emptied(cell.scene()))
    assert cell.names == {FLOOR}
    cell.wait_for_bodies(0)
    cell.apply(requests.diff(CollisionObject(id=FLOOR, operation=CollisionObject.REMOVE)))
    assert cell.names == set()
    request = GetStateValidity.Request(robot_state=state(BELOW))
    # Another node receives the scene from the planner.
    cell.client.wait(
        lambda: cell.client.call(GetStateValidity, "/check_state_validity", request).valid,
        "the kinematics without the floor",
    )
