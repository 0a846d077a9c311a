# SPDX-License-Identifier: Apache-2.0
"""Show "party": two arms and three kinds of bases move at once in one simulation.

A Franka moves by its planner, an xArm 6 by RMPflow; a Jetbot drives a square, a Kaya a square on
which it keeps turning, and a Leatherback laps around them all, by their navigators. Motions are
checked by joint states and ground truth, contacts by MuJoCo.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from geometry_msgs.msg import PoseStamped
from nav2_msgs.action import FollowPath, NavigateToPose
from nav_msgs.msg import Odometry, Path
from sensor_msgs.msg import JointState

from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_description
from motion_nodes.extras.tasks.task_codes import SkillFailed
from motion_nodes.nodes.clients.commands import arm_to_joints
from motion_nodes.nodes.demo.arm import DemoFindings
from motion_nodes.nodes.demo.follow import target_at
from motion_nodes.nodes.demo.routines import RoutineClient, Travel, together
from motion_nodes.nodes.task.remote_work import RemoteAction, Work, require_success
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.planar_messages import pose2_from, stamped_pose
from motion_nodes.ros.names import (
    BASE_CONTROLLERS,
    BASE_NAVIGATOR,
    JOINT_CONTROLLER,
    PLANNER,
    REACTIVE_POLICY,
)
from motion_nodes.typing import Array

PLANNING, REACTIVE = "franka", "xarm6"
"""The arms: by plans, and by RMPflow."""
ROBOTS = (
    f"{PLANNING}:=franka@-1.75,0,0",
    f"{REACTIVE}:=xarm6@0.2,0,0",
    "jetbot:=jetbot@1.3,-1,0",
    "kaya:=kaya@1.3,0.3,0",
    "leatherback:=leatherback@0,-1.5,0",
)
SQUARE, SQUARES = 0.5, 2
"""Side of the squares [m], and how many a base drives."""
PERIMETERS = 4.0 * SQUARES * SQUARE
"""Length of these [m]."""
RADIUS, STRAIGHT = 1.5, 4.0
"""Radius of the ends of the _lap and length of its straights [m]."""
JOINT_GOALS = 2 * ((1.0, -0.4), (-1.0, -0.4), (0.0, -0.785))
"""Positions of the first two joints of the planned arm, others as in ``ready`` [rad]."""
TARGETS = 2 * ((0.4, 0.25, 0.3), (0.4, -0.25, 0.3), (0.45, 0.0, 0.45), (0.3, 0.0, 0.35))
"""Targets of the reactive arm's tool in its base frame [m]."""
ARRIVED = 0.02
"""Distance from a target at which it is reached [m]."""
TARGET_TIMEOUT, TIMEOUT = 60.0, 240.0
"""Max real time for a target, and for the show [s]."""
ATTEMPTS = 3
"""Max number of attempts to reach a goal."""
AT_START = 0.5
"""Distance from the start of a closed path below which it is completed [m]."""
BACK_WITHIN = 0.2
"""Max distance of a base from its start after its round, by ground truth [m]."""
MIN_TOGETHER = 3.0
"""Min time in which all robots move [s]."""
_TARGET_PERIOD = 0.05


class BaseRound(NamedTuple):
    """Motions of a base by its navigator, relative to its start."""

    kind: str
    """Kind of base."""
    poses: tuple[Pose2, ...]
    """Driven to, one after another."""
    path: tuple[Pose2, ...] = ()
    """Followed afterwards."""
    length: float = 0.0
    """Min distance of the round [m]."""


def square(side: float) -> tuple[Pose2, ...]:
    """Return the corners of a square [m], each with the heading of the next side.

    Args:
        side: length of a side; counter-clockwise, and the start is the last corner.
    """
    corners = ((side, 0.0, 1), (side, side, 2), (0.0, side, 3), (0.0, 0.0, 0))
    return tuple(Pose2(x, y, 0.5 * math.pi * turn) for x, y, turn in corners)


def _lap(straight: float, radius: float, spacing: float = 0.1) -> tuple[Pose2, ...]:
    """Return a closed path of two straights and two half circles [m], counter-clockwise."""
    half, turn = 0.5 * straight, math.pi * radius
    ends = (half, half + turn, half + turn + straight, half + 2.0 * turn + straight)

    def at(s: float) -> Pose2:
        if s <= ends[0]:
            return Pose2(s, 0.0, 0.0)
        if s <= ends[1]:
            angle = (s - ends[0]) / radius
            return Pose2(half + radius * math.sin(angle), radius * (1.0 - math.cos(angle)), angle)
        if s <= ends[2]:
            return Pose2(half - (s - ends[1]), 2.0 * radius, math.pi)
        if s <= ends[3]:
            angle = (s - ends[2]) / radius
            return Pose2(
                -half - radius * math.sin(angle), radius * (1.0 + math.cos(angle)), math.pi + angle
            )
        return Pose2(-half + (s - ends[3]), 0.0, 2.0 * math.pi)

    length = 2.0 * (straight + turn)
    return tuple(at(s) for s in np.linspace(0.0, length, math.ceil(length / spacing) + 1).tolist())


