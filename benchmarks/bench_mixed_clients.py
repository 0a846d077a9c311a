# SPDX-License-Identifier: Apache-2.0
"""Mixed clients of one suite: does every valid goal succeed, or is refused before it begins?

Run: ``python benchmarks/bench_mixed_clients.py --minutes 60`` (starts ``motion up`` by itself).

One after the other by chance, each beginning where the one before left the arm: plans through
move_action, trajectories, targets of the policy that are cleared while it moves, grips, changes of
the planning scene, and targets that preempt a plan on purpose; a base beside it drives to poses all
the while. Printed are, for each kind, how many were valid, succeeded, were refused before they
began (with the reasons) and failed after, and what each process of the suite held a minute after
the start and at the end. Exit code 1 when a goal failed after it began.
"""

from __future__ import annotations

import collections
import random
import re
import sys
import time
from collections.abc import Callable

import numpy as np
import rclpy
from control_msgs.action import FollowJointTrajectory, GripperCommand
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from harness import Cell, Report, arguments, isolate, motion_up
from harness.clients import (
    GRIPPER,
    MOVE,
    TRAJECTORY,
    Client,
    Goal,
    plan_goal,
    trajectory_goal,
    validity_request,
)
from harness.processes import descendants, entries, executable_of, memory
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import CollisionObject, MoveItErrorCodes
from moveit_msgs.msg import PlanningScene as PlanningSceneMessage
from moveit_msgs.srv import ApplyPlanningScene, GetStateValidity
from nav2_msgs.action import NavigateToPose
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive
from std_srvs.srv import Trigger

from motion_nodes.model.loader import load_robot

DRIVE = "base/navigate_to_pose"
STARTED = (MoveItErrorCodes.CONTROL_FAILED, MoveItErrorCodes.PREEMPTED)
"""Codes of motions that had begun."""
FOLLOWED = ("following", "arrived", "stuck", "escaping", "stopping: stuck")
"""Begins of the status of a policy that follows a target; the last is about to begin an escape."""
PLANS = 60.0  # [s] Longest wait for a plan with its motion
WARM_UP = 60.0  # [s] before the first measurement of the processes' memory


class Tally:
    """How the goals of each kind ended."""

    def __init__(self, trace: Callable[[str], None]) -> None:
        self._trace = trace
        self._succeeded: collections.Counter[str] = collections.Counter()
        self._refused: dict[str, collections.Counter[str]] = {}
        self.failed: dict[str, list[str]] = {}

    def note(self, kind: str, *, good: bool, started: bool = True, why: str = "") -> None:
        """Count an end."""
        if good:
            self._succeeded[kind] += 1
        elif started:
            self.failed.setdefault(kind, []).append(why)
            self._trace(f"{kind}: {why}")
        else:
            reason = re.sub(r"-?\d+(\.\d+)?", "#", why)[:90]
            self._refused.setdefault(kind, collections.Counter())[reason] += 1

    def rows(self) -> list[list[Cell]]:
        """Return a row for each kind."""
        rows: list[list[Cell]] = []
        for kind in sorted({*self._succeeded, *self._refused, *self.failed}):
            refused = sum(self._refused.get(kind, {}).values())
            ends = [self._succeeded[kind], refused, len(self.failed.get(kind, ()))]
            rows.append([kind, sum(ends), *ends])
        return rows

    def reasons(self) -> str:
        """Return the reasons of refusals and failures."""
        lines = [f"refused {kind}: {count} x {reason}" for kind, reasons in self._refused.items()
                 for reason, count in reasons.most_common(6)]  # fmt: skip
        lines += [f"FAILED {kind}: {text[:230]}" for kind, texts in self.failed.items()
                  for text in texts[:8]]  # fmt: skip
        return "\n".join(lines)


