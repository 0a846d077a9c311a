# SPDX-License-Identifier: Apache-2.0
"""The reactive policy of an arm: targets and speeds in, references for its joint controller out.

The loop reads inputs and robot state and steps the policy; see
:mod:`motion_nodes.rmpflow.target_follower`. A second, slower loop keeps the planning scene up to
date and publishes status. Without a target nothing is sent, so that trajectories and other commands
have the joints.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState
from diagnostic_msgs.msg import DiagnosticStatus
from sensor_msgs.msg import JointState

from motion_nodes.control.joint_streams import SESSION_MARK
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.model.files.rmpflow_file import read_rmpflow
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.nodes.policy.policy_escape import Escape, goal_to
from motion_nodes.nodes.policy.policy_inputs import PolicyInputs
from motion_nodes.nodes.policy.policy_params import (
    PolicyParams,
    follower_settings,
    robot_defaults,
    settings_of,
    smoothing_settings,
    stuck_settings,
)
from motion_nodes.nodes.policy.policy_reports import PolicyReports
from motion_nodes.nodes.policy.policy_services import PolicyServices
from motion_nodes.nodes.policy.policy_snapshot import PolicyNews
from motion_nodes.rmpflow.follower_settings import RobotMotion
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.policy_inspection import PolicyInspector
from motion_nodes.rmpflow.policy_view import PolicyView
from motion_nodes.rmpflow.target_follower import Follower
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.executor_queue import ExecutorJobs
from motion_nodes.ros.concurrency.rate_loop import RateLoop
from motion_nodes.ros.controller_references import BLOCKED, ControllerReferences, Preemptions
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader, JointStateWriter
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.robot_node import RobotNode
from motion_nodes.ros.run import run_node
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.ros.transform_tree import TransformTree
from motion_nodes.ros.transforms import frame_id, frame_prefix
from motion_nodes.scene.scene import Scene

SLOW_RATE = 50.0
"""[Hz] At which the scene is brought up to date."""
TRANSFORMS_HELD = 5.0
"""[s] So long after a target in a foreign frame /tf is followed beside the loop."""
IDLE_RATE = 50.0
"""[Hz] At which it is looked for a target while there is none."""
OWNERS_PERIOD = 0.008
"""[s] Between two looks at whether the joints were taken from the policy."""
IDLE_PERIOD = 0.1
"""[s] Between two looks at the robot while nothing is told to it."""


class RmpflowPolicyNode(RobotNode[Any]):
    """Leads one arm by RMPflow."""

    params_type = PolicyParams
    obeys_stop = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("rmpflow_policy", ros_args=ros_args)
        self._slow: RateLoop | None = None
        self._scene_follower: SceneFollower | None = None
        self._frames: TransformTree | None = None
        self._escape: Escape | None = None
        self._jobs_of_executor: ExecutorJobs | None = None

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Take the leaves' numbers from the file of settings."""
        given = self._parameter_overrides.get("rmpflow_file")
        file = str(given.value) if given is not None and given.value else robot.directory
        self._base_settings = read_rmpflow(file)
        return robot_defaults(self._base_settings)

    def check(self, params: Any) -> str | None:
        """Refuse numbers that do not fit together, and names that the robot has not."""
        try:
            settings = settings_of(params, self._base_settings)
            count = len(self.robot.group(params.group).joints)
            if len(settings.joint_limit_buffers) not in (1, count):
                return (
                    f"joint_limit_buffers has {len(settings.joint_limit_buffers)} values; "
                    f"give 1 or {count}"
                )
            follower_settings(params)
            stuck_settings(params)
            smoothing_settings(params)
        except MotionError as error:
            return str(error)
        return None

    def configure(self) -> None:
        """Compile the policy, subscribe and advertise."""
        params, robot = self.params, self.robot
        tool = params.tool or robot.tool_frame
        if tool is None:
            raise InvalidConfig(f"robot '{robot.name}' names no tool frame; set parameter 'tool'")
        settings = settings_of(params, self._base_settings)
        policy = RmpflowPolicy(
            robot,
            settings,
            joints=params.group,
            tool=tool,
            maximum_substep_size=params.maximum_substep_size,
            ignore_robot_state_updates=params.ignore_robot_state_updates,
            smoothing=smoothing_settings(params),
            stuck=stuck_settings(params),
        )
        follower = self._follower = Follower(policy, follower_settings(params))
        self._places = [
            [robot.joint_names.index(name) for name in names]
            for names in (policy.active_joints, policy.watched_joints)
        ]
        prefix = frame_prefix(self, params.tf_frame_prefix)
        self._base = frame_id(prefix, robot.base_frame)
        kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
        kinematics.warm_up()
        frames = self._frames = TransformTree(self)
        robot_frames = RobotFrames(kinematics, frames, prefix)
        self._scene_follower = SceneFollower(self, robot, kinematics, robot_frames)
        self._scene_now = self._scene_taken = Scene()
        self._scene_trouble = ""
        self._state = JointStateReader(
            self.poll_bytes(JointState, "joint_states", qos.STATES), robot.joint_names
        )
        reports = self.poll_bytes(
            JointTrajectoryControllerState, f"{params.controller}/controller_state"
        )
        self._led = ControllerReferences(reports, policy.active_joints)
        self._preemptions = Preemptions(
            self.poll(DiagnosticStatus, f"{params.controller}/status", qos.STATUS)
        )
        self._sender, self._motion, self._owners_at = "", 0, 0.0
        self._transforms_wanted, self._transforms_ready = -np.inf, False
        self._inputs = PolicyInputs(
            self, follower, robot_frames, self._positions, self._want_transforms
        )
        self._policy_services = PolicyServices(self, follower, self._inputs)
        self._out = self.advertise(JointState, f"{params.controller}/reference")
        self._writer = JointStateWriter(self._out, policy.active_joints)
        onlooker = PolicyInspector(robot, policy.active_joints, tool, settings)
        self._reports = PolicyReports(self, onlooker, self._base)
        jobs = self._jobs_of_executor = ExecutorJobs(self)
        self._escape = Escape(self, jobs, params.planner)
        self._news: PolicyNews | None = self._make_news()
        self._idle_view: PolicyView | None = None
        self._looked_at = -np.inf
        self._idle_share = max(1, round(params.update_rate / IDLE_RATE))
        self._idle_ticks = 0

    def release(self) -> None:
        """Give up what does not end by itself."""
        for thing in (self._scene_follower, self._frames, self._escape, self._jobs_of_executor):
            if thing is not None:
                thing.destroy()
        self._scene_follower = self._frames = self._escape = self._jobs_of_executor = None

    def activate(self) -> None:
        """Begin without a target."""
        self._follower.reset()
        self._slow = RateLoop(SLOW_RATE, self._slow_tick, self._slow_crashed, "rmpflow scene")
        self._slow.start()

    def tick(self, dt: float) -> None:
        """Take inputs and state; make a step if there is anything to follow."""
        follower = self._follower
        if follower.silent:
            self._idle_ticks += 1
            if self._idle_ticks % self._idle_share:
                # How fast obstacles move is seen in the policy's time.
                follower.policy.elapse(dt)
                return
        now_ns = self.input_ns()
        now = now_ns * 1e-9
        self._look_at_owners()
        self._inputs.take(now)
        robot = None if follower.silent else self._look_at_robot(now_ns)
        if follower.silent:
            self._look_while_idle()
        self._take_scene(now)
        for stamp in self.deadlines:
            targets = follower.step(robot, self.period, stamp * 1e-9)
            robot = None
            if targets is not None:
                self._name_motion()
                self._writer.position[:], self._writer.velocity[:] = targets
                self._writer.send(stamp)
        self._see_to_escape(now)
        if self._news is None:
            self._news = self._make_news()

    def halt(self) -> None:
        """Bring the arm to rest, in one message, and take the markers away."""
        slow, self._slow = self._slow, None
        if slow is not None:
            slow.stop()
        if self._escape is not None:
            self._escape.cancel()
        last = self._follower.rest_at(1.0 / self.params.update_rate)
        if last is not None:
            self._writer.position[:], self._writer.velocity[:] = last
            self._writer.send_last(self.now_ns())
        self._reports.hide()

    def parameters_changed(self, params: Any) -> None:
        """Take over all numbers; what moves goes on under them."""
        follower, policy = self._follower, self._follower.policy
        follower.settings = follower_settings(params)
        policy.set_settings(settings_of(params, self._base_settings))
        policy.set_stuck(stuck_settings(params))
        policy.set_smoothing(smoothing_settings(params))
        policy.maximum_substep_size = params.maximum_substep_size
        policy.set_ignore_state_updates(params.ignore_robot_state_updates)

    def stopped(self, why: str) -> None:
        """Forget the target; the controller brings the joints to rest."""
        self._follower.drop(why)
        self._inputs.hold_off()

    def resumed(self) -> None:
        """Leave out targets that were streamed all the while, until they pause."""
        self._follower.clear()
        self._inputs.hold_off(drop=True)

    def time_jumped(self, before: float, after: float) -> None:
        """Forget the target, for the robot may have been put elsewhere."""
        self._follower.drop(f"time jumped from {before:.3f} s to {after:.3f} s")

    def lacks(self) -> str:
        """Wait for the robot's first state."""
        return "" if self._state.received else self._state.trouble(self.params.state_timeout)

    def diagnose(self, report: Report) -> None:
        """Say what the policy does, and what it lacks."""
        text = self._follower.text
        report.note("WARN" if text.startswith(("stuck", "stopped")) else "OK", text)
        trouble = self._state.trouble(self.params.state_timeout)
        if trouble:
            report.note("WARN" if self._state.received else "OK", trouble)
        if not self._out.get_subscription_count():
            report.note("WARN", f"nobody hears {self._out.topic_name}; is the controller running?")
        if self._scene_trouble:
            report.note("WARN", self._scene_trouble)
        if self._scene_follower is not None:
            self._scene_follower.diagnose(report)
        report.value("messages taken", self._inputs.count)
        report.value("messages refused", self._inputs.refused)
        report.value("age of joint_states [s]", self._state.age())
        if self._escape is not None:
            report.value("escape", self.params.escape)
            report.value("escapes", self._escape.count)

    # ---- in the loop

    def _positions(self) -> Array | None:
        """Return where all joints are, None where that is not known."""
        if self._follower.silent:
            self._state.update()
        return self._state.position if self._state.received else None

    def _want_transforms(self) -> bool:
        """Return whether /tf is being followed; from now on it is, for a while."""
        self._transforms_wanted = time.monotonic()
        return self._transforms_ready

    def _name_motion(self) -> None:
        """Give each motion a name of its own, so that the controller knows a new command."""
        if self._follower.motions != self._motion:
            self._motion = self._follower.motions
            self._sender = f"{self.get_name()}{SESSION_MARK}{time.time_ns() // 1_000_000}"
            self._writer.name_sender(self._sender)

    def _look_at_owners(self) -> None:
        """Let go of joints that a newer command has taken, or that a contact has stopped."""
        wall = time.monotonic()
        # What was preempted before a motion began says nothing of it.
        if not self._follower.leading or wall < self._owners_at:
            return
        self._owners_at = wall + OWNERS_PERIOD
        why = self._preemptions.of(self._sender)
        if not why or self._follower.motions != self._motion:
            return
        blocked = BLOCKED in why
        reason = why if blocked else f"another command leads the joints: {why}"
        self._follower.give_way(reason, blocked=blocked)
        self._inputs.hold_off()
        if blocked:
            self.warn("blocked", f"the target is dropped: {reason}")

    def _look_at_robot(self, now_ns: int) -> RobotMotion | None:
        """Return what is new of the robot; say nothing more to one that is lost."""
        state = self._state
        fresh = state.update()
        trouble = state.trouble(self.params.state_timeout)
        if trouble:
            self._follower.drop(trouble)
            self.warn("state", f"the target is dropped: {trouble}")
            return None
        return self._robot(now_ns) if fresh else None

    def _robot(self, now_ns: int) -> RobotMotion:
        state, (active, watched) = self._state, self._places
        led = self._led.newest(now_ns) or (None, None)
        return RobotMotion(
            state.position[active], state.velocity[active],
            state.position[watched], state.velocity[watched], *led,
        )  # fmt: skip

    def _look_while_idle(self) -> None:
        """Keep an eye on the robot, for the pictures and for the next start."""
        now = time.monotonic()
        if now - self._looked_at < IDLE_PERIOD:
            return
        self._looked_at = now
        self._state.update()
        if not self._state.received:
            return
        order = [*self._places[0], *self._places[1]]
        q = self._state.position[order]
        policy = self._follower.policy
        goal = Goal(policy.default_cspace_target)
        self._idle_view = PolicyView(
            q, np.zeros(len(q)), goal, self._scene_now, {}, np.eye(4), policy.settings
        )

    def _take_scene(self, now: float) -> None:
        scene = self._scene_now
        if scene is self._scene_taken:
            return
        self._scene_taken = scene
        try:
            self._follower.policy.set_scene(scene)
            self._follower.scene_changed(now)
            self._scene_trouble = ""
        except MotionError as error:
            self._scene_trouble = f"the scene before stays: {error}"
            self.warn("scene", self._scene_trouble)

    def _see_to_escape(self, now: float) -> None:
        escape, wish = self._escape, self._follower.escape_target
        if escape is None:
            return
        if wish is None:
            if escape.busy:
                escape.cancel()
        elif not escape.busy:
            escape.begin(
                goal_to(
                    wish.X_WT,
                    oriented=wish.oriented,
                    group=self.params.group,
                    tool=self._follower.policy.tool,
                    frame=self._base,
                    planning_time=self.params.escape_planning_time,
                )
            )
        else:
            trouble = escape.ended()
            if trouble is not None:
                if trouble:
                    self.warn("escape", f"escape failed: {trouble}")
                self._follower.hand_back(now, trouble, hopeless=escape.hopeless)

    def _make_news(self) -> PolicyNews:
        follower = self._follower
        wish, view = follower.command, None if follower.silent else follower.policy.view()
        servo = wish if wish is not None and wish.servo else None
        return PolicyNews(follower.phase, follower.text, follower.errors, servo, view)

    # ---- beside the loop

    def _slow_tick(self) -> None:
        scene_follower, frames = self._scene_follower, self._frames
        if scene_follower is None or frames is None:
            return
        wanted = time.monotonic() - self._transforms_wanted < TRANSFORMS_HELD
        if wanted:
            frames.update()
        self._transforms_ready = wanted
        scene_follower.update()
        self._scene_now = scene_follower.world.scene
        inputs = self._inputs
        refusal = "stopped" if not inputs.servo_on else "paused" if inputs.servo_paused else ""
        # The loop leaves news behind only where the last were taken.
        news, self._news = self._news, None
        if news is not None:
            self._reports.tell(news, self._idle_view, refusal)

    def _slow_crashed(self, error: BaseException) -> None:
        self.get_logger().fatal(f"the scene is no longer followed: {error!r}")
        self.in_loop(lambda: self._follower.lose(f"the scene is no longer followed: {error!r}"))
        if isinstance(error, Exception):
            self.fail(error)


def main() -> None:
    """Run the node as a process of its own."""
    run_node(RmpflowPolicyNode)