ROUNDS = {
    "jetbot": BaseRound("differential", SQUARES * square(SQUARE), length=0.9 * PERIMETERS),
    "kaya": BaseRound("holonomic", SQUARES * square(SQUARE), length=0.9 * PERIMETERS),
    "leatherback": BaseRound(
        "ackermann", (), _lap(STRAIGHT, RADIUS), 0.95 * 2.0 * (STRAIGHT + math.pi * RADIUS)
    ),
}
"""Rounds of the bases, by robot."""
CHECKS = (*(f"{name}: " for name in (PLANNING, REACTIVE, *ROUNDS)), "moved at once", "contact")
"""Checks of a round, see :meth:`DemoFindings.conclude`."""


def _rest_of(path: Sequence[Pose2], here: Pose2) -> tuple[Pose2, ...]:
    """Return the rest of a closed path for a base on it; near its end the whole path remains."""
    nearest = min(range(len(path)), key=lambda k: path[k].distance(here))
    done = path[nearest].distance(path[-1]) < AT_START
    return tuple(path if done else path[nearest:])


def persistent(work: Callable[[], Work], what: str) -> Work:
    """Return work on a goal that is sent again if it fails, as on a machine that is too slow.

    Args:
        work: begins the work on the goal.
        what: name of the motion in errors.

    Raises:
        SkillFailed: the last attempt has failed.
    """
    for attempt in range(ATTEMPTS):
        try:
            require_success((yield from work()), what)
            return
        except SkillFailed:
            if attempt == ATTEMPTS - 1:
                raise


