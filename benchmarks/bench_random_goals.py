# SPDX-License-Identifier: Apache-2.0
"""Random valid joint goals through ``move_action``, judged by the contacts of MuJoCo.

Run: ``python benchmarks/bench_random_goals.py`` (``--goals N``, ``--robots franka ur10e``,
``--obstacles K``). For each robot ``motion up ROBOT --scene-bodies`` runs without page and with the
shipped defaults; nothing is added by hand but random boxes over the planner's
endpoints, which become bodies. Goals are uniform within the joint limits and valid by
``check_state_validity``; they are sent one after the other from this process. A goal that the floor
parts from home is counted and not sent (see ``Separation``). Reported are the
action's results, contacts that are not expected (``/diagnostics`` of the simulation), and the
measured joint speeds (``joint_states``) by their limits. 500 goals take about 40 minutes for each
robot, 60 about five.
"""

from __future__ import annotations

import collections
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from child_processes import Child, isolate, running
from goal_client import GoalClient
from report import Cell, Report, arguments, progress

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.robot import Group, Robot
from motion_nodes.model.tree import Box
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene, world_object
from motion_nodes.scene.scenery import floor_of

ACTION = "move_action"
START = 300.0
"""[s] How long the bring-up may take; the first one on a machine compiles."""
GOAL = 120.0
"""[s] How long a goal may take."""
SIZES = (0.05, 0.25)
"""Of the edges of random boxes [m]."""
REACH = ((-1.0, -1.0, 0.05), (1.0, 1.0, 1.2))
"""Corners of the space that boxes stand in [m]."""
HOME_CLEARANCE = 0.05
"""Boxes stand off the robot's home configuration by so much [m]."""
OTHERS, VALUES = 24, 181
"""Random values of the other joints, and values of the joint that is looked at."""
SUCCESS = 1
"""moveit_msgs/MoveItErrorCodes."""


@dataclass
class Findings:
    """What one robot's goals came to."""

    sent: int = 0
    unreachable: int = 0
    """Valid goals that were not sent, for the floor parts them from home."""
    carried_out: int = 0
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    """How often each reason was given."""
    peak_ratio: float = 0.0
    """Max measured joint speed as a multiple of its limit."""
    peak_joint: str = ""
    contacts: int = 0
    depth: float = 0.0
    """[m]"""
    force: float = 0.0
    """[N]"""
    pairs: str = ""
    bodies: int = 0
    seconds: float = 0.0


