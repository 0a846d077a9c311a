# SPDX-License-Identifier: Apache-2.0
"""Stops in every cycle of a task, and finger faults: the held object stays known.

After each, the next task or plan succeeds. Without nodes:

the tool reaches its targets, a cube follows the closed fingers, and the messages of the task server
change the scene.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import KeyValue
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.scene.world import World
from motion_nodes.extras.tasks.served_task import CANCELED, RulePlanner
from motion_nodes.extras.tasks.skill_poses import grasps_of
from motion_nodes.extras.tasks.task_codes import SkillFailed, TaskCode
from motion_nodes.extras.tasks.task_runner import TaskRunner, TaskStatus
from motion_nodes.nodes.task.arm_motions import ArmMotions
from motion_nodes.nodes.task.holding import FREE_FORCE, LOAD_SHARE
from motion_nodes.nodes.task.observed_objects import ObservedObjects
from motion_nodes.nodes.task.reachability import raised
from motion_nodes.nodes.task.skill_parts import SkillParts
from motion_nodes.nodes.task.skill_robot import RobotSkills, TaskRobot
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.names import CONTACT
from motion_nodes.ros.scene.collision_objects import change_attached, change_object
from motion_nodes.ros.scene.scene_update import SceneDraft

TASK = "put the red cube on the shelf"
PHASES = {"approach", "pre_grasp", "grasp", "lift", "find place", "move", "let down", "release",
          "retreat", "check"}  # fmt: skip
SIDE, SHELF_TOP = 0.04, 0.1
PERIOD = 0.05


class Compliance:
    """Impedance control of the hand of a cell."""

    def __init__(self, cell: Cell) -> None:
        self.cell, self.available = cell, True

    @property
    def force(self) -> Any:
        return self.cell.force

    def begin(self, settings: Any) -> Iterator[None]:
        yield
        if not self.available:
            raise SkillFailed("the arm has no impedance control")

    def follow(self, poses: Any, speed: float) -> Iterator[None]:
        yield from self.cell.straight(poses[-1], what="compliant push")

    def end(self) -> Iterator[None]:
        yield

    def abort(self) -> None: ...


class Cell:
    """A hand, a cube and a shelf; each :meth:`tick` is a cycle of the task server."""

    def __init__(self, hides: bool = False) -> None:
        """Args: hides: whether the detector misses objects near the hand."""
        self.hides, self.seen, self.gone = hides, (0.0, np.eye(4)), False
        self.clock, self.pose = 100.0, from_xyz_rpy((0.3, 0.0, 0.5), (np.pi, 0, 0))
        self.arm, self.max_width = SimpleNamespace(tip="hand"), 0.08
        self.fingers: float = 0.0
        self.width: float | None = 0.0
        """As it is reported."""
        self.failing: tuple[str, int, bool] | None = None
        """Motion of the fingers that fails, once; after how many cycles; whether nothing reports
        the fingers then."""
        self.jammed = False
        """Whether the fingers stall once when they are to open."""
        self.cube, self.X_TO = from_xyz_rpy((0.45, 0.15, 0.5 * SIDE)), None
        self.shelf, self.can = from_xyz_rpy((0.5, -0.2, 0.5 * SHELF_TOP)), None
        self.scene = World()
        self.frames: Any = SimpleNamespace(
            base="base", link=lambda name: name, link_pose=lambda name: self.pose, own=str,
            pose=lambda name, *_: np.eye(4),
        )  # fmt: skip
        node: Any = SimpleNamespace(
            poll=lambda *_: SimpleNamespace(newest=self._detections),
            advertise=lambda *_: SimpleNamespace(publish=self._change),
            now=lambda: self.clock,
            warn=lambda *_: None,
        )
        self.objects = ObservedObjects(
            node, SimpleNamespace(world=self.scene), SimpleNamespace(base_frame="base"),
            lambda: np.eye(4), "/objects",
        )  # fmt: skip
        motions: Any = self
        node.params = SimpleNamespace(check_grasp=True)
        reach: Any = SimpleNamespace(
            grasp=self._grasp, place=self._place, pour=self._pour, push=self._push
        )
        self.limit: float | None = None
        """Limit of the force of the current motion [N]."""
        self.unlimited = set[tuple[str, bool]]()
        """Motions that moved without one, and whether they moved up or down."""
        touching = frozenset(("hand",))
        self.compliance: Any = Compliance(self)
        parts = SkillParts(node, motions, self.compliance, self.objects, self.scene, touching)
        self.robot = TaskRobot(RobotSkills(parts, reach))
        for _ in range(5):
            self.tick()

    @property
    def grips(self) -> bool:
        return self.X_TO is not None

    def begin(self) -> TaskRunner:
        return TaskRunner(self.robot, RulePlanner().plan(TASK, self.robot.observe()))

    def tick(self, runner: TaskRunner | None = None) -> None:
        self.clock += PERIOD
        self.objects.update(self.clock)
        self.robot.watch()
        if runner is not None:
            runner.tick()

    def finish(self, runner: TaskRunner) -> None:
        for _ in range(1000):
            self.tick(runner)
            if runner.state is not TaskStatus.RUNNING:
                return
        raise AssertionError(f"endless in {runner.phase}")

    # motions
    def cancel_all(self) -> None: ...

    def grasp_report(self) -> str:
        return ""

    force: Any = None
    """Measured force at the tool."""

    def limit_force(self, force: float | None) -> None:
        self.limit = force

    def learn_force_limit(self) -> Iterator[None]:
        yield

    def tool_pose(self) -> np.ndarray:
        return self.pose

    def positions(self) -> np.ndarray:
        return self.pose

    def drop(self, fingers: bool) -> None:
        """Let the cube fall to the table; the fingers close where they can."""
        self.X_TO, self.cube = None, from_xyz_rpy((0.4, 0.05, 0.5 * SIDE))
        if fingers:
            self.fingers = self.width = 0.0

    def to_state(self, name: str) -> Iterator[None]:
        for y in (0.1, 0.0, -0.1, -0.2, 0.0):
            yield from self.straight(from_xyz_rpy((0.3, y, 0.5), (np.pi, 0.0, 0.0)), what=name)

    def to_joints(self, q: np.ndarray, what: str) -> Iterator[None]:
        yield from self.straight(q, what=what)

    def straight(
        self, *poses: np.ndarray, what: str, speed: float = 1.0, checked: bool = True
    ) -> Iterator[None]:
        for pose in poses:
            begin = self.pose[:3, 3].copy()
            for s in (0.5, 1.0):
                yield
                if self.limit is None:
                    self.unlimited.add((what, abs(float(pose[2, 3] - begin[2])) > 1e-6))
                self.pose = np.array(pose)
                self.pose[:3, 3] = begin + s * (pose[:3, 3] - begin)
                if self.X_TO is not None:
                    self.cube = self.pose @ self.X_TO

    def open(self) -> Iterator[None]:
        if self.jammed:
            self.jammed = False
            yield
            return
        for number, step in enumerate((0.003, 0.01, 0.08)):
            yield
            self._fail("open", number)
            self.fingers = self.width = min(self.fingers + step, self.max_width)
            if self.X_TO is not None:
                self.X_TO = None
                over_shelf = np.abs((self.cube - self.shelf)[:2, 3]).max() < 0.1
                self.cube[2, 3] = 0.5 * SIDE + (SHELF_TOP if over_shelf else 0.0)

    def close(self) -> Any:
        X = inverse(self.pose) @ self.cube
        between = float(np.linalg.norm(X[:3, 3])) < 0.03
        least = SIDE if between else 0.0
        for number, width in enumerate((0.07, 0.05, least, least)):
            yield
            self._fail("close", number)
            self.fingers = self.width = min(self.fingers, max(width, least))
            if between and self.fingers <= SIDE:
                self.X_TO = X
        return self.fingers

    def _fail(self, motion: str, cycle: int) -> None:
        if self.failing is not None and self.failing[:2] == (motion, cycle):
            if self.failing[2]:
                self.width = None
            self.failing = None
            raise SkillFailed("the drives of the fingers are off")

    def cancel(self) -> None:
        """Nothing to do: closing its generator ends a motion."""

    def _grasp(self, target: Any, max_width: float) -> Any:
        yield
        grasp = grasps_of(target, max_width)[0]
        return grasp, raised(grasp.X_WG)

    def _place(self, poses: Any, X_OT: np.ndarray) -> Any:
        yield
        return poses[0], raised(poses[0] @ X_OT)

    def _pour(self, pose: np.ndarray, X_OT: np.ndarray, angle: float) -> Any:
        yield
        begin = pose @ X_OT
        return begin, begin @ from_xyz_rpy((0.0, 0.0, 0.0), (0.0, angle, 0.0)), begin

    def _push(self, begin: np.ndarray, end: np.ndarray, target: Any) -> Any:
        yield
        first, last = (from_xyz_rpy(at, (np.pi, 0.0, 0.0)) for at in (begin, end))
        return first, last, raised(first)

    # planning scene and detector
    def _change(self, message: CollisionObject | AttachedCollisionObject) -> None:
        draft = SceneDraft(self.scene.scene)
        attached = isinstance(message, AttachedCollisionObject)
        (change_attached if attached else change_object)(draft, message, self.frames)
        self.scene.replace(draft.scene())

    def _detections(self) -> MarkerArray:
        message = MarkerArray()
        far = float(np.linalg.norm((self.pose - self.cube)[:3, 3])) > 0.08
        if far or not self.hides:
            self.seen = self.clock, np.array(self.cube)
        elif self.objects.held:
            self.seen = self.seen[0], np.array(self.cube)  # as held by the hand
        for name, X, size in (
            ("red_cube", self.seen[1], 3 * (SIDE,)),
            ("shelf", self.shelf, (0.2, 0.2, 0.1)),
            ("can", self.can, (0.05, 0.05, 0.1)),
        ):
            if X is None or (self.gone and name == "red_cube"):
                continue
            marker = Marker(ns=name, type=Marker.CUBE, pose=pose_message(X))
            marker.scale.x, marker.scale.y, marker.scale.z = size
            stamp = self.seen[0] if name == "red_cube" else self.clock
            marker.header.stamp.sec = int(stamp)
            marker.header.stamp.nanosec = int(1e9 * (stamp % 1.0))
            message.markers.append(marker)
        return message


def stopped_after(ticks: int) -> tuple[Cell, str] | None:
    """Return the cell and the phase in which a task was stopped; None if it had ended."""
    cell = Cell()
    runner = cell.begin()
    for _ in range(ticks):
        cell.tick(runner)
    if runner.state is not TaskStatus.RUNNING:
        assert runner.state is TaskStatus.SUCCEEDED, runner.reason
        return None
    phase = runner.phase
    runner.cancel(CANCELED)
    assert runner.state is TaskStatus.CANCELED
    for _ in range(5):
        cell.tick(runner)
    assert runner.state is TaskStatus.CANCELED
    return cell, phase


def test_a_stop_at_any_moment_keeps_the_load_known_and_the_next_task_succeeds():
    seen = set()
    for ticks in range(1, 200):
        found = stopped_after(ticks)
        if found is None:
            break
        cell, phase = found
        seen.add(phase)
        where = f"stopped after {ticks} cycles, in {phase}"
        if cell.grips:
            assert cell.objects.held == "red_cube", where
        elif cell.objects.held:
            assert cell.fingers <= SIDE + 0.004, f"{where}: not held, but attached"
        runner = cell.begin()
        cell.finish(runner)
        assert runner.state is TaskStatus.SUCCEEDED, f"{where}: {runner.reason}"
        assert not [e.text for e in runner.events if "failed" in e.text], where
        assert cell.cube[2, 3] == pytest.approx(SHELF_TOP + 0.5 * SIDE), where
        assert not cell.grips, where
        assert cell.objects.held is None, where
        assert cell.width == cell.max_width, where
        known = cell.scene.scene.objects["red_cube"].X_WO[:3, 3]
        assert known == pytest.approx(cell.cube[:3, 3], abs=3e-3), where
    else:
        raise AssertionError("the task does not end")
    assert seen >= PHASES


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize(("motion", "cycles"), [("close", 4), ("open", 3)])
def test_fingers_that_fail_on_the_load_keep_it_known(motion, cycles, silent):
    held = set()
    for cycle in range(cycles):
        where = f"{motion} fails in cycle {cycle}"
        cell = Cell()
        runner = cell.begin()
        while runner.phase != {"close": "grasp", "open": "release"}[motion]:
            cell.tick(runner)
        cell.failing = (motion, cycle, silent)
        while cell.failing is not None:
            cell.tick(runner)
        held.add(cell.grips)
        for _ in range(2):  # up to the next skill, which may release it soon
            if cell.grips:
                assert cell.objects.held == "red_cube", where
            cell.objects.update(cell.clock)
        cell.finish(runner)
        assert runner.state is TaskStatus.SUCCEEDED, f"{where}: {runner.reason}"
        assert [e.text for e in runner.events if "drives of the fingers are off" in e.text], where
        assert cell.cube[2, 3] == pytest.approx(SHELF_TOP + 0.5 * SIDE), where
        assert cell.objects.held is None, where
        assert not cell.grips, where
        known = cell.scene.scene.objects["red_cube"].X_WO[:3, 3]
        assert known == pytest.approx(cell.cube[:3, 3], abs=3e-3), where
    assert held == {False, True}


def test_a_load_whose_fingers_do_not_open_is_not_lifted_but_released_again():
    cell = Cell()
    runner = cell.begin()
    while runner.phase != "let down":
        cell.tick(runner)
    cell.jammed = True
    while runner.state is TaskStatus.RUNNING:
        cell.tick(runner)
        assert runner.phase != "retreat" or not cell.grips
    assert runner.state is TaskStatus.SUCCEEDED, runner.reason
    assert len([e.text for e in runner.events if "did not open" in e.text]) == 1
    assert cell.cube[2, 3] == pytest.approx(SHELF_TOP + 0.5 * SIDE)
    assert cell.objects.held is None


@pytest.mark.parametrize("silent", [False, True])
def test_a_pick_whose_fingers_fail_grips_again_and_lifts(silent):
    for cycle in range(4):
        cell = Cell()
        plan = RulePlanner().plan("pick the red cube", cell.robot.observe())
        runner = TaskRunner(cell.robot, plan)
        while runner.phase != "grasp":
            cell.tick(runner)
        cell.failing = ("close", cycle, silent)
        cell.finish(runner)
        where = f"close fails in cycle {cycle}"
        assert runner.state is TaskStatus.SUCCEEDED, f"{where}: {runner.reason}"
        assert cell.grips, where
        assert cell.objects.held == "red_cube", where
        assert cell.cube[2, 3] > 0.5 * SIDE + 0.05, f"{where}: not lifted"
        assert not cell.robot.observe().grip_unsure, where


def test_a_camera_that_does_not_see_into_the_hand_is_enough():
    cell = Cell(hides=True)
    runner = cell.begin()
    cell.finish(runner)
    assert runner.state is TaskStatus.SUCCEEDED, runner.reason
    assert not [e.text for e in runner.events if "failed" in e.text]
    assert cell.cube[2, 3] == pytest.approx(SHELF_TOP + 0.5 * SIDE)
    # Without any detections the task fails.
    runner = cell.begin()
    cell.objects._markers = SimpleNamespace(newest=lambda: None)  # type: ignore[assignment]
    cell.finish(runner)
    assert runner.state is TaskStatus.FAILED
    assert runner.reason.code is TaskCode.NOT_DETECTED


def test_what_was_taken_out_of_stopped_fingers_is_picked_again():
    cell = next(
        found[0] for ticks in range(1, 200)
        if (found := stopped_after(ticks)) is not None
        and found[1] == "grasp" and found[0].grips
    )  # fmt: skip
    cell.cube, cell.X_TO = from_xyz_rpy((0.4, 0.0, 0.5 * SIDE)), None
    runner = cell.begin()
    cell.finish(runner)
    assert runner.state is TaskStatus.SUCCEEDED, runner.reason
    assert [e.text for e in runner.events if "no longer between the fingers" in e.text]
    assert cell.cube[2, 3] == pytest.approx(SHELF_TOP + 0.5 * SIDE)


def test_what_is_lost_at_any_moment_is_not_held_and_the_task_says_so_or_recovers():
    """Losses by fingers that close, or that the detector alone sees, in every cycle and at rest."""
    seen = set()
    for fingers in (True, False):
        for ticks in range(1, 200):
            cell = Cell()
            runner = cell.begin()
            for _ in range(ticks):
                cell.tick(runner)
            if runner.state is not TaskStatus.RUNNING:
                break
            if not cell.grips or cell.robot.observe().held is None:
                continue
            phase = runner.phase
            cell.drop(fingers)
            for _ in range(6):  # the third detection decides, or two measurements of the fingers
                cell.tick(runner)
            assert phase == "release" or cell.robot.observe().held is None, phase
            cell.finish(runner)
            assert runner.state is TaskStatus.SUCCEEDED, (phase, runner.reason)
            assert any("failed" in e.text for e in runner.events), phase
            seen.add(phase)
    assert seen >= {"lift", "find place", "move", "let down"}


@pytest.mark.parametrize("fingers", [True, False], ids=["fingers", "detector"])
def test_a_loss_at_rest_and_in_home_ends_with_its_code(fingers):
    cell = Cell()
    cell.finish(TaskRunner(cell.robot, RulePlanner().plan("pick the cube", cell.robot.observe())))
    assert cell.robot.observe().held == "red_cube"
    home = TaskRunner(cell.robot, RulePlanner().plan("go home", cell.robot.observe()))
    cell.tick(home)
    cell.drop(fingers)
    cell.finish(home)
    assert (home.state, home.reason.code) == (TaskStatus.FAILED, TaskCode.OBJECT_LOST)
    assert cell.robot.observe().held is None
    assert "red_cube" in cell.scene.scene.objects
    # At rest, and then picks are possible again.
    cell.finish(TaskRunner(cell.robot, RulePlanner().plan("pick the cube", cell.robot.observe())))
    cell.drop(fingers)
    for _ in range(6):
        cell.tick()
    assert cell.robot.observe().held is None
    cell.robot.begin()
    again = TaskRunner(cell.robot, RulePlanner().plan("pick the cube", cell.robot.observe()))
    cell.finish(again)
    assert again.state is TaskStatus.SUCCEEDED, again.reason
    assert cell.robot.observe().held == "red_cube"


@pytest.mark.parametrize("near", [True, False])
def test_fingers_around_a_lost_object_open_before_the_arm_moves(near):
    """A motion cannot be planned while they touch it."""
    cell = Cell()
    cell.finish(TaskRunner(cell.robot, RulePlanner().plan("pick the cube", cell.robot.observe())))
    cell.drop(fingers=False)
    cell.fingers = cell.width = 0.6 * SIDE  # it is turned, and has slipped down or away
    if near:
        cell.cube = np.array(cell.pose)
    for _ in range(6):
        cell.tick()
    assert cell.robot.observe().held is None
    cell.robot.begin()
    home = TaskRunner(cell.robot, RulePlanner().plan("go home", cell.robot.observe()))
    begin, opened = np.array(cell.pose), None
    while home.state is TaskStatus.RUNNING:
        cell.tick(home)
        if opened is None and not np.allclose(cell.pose, begin):
            opened = cell.fingers == cell.max_width
    assert home.state is TaskStatus.SUCCEEDED, home.reason
    assert opened is near


@pytest.mark.parametrize("change", ["moved", "turned", "removed", "nudged"])
def test_an_object_that_changes_while_it_is_approached_is_approached_again(change):
    """In every cycle up to the grasp; the tool only moves straight up and down near the table."""
    phases = set()
    for ticks in range(1, 60):
        cell = Cell()
        plan = RulePlanner().plan("pick the cube", cell.robot.observe())
        runner = TaskRunner(cell.robot, plan)
        for _ in range(ticks):
            cell.tick(runner)
        if runner.phase not in ("", "approach", "pre_grasp"):
            break
        phases.add(runner.phase)
        yaw = 0.5 if change == "turned" else 0.0
        y = {"moved": 0.07, "nudged": 0.158}.get(change, 0.15)
        cell.cube = from_xyz_rpy((0.45, y, 0.5 * SIDE), (0.0, 0.0, yaw))
        cell.gone = change == "removed"
        low: list[np.ndarray] = []
        while runner.state is TaskStatus.RUNNING:
            cell.tick(runner)
            if cell.pose[2, 3] < SIDE + 0.03 and not cell.grips:
                low.append(cell.pose[:2, 3].copy())
        assert low == [] or np.ptp(low[-3:], axis=0).max() < 1e-6
        if change == "removed":
            assert runner.state is TaskStatus.FAILED
            assert runner.reason.code in (TaskCode.NOT_DETECTED, TaskCode.UNKNOWN_OBJECT)
            assert cell.robot.observe().held is None
        else:
            assert runner.state is TaskStatus.SUCCEEDED, (runner.phase, runner.reason)
            assert cell.grips
    assert phases - {""} == {"approach", "pre_grasp"}


@pytest.mark.parametrize(
    ("at_start", "afterwards", "code"),
    [
        ({}, {}, TaskCode.MOTION_FAILED),
        ({}, {CONTACT: "external force of 14 N"}, TaskCode.CONTACT),
        ({CONTACT: "an earlier one"}, {}, TaskCode.MOTION_FAILED),
    ],
)
def test_a_motion_that_a_contact_stops_fails_with_that_code(at_start, afterwards, code):
    """As the status of the joint controller says, if it changes after the motion began."""
    pending = [at_start]

    def execute(_: Any) -> Iterator[None]:
        yield
        pending.append(afterwards)
        error = SimpleNamespace(message="the controller aborted")
        return GoalStatus.STATUS_ABORTED, SimpleNamespace(error_code=error)

    def newest() -> Any:
        pairs = pending.pop().items() if pending else ()
        return SimpleNamespace(values=[KeyValue(key=key, value=value) for key, value in pairs])

    motions: Any = object.__new__(ArmMotions)
    motions.arm = SimpleNamespace(name="arm", joint_names=["panda_joint1"])
    motions._move = SimpleNamespace(execute=execute)
    motions._controller = SimpleNamespace(newest=newest)
    with pytest.raises(SkillFailed, match="home: ") as caught:
        list(motions.to_joints(np.zeros(1), "home"))
    assert caught.value.code == code
    assert afterwards.get(CONTACT, "the controller aborted") in str(caught.value)


@pytest.mark.parametrize("change", ["shelf moved", "can on the place"])
def test_a_place_that_changes_is_left_before_it_is_touched_and_chosen_again(change):
    """In every cycle from its choice to the release."""
    phases = set()
    for ticks in range(1, 200):
        cell = Cell()
        runner = cell.begin()
        for _ in range(ticks):
            cell.tick(runner)
        if runner.phase == "release":
            break
        if runner.phase not in ("move", "let down"):
            continue
        phases.add(runner.phase)
        if change == "shelf moved":
            cell.shelf = from_xyz_rpy((0.55, -0.35, 0.5 * SHELF_TOP))
        else:
            cell.can = cell.shelf @ from_xyz_rpy((0.03, 0.03, 0.5 * SHELF_TOP + 0.05))
        begun = cell.pose[2, 3]
        for _ in range(4):
            cell.tick(runner)
        assert cell.grips
        assert cell.pose[2, 3] > min(begun, SHELF_TOP + SIDE) - 0.06, runner.phase
        cell.finish(runner)
        assert runner.state is TaskStatus.SUCCEEDED, (runner.phase, runner.reason)
        assert np.abs((cell.cube - cell.shelf)[:2, 3]).max() < 0.1
        assert cell.cube[2, 3] == pytest.approx(SHELF_TOP + 0.5 * SIDE)
        if cell.can is not None:
            assert np.abs((cell.cube - cell.can)[:2, 3]).max() > 0.045
    assert phases == {"move", "let down"}


@pytest.mark.parametrize("change", ["down", "over"])
def test_what_falls_down_or_over_where_it_is_released_is_not_placed(change):
    cell = Cell()
    runner = cell.begin()
    while runner.phase != "retreat":
        cell.tick(runner)
    fallen = from_xyz_rpy((0.0, 0.0, -0.03)) if change == "down" else from_xyz_rpy(
        (0.0, 0.0, 0.009), (0.25 * np.pi, 0.0, 0.0)
    )  # fmt: skip
    cell.cube = cell.cube @ fallen
    while runner.state is TaskStatus.RUNNING and not any("failed" in e.text for e in runner.events):
        cell.tick(runner)
    assert any("has fallen" in e.text for e in runner.events), runner.events


def test_fingers_that_another_client_closes_do_not_descend_on_an_object():
    phases = set()
    for ticks in range(1, 60):
        cell = Cell()
        runner = TaskRunner(cell.robot, RulePlanner().plan("pick the cube", cell.robot.observe()))
        for _ in range(ticks):
            cell.tick(runner)
        if runner.phase not in ("", "approach", "pre_grasp"):
            break
        if cell.width != cell.max_width:
            continue  # they open
        phases.add(runner.phase)
        cell.fingers = cell.width = 0.0
        for _ in range(3):
            cell.tick(runner)
        lowest = cell.pose[2, 3]
        while cell.width == 0.0 and runner.state is TaskStatus.RUNNING:
            cell.tick(runner)
            assert cell.pose[2, 3] >= lowest - 1e-6
        cell.finish(runner)
        assert runner.state is TaskStatus.SUCCEEDED, (runner.phase, runner.reason)
        assert cell.grips
    assert phases >= {"approach", "pre_grasp"}


def test_what_is_poured_into_is_followed_up_to_the_tilt():
    seen = set()
    for ticks in range(1, 200):
        cell = Cell()
        text = "pour the red cube into the shelf"
        runner = TaskRunner(cell.robot, RulePlanner().plan(text, cell.robot.observe()))
        for _ in range(ticks):
            cell.tick(runner)
        if runner.phase == "bring upright":
            break
        if runner.phase not in ("move", "tilt"):
            continue
        seen.add(begun := runner.phase)
        cell.shelf = from_xyz_rpy((0.4, -0.35, 0.5 * SHELF_TOP))
        tilted: list[np.ndarray] = []
        while runner.state is TaskStatus.RUNNING:
            cell.tick(runner)
            if runner.phase == "tilt" and cell.pose[2, 2] > -0.9:
                tilted.append(cell.pose[:2, 3] - cell.shelf[:2, 3])
        assert runner.state is TaskStatus.SUCCEEDED, (begun, runner.reason)
        if begun == "move":
            assert np.abs(tilted).max() < 0.05
    assert seen == {"move", "tilt"}


def test_a_push_moves_down_beside_the_object_with_a_limited_force_only_if_it_is_there():
    for ticks in range(1, 60):
        cell = Cell()
        text = "push the cube forward"
        runner = TaskRunner(cell.robot, RulePlanner().plan(text, cell.robot.observe()))
        for _ in range(ticks):
            cell.tick(runner)
        if runner.phase == "push":
            break
        if runner.phase != "approach":
            continue
        cell.cube = from_xyz_rpy((0.45, 0.1, 0.5 * SIDE))
        while runner.phase == "approach" and runner.attempt == 1:
            cell.tick(runner)
        assert any("has moved" in e.text for e in runner.events), ticks
    cell.finish(runner)
    assert cell.unlimited == {("compliant push", False)}


def test_a_push_that_is_blocked_ends_with_the_hand_above_the_object():
    cell = Cell()
    text = "push the cube forward"
    cell.compliance.available = False
    runner = TaskRunner(cell.robot, RulePlanner().plan(text, cell.robot.observe()))
    motion = cell.straight

    def blocked(*poses: np.ndarray, what: str, **options: Any) -> Iterator[None]:
        if what == "push":
            yield
            raise SkillFailed("push: external force of 51 N at the tool", TaskCode.CONTACT)
        yield from motion(*poses, what=what, **options)

    cell.straight = blocked  # type: ignore[method-assign]
    cell.finish(runner)
    assert (runner.state, runner.reason.code) == (TaskStatus.FAILED, TaskCode.CONTACT)
    assert cell.pose[2, 3] > SIDE + 0.03


@pytest.mark.parametrize("way", [(0.0, 0.0), (0.0, 0.1), (1.5, 1.0), (-0.1, 0.0)])
def test_a_push_whose_object_is_not_further_along_has_failed(way):
    """It stayed, slipped aside, was taken away in the direction of the push, or pushed back."""
    cell = Cell()
    text = "push the cube forward"
    runner = TaskRunner(cell.robot, RulePlanner().plan(text, cell.robot.observe()))
    while runner.phase != "push":
        cell.tick(runner)
    cell.cube[:2, 3] += way
    while not any("failed" in e.text for e in runner.events):
        cell.tick(runner)
        assert runner.state is TaskStatus.RUNNING
    assert any("instead of 100 mm forward" in e.text for e in runner.events)


def test_a_load_that_touches_something_is_not_taken_for_a_heavier_one():
    """Such as that of a place that was canceled at its end: the force limit would permit more."""
    cell = Cell()
    cell.force = np.array((0.0, 0.0, -1.0))
    cell.finish(TaskRunner(cell.robot, RulePlanner().plan("pick the cube", cell.robot.observe())))
    cell.force = np.array((0.0, 0.0, 10.0))
    runner, limits = cell.begin(), list[float]()
    while runner.phase != "release":
        cell.tick(runner)
        limits += [] if cell.limit is None else [cell.limit]
    assert max(limits) == FREE_FORCE + LOAD_SHARE