class PartyClient(RoutineClient):
    """Endpoints of all robots, and a record of their motions."""

    def __init__(self) -> None:
        arms = [f"{arm}/{JOINT_CONTROLLER}" for arm in (PLANNING, REACTIVE)]
        bases = [f"{name}/{BASE_CONTROLLERS[base.kind]}" for name, base in ROUNDS.items()]
        navigators = [f"{name}/{BASE_NAVIGATOR}" for name in ROUNDS]
        policy = f"{REACTIVE}/{REACTIVE_POLICY}"
        super().__init__((*arms, *bases, *navigators, f"{PLANNING}/{PLANNER}", policy))
        self.travels: dict[str, Travel] = {}
        """Motion of each robot in this round."""
        self.places: dict[str, Pose2] = {}
        """Ground truth of the bases."""
        self.joints: dict[str, Array] = {}
        self._starts: dict[str, Pose2] = {}
        """Ground truth of the bases before the first round."""
        self.now = 0.0
        """Simulated time of the newest state [s]."""
        self._groups = {arm: load_description(arm).group("arm") for arm in (PLANNING, REACTIVE)}
        robot, group = load_description(REACTIVE), self._groups[REACTIVE]
        self._tool = Kinematics(robot.tree, group.joints, base=robot.base_frame), group.tip or ""
        self._frame = f"{REACTIVE}/{robot.base_frame}"
        self._target = self.node.create_publisher(PoseStamped, f"/{policy}/reference", qos.STREAM)
        for arm in (PLANNING, REACTIVE):
            self.subscribe(
                JointState, f"/{arm}/joint_states", partial(self._on_arm, arm), qos.NEWEST
            )
        self._actions = {}
        for name in ROUNDS:
            self.subscribe(
                Odometry, f"/{name}/ground_truth", partial(self._on_base, name), qos.NEWEST
            )
            self._actions[name] = (
                self._action(NavigateToPose, f"/{name}/navigate_to_pose"),
                self._action(FollowPath, f"/{name}/follow_path"),
            )
        move = arm_to_joints(f"/{PLANNING}", "arm", {})
        self._move = self._action(move.kind, move.action)

    @property
    def ready(self) -> bool:
        """Whether all nodes are ready and all states were received."""
        known = {*self.joints, *self.places} == {PLANNING, REACTIVE, *ROUNDS}
        return known and super().ready

    def _action(self, kind: Any, name: str) -> RemoteAction:
        return RemoteAction(self.node, self.jobs, kind, name, timeout=TARGET_TIMEOUT)

    def start_record(self) -> None:
        """Start a new record of motions."""
        self.travels = {name: Travel() for name in (PLANNING, REACTIVE, *ROUNDS)}

    def routines(self) -> dict[str, Work]:
        """Return the motions of each robot, by robot."""
        return {
            PLANNING: self._planned(),
            REACTIVE: self._reactive(),
            **{name: self._driven(name) for name in ROUNDS},
        }

    def tool(self) -> Array:
        """Return the position of the reactive arm's tool in its base frame [m], shape (3,)."""
        kinematics, tip = self._tool
        return kinematics.pose(self.joints[REACTIVE], tip)[:3, 3]

    def _planned(self) -> Work:
        names = self._groups[PLANNING].joints
        ready = load_description(PLANNING).named_state("ready")
        for first, second in JOINT_GOALS:
            q = [first, second, *map(float, ready[2 : len(names)])]
            request = arm_to_joints("", "arm", dict(zip(names, q, strict=True)))
            yield from persistent(partial(self._move.execute, request.goal), "plan")

    def _reactive(self) -> Work:
        for target in TARGETS:
            end, sent = time.monotonic() + TARGET_TIMEOUT, -math.inf
            while (away := float(np.linalg.norm(self.tool() - target))) > ARRIVED:
                if time.monotonic() > end:
                    raise SkillFailed(f"{1e3 * away:.0f} mm from target {target} m")
                if abs(self.now - sent) > _TARGET_PERIOD:
                    sent = self.now
                    self._target.publish(target_at(target, self._frame, self.now))
                yield

    def _driven(self, name: str) -> Work:
        to_pose, along = self._actions[name]
        this, frame = ROUNDS[name], f"{name}/odom"
        for pose in this.poses:
            goal = NavigateToPose.Goal(pose=stamped_pose(pose, frame, 0))
            yield from persistent(partial(to_pose.execute, goal), "navigate_to_pose")

        def rest() -> Work:
            here = self._starts[name].inverse().compose(self.places[name])
            path = Path(poses=[stamped_pose(pose, frame, 0) for pose in _rest_of(this.path, here)])
            path.header.frame_id = frame
            return along.execute(FollowPath.Goal(path=path))

        if this.path:
            yield from persistent(rest, "follow_path")

    def _on_arm(self, name: str, message: JointState) -> None:
        positions = dict(zip(message.name, message.position, strict=False))
        q = np.array([positions.get(joint, math.nan) for joint in self._groups[name].joints])
        if np.isfinite(q).all():
            self.joints[name], self.now = q, stamp_ns(message) * 1e-9
            self._moved(name, q, self.now)

    def _on_base(self, name: str, message: Odometry) -> None:
        pose = self.places[name] = pose2_from(message.pose.pose)
        self._starts.setdefault(name, pose)
        self._moved(name, np.array((pose.x, pose.y)), stamp_ns(message) * 1e-9)

    def _moved(self, name: str, position: Array, time: float) -> None:
        if name in self.travels:
            self.travels[name].update(time, position)


def show_party(client: PartyClient, findings: DemoFindings) -> None:
    """Move all robots once, and check their motions."""
    starts, contacts = dict(client.places), client.contacts
    client.start_record()
    failures = client.run(client.routines(), TIMEOUT)
    if "stopped" in failures.values():
        return
    for text, ok in checks(failures, client.travels, starts, client.places):
        findings.check(ok, text)
    client.check_contacts(findings, contacts)


def checks(
    failures: dict[str, str],
    travels: dict[str, Travel],
    starts: dict[str, Pose2],
    ends: dict[str, Pose2],
) -> Iterator[tuple[str, bool]]:
    """Return the text and the result of each check of a round.

    Args:
        failures: why a robot failed, by robot; empty if it did not.
        travels: motions, by robot.
        starts: poses of the bases before, in the world, by robot.
        ends: the same afterwards.
    """
    for name, failure in failures.items():
        length = travels[name].length
        if name in ROUNDS:
            away, min_length = starts[name].distance(ends[name]), ROUNDS[name].length
            done = f"drove {length:.2f} m, and is {100 * away:.1f} cm from its start"
            ok = length >= min_length and away <= BACK_WITHIN
        else:
            by = "by plans" if name == PLANNING else "by RMPflow"
            done, ok = (
                f"reached all its targets {by}; its joints moved {length:.1f} rad",
                (length > 1.0),
            )
        yield f"{name}: {failure or done}", ok and not failure
    at_once = together(list(travels.values()))
    yield f"all of them moved at once for {at_once:.1f} s", at_once >= MIN_TOGETHER