class GoalCell:
    """Listens to one robot, and sends its goals."""

    def __init__(self, node: Any, robot: Robot) -> None:
        """Subscribe; answers arrive while the client waits."""
        from diagnostic_msgs.msg import DiagnosticArray
        from moveit_msgs.action import MoveGroup
        from moveit_msgs.srv import ApplyPlanningScene, GetStateValidity
        from sensor_msgs.msg import JointState

        self.robot = robot
        self.group: Group = next(g for g in robot.groups.values() if g.tip is not None)
        self.client = GoalClient(node, ACTION, MoveGroup)
        self.simulation: dict[str, str] = {}
        self.planner: dict[str, str] = {}
        self.findings = Findings()
        self._index: tuple[tuple[str, ...], list[int]] = ((), [])
        self._limit = dict(zip(robot.joint_names, robot.limits.velocity, strict=True))
        self._validity = node.create_client(GetStateValidity, "check_state_validity")
        self._scene = node.create_client(ApplyPlanningScene, "apply_planning_scene")
        node.create_subscription(JointState, "joint_states", self._hear, 100)
        node.create_subscription(DiagnosticArray, "/diagnostics", self._diagnose, 100)

    def wait(self) -> None:
        """Wait until the planner plans and the simulation reports."""
        self.client.wait(
            lambda: self.planner.get("ready to plan") == "True" and self.simulation,
            "the planner", START,
        )  # fmt: skip
        self.client.wait_for_servers()
        self.client.wait(self._validity.service_is_ready, "check_state_validity")

    def valid(self, q: np.ndarray) -> bool:
        """Return whether the planner takes a configuration of the group for valid."""
        from moveit_msgs.srv import GetStateValidity

        request = GetStateValidity.Request(group_name=self.group.name)
        request.robot_state.joint_state.name = list(self.group.joints)
        request.robot_state.joint_state.position = q.tolist()
        return bool(self._call(self._validity, request).valid)

    def add_boxes(self, count: int, rng: np.random.Generator) -> None:
        """Add random boxes to the scene, and wait until they are bodies."""
        from geometry_msgs.msg import Pose
        from moveit_msgs.msg import CollisionObject, PlanningScene
        from moveit_msgs.srv import ApplyPlanningScene
        from shape_msgs.msg import SolidPrimitive

        scene = PlanningScene(is_diff=True)
        scene.robot_state.is_diff = True
        checker = CollisionChecker(self.robot, self.robot.joint_names)
        while len(scene.world.collision_objects) < count:
            size = rng.uniform(*SIZES, 3).tolist()
            place = rng.uniform(*REACH).tolist()
            item = world_object("box", Box(tuple(size)), from_xyz_rpy(place))
            checker.set_scene(Scene({"box": item}))
            if checker.sphere_distances(self.robot.home).distance.min() < HOME_CLEARANCE:
                continue
            name = f"box_{len(scene.world.collision_objects)}"
            message = CollisionObject(id=name, operation=CollisionObject.ADD)
            message.pose.position.x, message.pose.position.y, message.pose.position.z = place
            message.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=size)]
            message.primitive_poses = [Pose()]
            scene.world.collision_objects.append(message)
        if not self._call(self._scene, ApplyPlanningScene.Request(scene=scene)).success:
            sys.exit("the boxes were refused")
        self.client.wait(
            lambda: self.simulation.get("scene bodies") == str(count), "boxes as bodies"
        )

    def send(self, q: np.ndarray) -> None:
        """Have the robot go to a configuration, and note what became of it."""
        from moveit_msgs.action import MoveGroup
        from moveit_msgs.msg import Constraints, JointConstraint

        goal = MoveGroup.Goal()
        goal.request.group_name = self.group.name
        goal.request.goal_constraints = [
            Constraints(
                joint_constraints=[
                    JointConstraint(joint_name=name, position=value)
                    for name, value in zip(self.group.joints, q.tolist(), strict=True)
                ]
            )
        ]
        found = self.findings
        found.sent += 1
        ended = self.client.finish(self.client.send_goal(goal), GOAL)
        if ended.result is None:
            found.refused["rejected by the action"] += 1
            return
        code = ended.result.result.error_code
        if code.val == SUCCESS:
            found.carried_out += 1
        else:
            found.refused[f"{code.val}: {code.message}"] += 1

    def conclude(self) -> None:
        """Take over what the simulation reports, after its next two reports."""
        self.client.spin(2.2)
        found, told = self.findings, self.simulation
        found.contacts = int(told.get("contacts", -1))
        found.depth = float(told.get("contact depth max [m]", "nan"))
        found.force = float(told.get("contact force max [N]", "nan"))
        found.pairs = told.get("contact pairs", "")
        found.bodies = int(told.get("scene bodies", -1))

    def _call(self, client: Any, request: Any) -> Any:
        future = client.call_async(request)
        self.client.wait(future.done, client.srv_name)
        return future.result()

    def _hear(self, message: Any) -> None:
        names = tuple(message.name)
        if names != self._index[0]:
            where = {name: i for i, name in enumerate(names)}
            self._index = names, [where[name] for name in self.group.joints]
        for name, i in zip(self.group.joints, self._index[1], strict=True):
            ratio = abs(message.velocity[i]) / self._limit[name]
            if ratio > self.findings.peak_ratio:
                self.findings.peak_ratio, self.findings.peak_joint = ratio, name

    def _diagnose(self, message: Any) -> None:
        for status in message.status:
            values = {entry.key: entry.value for entry in status.values}
            if status.name == "mujoco_sim":
                self.simulation = values
            elif status.name == "move_group":
                self.planner = values