class Clients:
    """All clients in one process."""

    def __init__(self, seed: int) -> None:
        self.random, self.tally = random.Random(seed), Tally(self._trace)
        robot = load_robot("franka")
        self._arm = robot.group("arm").joints
        self._limits = robot.limits.select(self._arm)
        node = rclpy.create_node("mixed_clients")
        self.client = Client(node, **{
            TRAJECTORY: FollowJointTrajectory, MOVE: MoveGroup, GRIPPER: GripperCommand,
            DRIVE: NavigateToPose,
        })  # fmt: skip
        self._q: dict[str, float] = {}
        self._policy = ""
        node.create_subscription(JointState, "joint_states", self._on_state, 10)
        node.create_subscription(DiagnosticStatus, "rmpflow_policy/status", self._on_status, 10)
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 100)
        self._contacts, self._warnings = "", collections.deque[str](maxlen=12)
        self._target = node.create_publisher(PoseStamped, "rmpflow_policy/reference", 10)
        self._clear = node.create_client(Trigger, "rmpflow_policy/clear_target")
        self._scene = node.create_client(ApplyPlanningScene, "apply_planning_scene")
        self._valid = node.create_client(GetStateValidity, "check_state_validity")
        self._boxes = 0
        self._driving: Goal | None = None

    def run(self, seconds: float) -> None:
        """Send goals for a duration [s], once everything is there."""
        self.client.wait_for_servers()
        self.client.wait(lambda: len(self._q) > 8 and self._policy, "the arm and its policy")
        kinds = (
            (self._plan, 4), (self._trajectory, 4), (self._cleared, 4), (self._grip, 2),
            (self._change_scene, 1), (self._preempted_plan, 1),
        )  # fmt: skip
        jobs, weights = zip(*kinds, strict=True)
        begin = told = time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            self._drive()
            try:
                self.random.choices(jobs, weights)[0]()
            except TimeoutError as error:
                self.tally.note("answers", good=False, why=f"after {now - begin:.0f} s: {error}")
            if now > told + 60.0:
                told = now
                counts = [
                    sum(column)
                    for column in zip(*(row[1:] for row in self.tally.rows()), strict=True)
                ]
                print(f"{now - begin:.0f} s: goals, succeeded, refused, failed {counts}",
                      file=sys.stderr, flush=True)  # fmt: skip

    def _plan(self) -> None:
        goal = self._finish(self._send_plan())
        self._note_plan("plan", goal, good=goal.succeeded)

    def _preempted_plan(self) -> None:
        """A target of the policy takes the joints of a plan that is under way."""
        sent = self._send_plan()
        self.client.spin(self.random.uniform(0.5, 1.5))
        moving = not sent.ended
        self._publish_target()
        goal = self._finish(sent)
        text = "" if goal.result is None else goal.result.result.error_code.message
        lost = moving and "~/reference of rmpflow_policy" in text
        self._note_plan("plan, preempted", goal, good=lost or goal.succeeded)
        self.client.call(self._clear, Trigger.Request())

    def _trajectory(self) -> None:
        """A short motion from where the arm is measured, whatever came before."""
        start = np.array([self._q[name] for name in self._arm])
        goal = start + np.array([self.random.uniform(-0.15, 0.15) for _ in self._arm])
        goal = goal.clip(self._limits.lower + 0.02, self._limits.upper - 0.02)
        if not all(self._is_valid(start + s * (goal - start)) for s in (0.0, 0.25, 0.5, 0.75, 1.0)):
            return
        sent = trajectory_goal(self._arm, [1.0], goal[None], np.zeros((1, len(goal))))
        ended = self.client.finish(TRAJECTORY, sent)
        why = "no result" if ended.result is None else ended.result.result.error_string
        began = ended.result is not None and any(
            word in why for word in ("preempted", "blocked", "after")
        )
        self.tally.note("trajectory", good=ended.succeeded, started=began, why=why)

    def _cleared(self) -> None:
        """A target that is cleared while the policy moves; whatever comes next has the joints."""
        self._publish_target()
        self.client.spin(self.random.uniform(0.2, 2.0))
        followed = self._policy.startswith(FOLLOWED)
        self.tally.note("target, cleared", good=followed, why=f"the policy says: {self._policy}")
        self.client.call(self._clear, Trigger.Request())

    def _grip(self) -> None:
        goal = GripperCommand.Goal()
        goal.command.position = self.random.choice((0.0, 0.02, 0.04))
        goal.command.max_effort = 20.0
        ended = self.client.finish(GRIPPER, goal)
        self.tally.note("grip", good=ended.succeeded, why=str(ended.result))

    def _change_scene(self) -> None:
        """Add a box beside the arm, or remove one."""
        box = CollisionObject(operation=CollisionObject.ADD)
        box.header.frame_id = "panda_link0"
        if self._boxes and self.random.random() < 0.5:
            self._boxes -= 1
            box.operation = CollisionObject.REMOVE
        else:
            box.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.1, 0.1, 0.3])]
            place, side = box.pose.position, self.random.choice((-1.0, 1.0))
            place.x, place.z = self.random.uniform(-0.6, 0.7), 0.15
            place.y = side * self.random.uniform(0.6, 0.8)
            self._boxes += 1
        box.id = f"box {self._boxes + (box.operation == CollisionObject.REMOVE)}"
        message = PlanningSceneMessage(is_diff=True)
        message.robot_state.is_diff = True
        message.world.collision_objects = [box]
        answer = self.client.call(self._scene, ApplyPlanningScene.Request(scene=message))
        self.tally.note("scene change", good=bool(answer.success), why=str(answer))

    def _drive(self) -> None:
        """Give the base its next pose once it has arrived."""
        if self._driving is not None:
            if not self._driving.ended:
                return
            result = self._driving.result
            why = "rejected" if result is None else result.result.error_msg
            self.tally.note(
                "base goal", good=self._driving.succeeded, started=result is not None, why=why
            )
        goal = NavigateToPose.Goal()
        goal.pose.header.frame_id = "base/odom"
        place, turn = goal.pose.pose.position, goal.pose.pose.orientation
        place.x, place.y, half = (self.random.uniform(-x, x) for x in (0.8, 0.8, 1.5))
        turn.z, turn.w = np.sin(half), np.cos(half)
        self._driving = self.client.send(DRIVE, goal)

    def _send_plan(self) -> Goal:
        middle = 0.5 * (self._limits.lower + self._limits.upper)
        reach = 0.4 * (self._limits.upper - self._limits.lower)
        q = middle + np.array([self.random.uniform(-r, r) for r in reach])
        goal = plan_goal("arm", self._arm, q, allowed_planning_time=5.0)
        for joint in goal.request.goal_constraints[0].joint_constraints:
            joint.tolerance_above = joint.tolerance_below = 0.005
            joint.weight = 1.0
        return self.client.send(MOVE, goal)

    def _finish(self, goal: Goal) -> Goal:
        self.client.wait(lambda: goal.ended, "a plan's result", PLANS)
        return goal

    def _note_plan(self, kind: str, goal: Goal, *, good: bool) -> None:
        code = MoveItErrorCodes(message="rejected")
        code = code if goal.result is None else goal.result.result.error_code
        self.tally.note(kind, good=good, started=code.val in STARTED, why=code.message)

    def _publish_target(self) -> None:
        message, draw = PoseStamped(), self.random.uniform
        place, turn = message.pose.position, message.pose.orientation
        place.x, place.y, place.z = draw(0.35, 0.6), draw(-0.35, 0.35), draw(0.3, 0.6)
        turn.x, turn.w = 1.0, 0.0
        self._target.publish(message)

    def _is_valid(self, q: np.ndarray) -> bool:
        return bool(self.client.call(self._valid, validity_request("arm", self._arm, q)).valid)

    def _on_state(self, message: JointState) -> None:
        self._q = dict(zip(message.name, message.position, strict=True))

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            values = {entry.key: entry.value for entry in status.values}
            self._contacts = values.get("contact pairs", self._contacts)
            if status.level != DiagnosticStatus.OK:
                self._warnings.append(f"{status.name}: {status.message}")

    def _trace(self, what: str) -> None:
        """Print what was reported until two seconds after a failure."""
        before = {name: round(q, 4) for name, q in self._q.items()}
        self.client.spin(2.2)  # two more reports of the simulation
        print(
            f"{time.strftime('%H:%M:%S')} {what}\n  joints {before}\n  policy: {self._policy}\n"
            f"  contacts until then: {self._contacts}\n  warnings: {list(self._warnings)}",
            file=sys.stderr, flush=True,
        )  # fmt: skip

    def _on_status(self, message: DiagnosticStatus) -> None:
        self._policy = message.message


