# SPDX-License-Identifier: Apache-2.0
"""Skills of mobile manipulators, and their tasks in MuJoCo."""

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from nodes.lockstep_mobile import LockstepMobile

import motion_nodes as mn
from motion_nodes.core.navigation.footprint import footprint_from
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.robot.tree import Box
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.extras.robot_setup.derived_robot import mounted_folder
from motion_nodes.extras.tasks.served_task import RulePlanner
from motion_nodes.extras.tasks.skill_poses import parse_places, stand_pose, stand_poses
from motion_nodes.extras.tasks.task_codes import SkillFailed
from motion_nodes.extras.tasks.task_plan import PlanStep
from motion_nodes.extras.tasks.task_runner import TaskRunner, TaskStatus
from motion_nodes.extras.tasks.world_state import ObjectState, WorldState
from motion_nodes.nodes.task import skill_parts
from motion_nodes.nodes.task.skill_parts import DriveOutlines, NavigatedBase, SkillParts
from motion_nodes.nodes.task.skill_robot import RobotSkills
from motion_nodes.ros.messages.moveit_messages import pose_of

X_WO = from_xyz_rpy((1.0, -2.0, 0.0), (0.0, 0.0, 0.5))
X_OB = from_xyz_rpy((0.4, 0.3, 0.1), (0.0, 0.0, -1.1))
BODY = footprint_from([(0.2, 0.2), (0.2, -0.2), (-0.2, 0.2), (-0.2, -0.2)], floor=0.0, top=0.5)
CUBE = from_xyz_rpy((4.0, 1.0, 0.7))


class Navigator:
    """Stands for the navigator's action: it records goals, and arrives or refuses."""

    goals: list[Any]
    refusal = ""

    def __init__(self, *_: Any) -> None:
        Navigator.goals = []

    def execute(self, goal: Any) -> Iterator[None]:
        Navigator.goals.append(goal)
        yield
        ended = GoalStatus.STATUS_ABORTED if self.refusal else GoalStatus.STATUS_SUCCEEDED
        return ended, SimpleNamespace(error_msg=self.refusal)