class Separation:
    """Values of single joints at which the floor is touched whatever the other joints do.

    A joint cannot pass such a value, so a goal on its other side is valid and cannot be reached:
    the shoulder of a UR10e turns by a turn to either side, and its upper arm never passes below.
    """

    def __init__(self, robot: Robot, group: Group) -> None:
        """Look at each joint's range."""
        checker = CollisionChecker(robot, robot.joint_names, scene=floor_of(robot).scene())
        rng = np.random.default_rng(2)
        self._indices = group.indices
        self._home = robot.home[group.indices]
        others = np.tile(robot.home, (OTHERS, 1))
        others[:, group.indices] = rng.uniform(
            group.limits.lower, group.limits.upper, (OTHERS, len(group.joints))
        )
        self._blocked: list[np.ndarray] = []
        for index, low, high in zip(
            group.indices, group.limits.lower, group.limits.upper, strict=True
        ):
            values = np.linspace(low, high, VALUES)
            self._blocked.append(
                np.array([v for v in values if self._touched(checker, others, index, v)])
            )

    def parts(self, q: np.ndarray) -> bool:
        """Return whether the floor is between home and a configuration of the group."""
        return any(
            bool(((min(a, b) < blocked) & (blocked < max(a, b))).any())
            for a, b, blocked in zip(self._home, q, self._blocked, strict=True)
        )

    def _touched(
        self, checker: CollisionChecker, others: np.ndarray, index: int, value: float
    ) -> bool:
        """Return whether one and the same link is in the floor whatever the other joints do."""
        always: set[str] | None = None
        for q in others:
            q = q.copy()
            q[index] = value
            found = {c.pair[0] for c in checker.explain(q) if c.kind == "world"}
            always = found if always is None else always & found
            if not always:
                return False
        return True


def measure(name: str, options: Any) -> Findings:
    """Return what the goals of one robot came to."""
    import rclpy

    motion = str(Path(sys.executable).with_name("motion"))
    with running([motion, "up", name, "--viewer", "none", "--scene-bodies"]) as children:
        node = rclpy.create_node("bench_random_goals")
        cell = GoalCell(node, load_robot(name))
        cell.wait()
        rng = np.random.default_rng(options.seed)
        if options.obstacles:
            cell.add_boxes(options.obstacles, rng)
        lower, upper = cell.group.limits.lower, cell.group.limits.upper
        separation = Separation(cell.robot, cell.group)
        begin = time.monotonic()
        while cell.findings.sent < options.goals:
            q = rng.uniform(lower, upper)
            if not cell.valid(q):
                continue
            if separation.parts(q):
                cell.findings.unreachable += 1
            else:
                cell.send(q)
                note(cell.findings, children[0])
        cell.findings.seconds = time.monotonic() - begin
        cell.conclude()
        cell.client.close()
        node.destroy_node()
    return cell.findings


def note(found: Findings, child: Child) -> None:
    """Say how far it is; fail when the suite has ended."""
    child.check()
    if found.sent % 10 == 0:
        progress(f"{found.sent} sent, {found.carried_out} carried out, {dict(found.refused)}")


def main() -> None:
    """Send goals to each robot, and print what became of them."""
    parser = arguments(__doc__)
    parser.add_argument("--goals", type=int, default=60, help="for each robot")
    parser.add_argument("--robots", nargs="+", default=["franka", "ur10e"], metavar="ROBOT")
    parser.add_argument("--obstacles", type=int, default=0, help="random boxes in the scene")
    parser.add_argument("--seed", type=int, default=1, help="of goals and boxes")
    options = parser.parse_args()
    isolate()
    import rclpy

    report = Report("Random valid goals through move_action")
    rclpy.init(args=[])
    found = {}
    for robot in options.robots:
        progress(f"{options.goals} goals of {robot}, {options.obstacles} boxes")
        found[robot] = measure(robot, options)
    rclpy.shutdown()
    rows: list[list[Cell]] = [
        [robot, f.sent, f.carried_out, f.sent - f.carried_out, f.unreachable, f.contacts,
         1e3 * f.depth, f.force, f.peak_ratio, f.bodies, f.seconds]
        for robot, f in found.items()
    ]  # fmt: skip
    notes = []
    for robot, f in found.items():
        notes += [f"{robot}: {count} x {reason}" for reason, count in f.refused.most_common()]
        notes += [f"{robot}: contacts: {f.pairs}"] if f.pairs else []
        notes += [f"{robot}: peak speed of {f.peak_joint}"]
    report.table(
        f"{options.goals} goals each, {options.obstacles} boxes, seed {options.seed}",
        ["", "goals", "carried out", "not", "unreachable, not sent", "contacts",
         "max depth [mm]", "max force [N]", "peak speed / limit", "bodies", "s"],
        rows,
        "\n".join(notes),
    )  # fmt: skip
    report.write(options.json)
    failed = any(f.carried_out < f.sent or f.contacts for f in found.values())
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