def held(pid: int) -> dict[str, list[float]]:
    """Return RSS [MB], file handles and threads of each process of a suite, by its name."""
    return {
        executable_of(words): [memory(child)[0], entries(child, "fd"), entries(child, "task")]
        for child, words in descendants(pid).items()
    }


def main() -> int:
    """Run it."""
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    isolate()
    report = Report("Mixed clients")
    rclpy.init(args=[])
    with motion_up("franka", "base:=jetbot@3,0,0", "--viewer", "none") as suite:
        clients = Clients(options.seed)
        first = min(WARM_UP, 30.0 * options.minutes)
        clients.run(first)
        before = held(suite.pid)
        clients.run(60.0 * options.minutes - first)
        after = held(suite.pid)
        clients.client.close()
        if clients.tally.failed:
            print(suite.output, file=sys.stderr)
    rclpy.shutdown()
    tally = clients.tally
    report.table(
        f"{options.minutes:g} minutes, seed {options.seed}",
        ["", "goals", "succeeded", "refused before they began", "failed after"],
        tally.rows(), tally.reasons(),
    )  # fmt: skip
    report.table(
        f"What the processes held after {first:g} s, and at the end",
        ["", "RSS [MB]", "end", "file handles", "end", "threads", "end"],
        [[name, *(value for pair in zip(row, after[name], strict=True) for value in pair)]
         for name, row in before.items() if name in after],
    )  # fmt: skip
    report.write(options.json)
    return int(any(tally.failed.values()))


if __name__ == "__main__":
    sys.exit(main())