class Robot:
    """Skills whose arm does nothing, on a base at ``X_OB`` in odom."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(skill_parts, "RemoteAction", Navigator)
        monkeypatch.setattr(Navigator, "refusal", "")
        self.known, self.stamp_ns = True, None
        tree: Any = SimpleNamespace(update=lambda: None, pose=self._pose)
        node: Any = SimpleNamespace(
            now_ns=lambda: 10_000_000_000,
            create_client=lambda *_, **__: None,
            params=SimpleNamespace(check_grasp=True, stand_off=0.8),
        )
        self.base = NavigatedBase(
            node, node, tree, ("odom", "base"), X_WO, DriveOutlines(BODY, BODY)
        )
        self.states: list[str] = []
        self.others: dict[str, ObjectState] = {}
        motions: Any = SimpleNamespace(
            arm=None, positions=lambda: None, tool_pose=lambda: None, to_state=self._to_state,
            limit_force=lambda force: None, learn_force_limit=lambda: iter(()),
        )  # fmt: skip
        clock = itertools.count()
        objects: Any = SimpleNamespace(now=lambda: 0.1 * next(clock), held=None)
        self.skills = RobotSkills(
            SkillParts(node, motions, node, objects, node, frozenset(), self.base)
        )

    def navigate(self, location: str) -> list[str]:
        phases: list[str] = []
        cube = ObjectState("cube", inverse(X_WO @ X_OB) @ CUBE, Box((0.1, 0.1, 0.1)))
        state = WorldState({"cube": cube, **self.others}, {"dock": (3.0, 1.0, 0.2)}, has_base=True)
        list(self.skills.work_of(PlanStep("navigate", {"location": location}), state,
                                 phases.append))  # fmt: skip
        return phases

    def goal(self) -> np.ndarray:
        """Return the goal in the world, shape (4, 4)."""
        goal = Navigator.goals[-1]
        assert goal.pose.header.frame_id == "odom"
        return X_WO @ pose_of(goal.pose.pose, "the goal")[0]

    def _pose(self, parent: str, child: str) -> tuple[np.ndarray, int | None]:
        if not self.known:
            raise MotionError("nothing is known")
        assert (parent, child) == ("odom", "base")
        return X_OB, self.stamp_ns

    def _to_state(self, name: str) -> Iterator[None]:
        self.states.append(name)
        yield


def test_the_base_stops_in_front_of_an_object_and_faces_it(monkeypatch):
    robot = Robot(monkeypatch)
    assert list(dict.fromkeys(robot.navigate("cube"))) == ["fold", "drive", "check"]
    assert robot.states == ["home"]
    X = robot.goal()
    seen = inverse(X) @ CUBE
    np.testing.assert_allclose(seen[:2, 3], (0.8, 0.0), atol=1e-6)
    # On the straight line from the start.
    begin, end = (X_WO @ X_OB)[:2, 3], CUBE[:2, 3]
    way, line = X[:2, 3] - begin, end - begin
    assert way[0] * line[1] == pytest.approx(way[1] * line[0], abs=1e-6)


def test_places_are_in_the_frame_of_the_detector(monkeypatch):
    robot = Robot(monkeypatch)
    robot.navigate("dock")
    np.testing.assert_allclose(robot.goal(), from_xyz_rpy((3.0, 1.0, 0.0), (0, 0, 0.2)), atol=1e-6)


def test_drives_that_fail_say_why(monkeypatch):
    robot = Robot(monkeypatch)
    with pytest.raises(SkillFailed, match="moon"):
        robot.navigate("moon")
    robot.known = False
    with pytest.raises(SkillFailed, match="odometry"):
        robot.navigate("cube")
    robot.known = True
    monkeypatch.setattr(Navigator, "refusal", "a gap of 0.3 m is too narrow")
    with pytest.raises(SkillFailed, match="too narrow"):
        robot.navigate("cube")


def test_a_base_that_is_close_only_turns():
    assert stand_pose(np.array((0.0, 0.5, 0.3)), 0.8) == pytest.approx((0.0, 0.0, 0.5 * np.pi))
    assert stand_pose(np.array((3.0, 4.0, 0.3)), 1.0) == pytest.approx(
        (2.4, 3.2, np.arctan2(4.0, 3.0))
    )


def test_all_stand_poses_face_the_point_from_the_same_distance():
    point = np.array((2.0, -1.0, 0.4))
    poses = list(stand_poses(point, 0.7))
    assert len(poses) > 12
    assert poses[0] == stand_pose(point, 0.7)
    for x, y, yaw in poses:
        seen = inverse(from_xyz_rpy((x, y, 0.0), (0.0, 0.0, yaw))) @ from_xyz_rpy(point)
        np.testing.assert_allclose(seen[:2, 3], (0.7, 0.0), atol=1e-9)


def test_an_obstacle_on_the_line_is_passed_by_another_stand_pose(monkeypatch):
    robot = Robot(monkeypatch)
    line = 0.6 * (inverse(X_WO @ X_OB) @ CUBE)[:2, 3]
    robot.others["wall"] = ObjectState("wall", from_xyz_rpy((*line, 0.2)), Box((0.3, 0.3, 0.4)))
    robot.navigate("cube")
    around = robot.goal()
    np.testing.assert_allclose((inverse(around) @ CUBE)[:2, 3], (0.8, 0.0), atol=1e-6)
    free = Robot(monkeypatch)
    free.navigate("cube")
    straight = free.goal()
    assert np.abs(straight - around).max() > 0.1
    # An object above the base is no obstacle.
    above = Robot(monkeypatch)
    above.others["lamp"] = ObjectState("lamp", from_xyz_rpy((*line, 1.5)), Box((0.3, 0.3, 0.4)))
    above.navigate("cube")
    np.testing.assert_allclose(above.goal(), straight)


@pytest.mark.parametrize("word", ["dock", "dock:=1", "dock:=1,x", "dock:=1,2,3,4", "dock:=nan,1"])
def test_places_that_are_none(word):
    assert parse_places(["", "dock:=1,2", "door:=1,2,0.5"]) == {
        "dock": (1.0, 2.0, 0.0), "door": (1.0, 2.0, 0.5)
    }  # fmt: skip
    with pytest.raises(InvalidConfig):
        parse_places([word])


def test_old_odometry_is_none(monkeypatch):
    robot = Robot(monkeypatch)
    robot.stamp_ns = 9_500_000_000
    assert robot.base.pose() is not None
    robot.stamp_ns = 8_000_000_000
    assert robot.base.pose() is None
    with pytest.raises(SkillFailed, match="no odometry"):
        robot.navigate("cube")


SHELF, TABLE, HEIGHT = (1.3, 0.4), (-0.2, -1.4), 0.5
OBJECTS = (
    f"red_cube:=box:0.05,0.05,0.05:0.1@{SHELF[0]},{SHELF[1]},{HEIGHT + 0.025}",
    f"shelf:=box:0.32,0.32,{HEIGHT}:30@{SHELF[0]},{SHELF[1]},{0.5 * HEIGHT}",
    f"table:=box:0.4,0.4,{HEIGHT}:30@{TABLE[0]},{TABLE[1]},{0.5 * HEIGHT}",
)


@pytest.fixture(scope="module")
def model():
    """A Franka on a Nova Carter."""
    folder = mounted_folder("nova_carter", "franka", (0.0, 0.0, 0.422))
    assert mounted_folder("nova_carter", "franka", (0.0, 0.0, 0.422)) == folder, "cached"
    return mn.load_robot(folder)


def test_it_brings_a_cube_from_the_shelf_to_the_table(model):
    robot = LockstepMobile(model, *OBJECTS)
    plan = RulePlanner().plan("bring the red cube to the table", robot.observe())
    assert [step.skill for step in plan] == ["navigate", "pick", "navigate", "place"]
    drifts, driving = [], []
    contacts = set()

    def each(runner: TaskRunner) -> None:
        truth = robot.world.base_pose("arm")
        contacts.update(c.pair for c in robot.world.contacts() if not c.expected)
        drifts.append(np.linalg.norm(truth[:2, 3] - robot.X_WB[:2, 3]))
        if runner.phase == "drive":
            driving.append(np.abs(robot.positions() - robot.arm.state("home")).max())

    runner = robot.run_task(plan, each)
    assert runner.state is TaskStatus.SUCCEEDED, runner.reason
    assert not [e.text for e in runner.events if "failed" in e.text]
    at = robot.world.object_pose("red_cube")[:3, 3]
    np.testing.assert_allclose(at[:2], TABLE, atol=0.15)
    assert at[2] == pytest.approx(HEIGHT + 0.025, abs=2e-3)
    for name, place in (("shelf", SHELF), ("table", TABLE)):
        X = robot.world.object_pose(name)
        np.testing.assert_allclose(X[:2, 3], place, atol=2e-3, err_msg=f"{name} was moved")
    touched = {name for pair in robot.touched for name in pair}
    assert not touched & {"object:shelf", "object:table"}
    assert not contacts, "the fingers may touch the cube, nothing else"
    assert max(driving) < 0.03, "the arm moved while the base drove"
    assert max(drifts) < 0.05
