# SPDX-License-Identifier: Apache-2.0
"""Mixed clients of one suite: does every valid goal succeed, or is refused before it begins?

Run: ``python benchmarks/bench_mixed_clients.py --minutes 60`` (starts ``motion up`` by itself).

One after the other by chance, each beginning where the one before left the arm: plans through
move_action, trajectories, targets of the policy that are cleared while it moves, grips, changes of
the planning scene, and targets that preempt a plan on purpose; a base beside it drives to poses all
the while. Prints for each kind how many were valid, succeeded, were refused before they began (with
the reasons) and failed after. Exit code 1 when one failed after it began.
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from child_processes import Child, isolate
from control_msgs.action import FollowJointTrajectory, GripperCommand
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from goal_client import ACTION, Goal, GoalClient
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import CollisionObject, Constraints, JointConstraint, MoveItErrorCodes
from moveit_msgs.msg import PlanningScene as PlanningSceneMessage
from moveit_msgs.srv import ApplyPlanningScene, GetStateValidity
from nav2_msgs.action import NavigateToPose
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.model.loader import load_robot

MOVE, GRIP = "move_action", "gripper_action_controller/gripper_cmd"
DRIVE = "base/navigate_to_pose"
SUCCEEDED = 4
STARTED = (MoveItErrorCodes.CONTROL_FAILED, MoveItErrorCodes.PREEMPTED)
"""Codes of motions that had begun."""
PLANS, STEPS = 60.0, 30.0
"""[s] Longest wait for a plan with its motion, and for anything else."""


class Tally:
    """How the goals of each kind ended."""

    def __init__(self) -> None:
        self.succeeded: collections.Counter[str] = collections.Counter()
        self.refused: dict[str, collections.Counter[str]] = collections.defaultdict(
            collections.Counter
        )
        self.failed: dict[str, list[str]] = collections.defaultdict(list)

    def note(self, kind: str, *, good: bool, started: bool = True, why: str = "") -> None:
        """Count an end."""
        if good:
            self.succeeded[kind] += 1
        elif started:
            self.failed[kind].append(why)
        else:
            self.refused[kind][re.sub(r"-?\d+(\.\d+)?", "#", why)[:90]] += 1

    def show(self) -> None:
        """Print the table."""
        print(f"{'kind':24}{'goals':>7}{'succeeded':>11}{'refused':>9}{'failed after':>14}")
        for kind in sorted({*self.succeeded, *self.refused, *self.failed}):
            good, bad = self.succeeded[kind], len(self.failed[kind])
            refused = sum(self.refused[kind].values())
            print(f"{kind:24}{good + bad + refused:7}{good:11}{refused:9}{bad:14}")
        for kind, reasons in self.refused.items():
            for reason, count in reasons.most_common(6):
                print(f"  refused {kind}: {count} x {reason}")
        for kind, texts in self.failed.items():
            for text in texts[:8]:
                print(f"  FAILED {kind}: {text[:230]}")


class Clients:
    """All clients in one process."""

    def __init__(self, node: Node, seed: int) -> None:
        self.random = random.Random(seed)
        self.tally = Tally()
        self._robot = load_robot("franka")
        self._arm = self._robot.group("arm").joints
        self._client = GoalClient(node)
        for action, kind in ((MOVE, MoveGroup), (GRIP, GripperCommand), (DRIVE, NavigateToPose)):
            self._client.add(action, kind)
        self._node = node
        self._q: dict[str, float] = {}
        self._policy = ""
        node.create_subscription(JointState, "joint_states", self._on_state, 10)
        node.create_subscription(DiagnosticStatus, "rmpflow_policy/status", self._on_status, 10)
        self._target = node.create_publisher(
            PoseStamped, "rmpflow_policy/reference", QoSProfile(depth=10)
        )
        self._clear = node.create_client(Trigger, "rmpflow_policy/clear_target")
        self._scene = node.create_client(ApplyPlanningScene, "apply_planning_scene")
        self._valid = node.create_client(GetStateValidity, "check_state_validity")
        self._boxes = 0
        self._driving: Goal | None = None

    def wait_for_all(self) -> None:
        """Wait until everything is there."""
        self._client.wait_for_servers()
        self._client.wait(lambda: len(self._q) > 8 and self._policy, "the arm and its policy")

    def run(self, seconds: float) -> None:
        """Send goals for a duration [s]."""
        kinds = (
            (self._plan, 4), (self._trajectory, 4), (self._cleared, 4), (self._grip, 2),
            (self._change_scene, 1), (self._preempted_plan, 1),
        )  # fmt: skip
        jobs, weights = zip(*kinds, strict=True)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._drive()
            self.random.choices(jobs, weights)[0]()

    # ---- kinds

    def _plan(self) -> None:
        goal = self._finish(self._send_plan(), PLANS)
        self._note_plan("plan", goal)

    def _preempted_plan(self) -> None:
        """A target of the policy takes the joints of a plan that is under way."""
        sent = self._send_plan()
        self._client.spin(self.random.uniform(0.5, 1.5))
        moving = not sent.ended
        self._publish_target()
        goal = self._finish(sent, PLANS)
        text = "" if goal.result is None else goal.result.result.error_code.message
        if moving and "~/reference of rmpflow_policy" in text:
            self.tally.note("plan, preempted", good=True)
        else:
            self._note_plan("plan, preempted", goal)
        self._finish_clear()

    def _trajectory(self) -> None:
        """A short motion from where the arm is measured, whatever came before."""
        start = np.array([self._q[name] for name in self._arm])
        limits = self._robot.limits.select(self._arm)
        goal = start + np.array([self.random.uniform(-0.15, 0.15) for _ in self._arm])
        goal = goal.clip(limits.lower + 0.02, limits.upper - 0.02)
        if not all(self._is_valid(start + s * (goal - start)) for s in (0.0, 0.25, 0.5, 0.75, 1.0)):
            return
        message = JointTrajectory(joint_names=list(self._arm))
        point = JointTrajectoryPoint(positions=goal.tolist(), velocities=[0.0] * len(goal))
        point.time_from_start.sec = 1
        message.points = [point]
        sent = self._client.send_goal(FollowJointTrajectory.Goal(trajectory=message), ACTION)
        result = self._finish(sent, STEPS).result
        good = result is not None and result.status == SUCCEEDED
        why = "no result" if result is None else result.result.error_string
        began = result is not None and ("preempted" in why or "blocked" in why or "after" in why)
        self.tally.note("trajectory", good=good, started=began, why=why)

    def _cleared(self) -> None:
        """A target that is cleared while the policy moves; whatever comes next has the joints."""
        self._publish_target()
        self._client.spin(self.random.uniform(0.2, 2.0))
        followed = self._policy.split(":")[0] in ("following", "arrived", "stuck", "escaping")
        self.tally.note("target, cleared", good=followed, why=f"the policy says: {self._policy}")
        self._finish_clear()

    def _grip(self) -> None:
        goal = GripperCommand.Goal()
        goal.command.position = self.random.choice((0.0, 0.02, 0.04))
        goal.command.max_effort = 20.0
        result = self._finish(self._client.send_goal(goal, GRIP), STEPS).result
        good = result is not None and result.status == SUCCEEDED
        self.tally.note("grip", good=good, why=str(result))

    def _change_scene(self) -> None:
        """Add a box beside the arm, or take one away."""
        box = CollisionObject(operation=CollisionObject.ADD)
        box.header.frame_id = "panda_link0"
        if self._boxes and self.random.random() < 0.5:
            self._boxes -= 1
            box.operation = CollisionObject.REMOVE
        else:
            side = self.random.choice((-1.0, 1.0))
            box.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.1, 0.1, 0.3])]
            box.pose.position.x = self.random.uniform(-0.6, 0.7)
            box.pose.position.y = side * self.random.uniform(0.6, 0.8)
            box.pose.position.z = 0.15
            self._boxes += 1
        box.id = f"box {self._boxes + (box.operation == CollisionObject.REMOVE)}"
        message = PlanningSceneMessage(is_diff=True)
        message.robot_state.is_diff = True
        message.world.collision_objects = [box]
        answer = self._call(self._scene, ApplyPlanningScene.Request(scene=message))
        self.tally.note("scene change", good=bool(answer.success), why=str(answer))

    def _drive(self) -> None:
        """Give the base its next pose once it has arrived."""
        if self._driving is not None:
            if not self._driving.ended:
                return
            result = self._driving.result
            good = result is not None and result.status == SUCCEEDED
            why = "rejected" if result is None else result.result.error_msg
            self.tally.note("base goal", good=good, started=result is not None, why=why)
        goal = NavigateToPose.Goal()
        goal.pose.header.frame_id = "base/odom"
        goal.pose.pose.position.x = self.random.uniform(-0.8, 0.8)
        goal.pose.pose.position.y = self.random.uniform(-0.8, 0.8)
        half = self.random.uniform(-1.5, 1.5)
        goal.pose.pose.orientation.z, goal.pose.pose.orientation.w = np.sin(half), np.cos(half)
        self._driving = self._client.send_goal(goal, DRIVE)

    # ---- parts

    def _send_plan(self) -> Goal:
        limits = self._robot.limits.select(self._arm)
        goal = MoveGroup.Goal()
        goal.request.group_name = "arm"
        goal.request.allowed_planning_time = 5.0
        constraints = Constraints()
        for name, low, high in zip(self._arm, limits.lower, limits.upper, strict=True):
            middle, reach = 0.5 * (low + high), 0.4 * (high - low)
            constraints.joint_constraints.append(
                JointConstraint(
                    joint_name=name, position=middle + self.random.uniform(-reach, reach),
                    tolerance_above=0.005, tolerance_below=0.005, weight=1.0,
                )
            )  # fmt: skip
        goal.request.goal_constraints = [constraints]
        return self._client.send_goal(goal, MOVE)

    def _note_plan(self, kind: str, goal: Goal) -> None:
        result = goal.result
        if result is None:
            self.tally.note(kind, good=False, started=False, why="rejected")
            return
        code = result.result.error_code
        self.tally.note(
            kind, good=result.status == SUCCEEDED, started=code.val in STARTED, why=code.message
        )

    def _publish_target(self) -> None:
        message = PoseStamped()
        place = message.pose.position
        place.x, place.y = self.random.uniform(0.35, 0.6), self.random.uniform(-0.35, 0.35)
        place.z = self.random.uniform(0.3, 0.6)
        message.pose.orientation.x, message.pose.orientation.w = 1.0, 0.0
        self._target.publish(message)

    def _finish_clear(self) -> None:
        self._call(self._clear, Trigger.Request())

    def _is_valid(self, q: np.ndarray) -> bool:
        request = GetStateValidity.Request(group_name="arm")
        request.robot_state.joint_state.name = list(self._arm)
        request.robot_state.joint_state.position = q.tolist()
        return bool(self._call(self._valid, request).valid)

    def _call(self, client: Any, request: Any) -> Any:
        future = client.call_async(request)
        self._client.wait(future.done, client.srv_name)
        return future.result()

    def _finish(self, goal: Goal, within: float) -> Goal:
        return self._client.finish(goal, within)

    def _on_state(self, message: JointState) -> None:
        self._q = dict(zip(message.name, message.position, strict=True))

    def _on_status(self, message: DiagnosticStatus) -> None:
        self._policy = message.message


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    isolate()
    import rclpy

    rclpy.init()
    up = str(Path(sys.executable).with_name("motion"))
    suite = Child([up, "up", "franka", "base:=jetbot@3,0,0", "--viewer", "none"])
    node = Node("mixed_clients")
    try:
        clients = Clients(node, options.seed)
        end = time.monotonic() + 180.0
        while "READY" not in suite.output and time.monotonic() < end:
            suite.check()
            time.sleep(0.1)
        clients.wait_for_all()
        clients.run(60.0 * options.minutes)
        clients.tally.show()
        return int(any(clients.tally.failed.values()))
    finally:
        suite.stop()
        node.destroy_node()
        rclpy.shutdown()


if __name__ == "__main__":
    sys.exit(main())
