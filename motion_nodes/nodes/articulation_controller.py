# SPDX-License-Identifier: Apache-2.0
"""Articulation controller: streams, trajectories and grips in, limited joint references out.

Offers the interface of ros2_controllers' joint_trajectory_controller and gripper controllers, and
streams of JointState beside it (docs/interfaces.md). Each joint has one owner at a time; a newcomer
takes it, and who loses it is told to whom.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from control_msgs.srv import QueryTrajectoryState
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from motion_nodes.control.effort_limiter import EffortLimiter
from motion_nodes.control.joint_arbiter import JointArbiter
from motion_nodes.control.joint_controller import ArticulationController
from motion_nodes.control.joint_drive import DriveLaw
from motion_nodes.control.resync import REST_SPEED
from motion_nodes.control.state_plausibility import StatePlausibility
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.model.inverse_dynamics import InverseDynamics
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.articulation.articulation_params import (
    ArticulationParams,
    gains_of,
    gripper_of,
    limits_of,
    modes_of,
    robot_defaults,
)
from motion_nodes.nodes.articulation.contact_guard import ContactGuard
from motion_nodes.nodes.articulation.controller_status import ControllerStatus
from motion_nodes.nodes.articulation.follow_trajectory import FollowTrajectoryServer
from motion_nodes.nodes.articulation.gripper_actions import GripperServer
from motion_nodes.nodes.articulation.guard_defaults import GRIPPER_GROUP
from motion_nodes.nodes.articulation.joint_outputs import EffortDrives, JointOutputs, MotionLoad
from motion_nodes.nodes.articulation.stream_inputs import StreamInputs
from motion_nodes.nodes.trajectory.trajectory_requests import listen_for_trajectories
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.messages.trajectory_messages import seconds
from motion_nodes.ros.robot_node import RobotNode
from motion_nodes.ros.run import run_node

STAMP_SLACK_NS = 100_000_000
"""[ns] A state this much ahead of the node's time is taken as of now."""

JUMP_SETTLES = 0.5
"""[s] For so long after a jump of time, states from before it may still arrive."""


class ArticulationControllerNode(RobotNode[ArticulationParams]):
    """Controls the joints of one robot."""

    params_type = ArticulationParams
    obeys_stop = drives_robot = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("joint_trajectory_controller", ros_args=ros_args)

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Control every joint that is not a wheel, as the robot's description says."""
        return robot_defaults(robot)

    def check(self, params: ArticulationParams) -> str | None:
        """Refuse lists of a wrong length, unknown modes, and limits beyond the robot's."""
        try:
            self.robot.limits.select(params.joints)
            modes_of(params)
            gains_of(params)
            limits_of(params, self.robot)
        except MotionError as error:
            return str(error)
        return None

    def configure(self) -> None:
        """Build the controller and its endpoints."""
        params = self.params
        joints = params.joints
        if not joints:
            raise InvalidConfig(f"robot '{self.robot.name}' has no joints for this controller")
        limits, modes = limits_of(params, self.robot), modes_of(params)
        self.controller = ArticulationController(limits, modes)
        self.runner = JointArbiter(self.controller, params.start_tolerance)
        own = [self.robot.drive(joint) for joint in joints]
        drives = None
        if params.command_interface == "effort":
            law = DriveLaw(joints, gains_of(params), limits.effort, modes)
            drives = EffortDrives(law, limits.effort)
        load = dynamics = None
        if drives is not None or params.feed_forward or params.contact_detection:
            armature = [drive.armature for drive in own]
            dynamics = InverseDynamics(self.robot.tree, joints, armature=armature)
        if dynamics is not None and (drives is not None or params.feed_forward):
            load = MotionLoad(dynamics, params.gravity_compensation, params.inertia_compensation)
        felt = dynamics if params.contact_detection else None
        self._guard = ContactGuard(self.robot, self.runner, params, felt)
        self._told = ""
        self._rejected = 0
        self._stiffness = np.array([drive.stiffness for drive in own])
        bounds = self.runner.effort_bounds
        limiter = EffortLimiter(self._stiffness, self.robot.limits.select(joints))
        self._outputs = JointOutputs(self, joints, drives, load, limiter, bounds)
        states = self.poll_bytes(JointState, "joint_states", qos.STATES)
        plausibility = StatePlausibility(self.robot.limits.select(joints).velocity)
        self._state = JointStateReader(states, joints, plausibility=plausibility)
        self._streams = StreamInputs(self)
        self._status = ControllerStatus(self)
        listen_for_trajectories(self)
        self.serve(QueryTrajectoryState, "~/query_state", self._on_query)
        self.serve(Trigger, "~/reset", self._on_reset)
        self._follow: FollowTrajectoryServer | None = FollowTrajectoryServer(
            self, params.action_monitor_rate
        )
        self._gripper = self._make_gripper()
        self._since_report = 0.0
        self._silent = True
        self._fresh = False

    def release(self) -> None:
        """Take the actions down."""
        for server in (getattr(self, "_follow", None), getattr(self, "_gripper", None)):
            if server is not None:
                server.destroy()
        self._follow = self._gripper = None

    def activate(self) -> None:
        """Hold where the robot is, once that is known."""
        self._silent = True
        self._jumped_at = -float("inf")

    def tick(self, dt: float) -> None:
        """Measure, take commands, lead the joints: one reference for each deadline."""
        now_ns = self.now_ns()
        fresh = self._state.update()
        # It counts for the next reference, which may be that of a later tick.
        self._fresh = self._fresh or fresh
        if fresh and self._silent and not self._before_jump(now_ns):
            self._begin()
        self._streams.take(now_ns * 1e-9)
        self._status.look(self.stop_reason or self.runner.trouble, self._streams.refused)
        self._look_whether_at_rest()
        if self._silent:
            return
        if self._lost:
            if self._stop_for_loss():
                # Time may have gone with the robot; then the loop itself paces the braking.
                stands = self.time_stands
                self._lead([self.deadline_while_time_stands()] if stands else self.deadlines)
        elif self.time_stands:
            # The way goes on when time does; until then nothing may run on.
            self._outputs.wait(self.controller.step(0.0), self._state)
        else:
            self._lead(self.deadlines)

    def halt(self) -> None:
        """Leave the joints holding the last reference; speeds and efforts go to zero."""
        self.runner.abort_all("the controller was deactivated")
        self._wake_actions(0.0)
        if self._silent:
            return
        self._silent = True
        self.controller.stop()
        self._outputs.hand_over(self.controller.step(0.0), self._state, self.now_ns())

    def answer_waiting(self) -> None:
        """Tell the clients of ended goals."""
        for server in (self._follow, self._gripper):
            if server is not None:
                server.finish()

    def parameters_changed(self, params: ArticulationParams) -> None:
        """Take over new modes, gains and limits; what moves goes on under the new limits."""
        limits, modes = limits_of(params, self.robot), modes_of(params)
        self.controller.set_limits(limits)
        self._guard.set_params(params)
        self.runner.start_tolerance = params.start_tolerance
        if self._gripper is not None:
            self._set_gripper(self._gripper, params)
        drives = self._outputs.drives
        for joint, mode in modes.items():
            if self.controller.modes[joint] is not mode:
                self.runner.take([joint], "a change of its control mode")
                self.controller.switch_mode(mode, [joint])
        if drives is not None:
            gains = gains_of(params)
            drives.law.set_gains(gains.kp, gains.kd, gains.ki)
            drives.limits = limits.effort
            for joint, mode in modes.items():
                drives.law.switch_mode(mode, [joint])
        if self._outputs.load is not None:
            self._outputs.load.gravity = params.gravity_compensation
            self._outputs.load.inertia = params.inertia_compensation

    def stopped(self, why: str) -> None:
        """Bring all joints to rest within their limits, and end all goals."""
        self.rest.start(self.now())
        self.runner.stop_all(why)
        self._wake_actions(0.0)

    def resumed(self) -> None:
        """Leave the joints where they are; streams that went on meanwhile must begin anew."""
        self._streams.take(self.now())
        self.runner.stop_all("the stop, until it was resumed")

    def time_jumped(self, before: float, after: float) -> None:
        """Hold where the robot is."""
        self.runner.abort_all(f"time jumped from {before:.3f} s to {after:.3f} s")
        self._wake_actions(0.0)
        self._silent = True
        self._outputs.forget()
        self._state.forget()
        self._jumped_at = time.monotonic()

    def lacks(self) -> str:
        """Wait for the robot's first state."""
        return "" if self._state.received else self._state.trouble(self.params.state_timeout)

    def diagnose(self, report: Report) -> None:
        """Say whether the robot is there and what the controller does."""
        trouble = self._state.trouble(self.params.state_timeout)
        if trouble and self._state.received:
            report.note("ERROR", f"{trouble}; commands are refused")
        elif trouble:
            report.note("WARN", trouble)
        elif self.runner.trouble:
            report.note("WARN", self.runner.trouble)
        elif self.runner.runs:
            report.note("OK", f"following {', '.join(run.label for run in self.runner.runs)}")
        else:
            report.note("OK", "moving" if self.controller.moving else "holding")
        if self._state.rejected > self._rejected:
            self._rejected = self._state.rejected
            report.note("ERROR", f"joint_states are not plausible: {self._state.problem}")
        fight = self._streams.fight(self.now())
        if fight:
            report.note("WARN", fight)
        for who, why in list(self._streams.refused.items()):
            report.note("WARN", f"messages of {who} are dropped: {why}")
        report.value("age of joint_states [s]", self._state.age())
        report.value("implausible states", self._state.rejected)
        report.value("commands taken", self._streams.count)
        report.value("speed scaling", self._streams.scaling)

    # ---- what inputs and actions ask of their host (stream_inputs.py and the others beside it)

    @property
    def node(self) -> ArticulationControllerNode:
        """The node itself."""
        return self

    def refusal(self) -> str | None:
        """Return why nothing can be commanded now, or None."""
        return self.stop_reason or self._unknown()

    # ---- inside

    def _unknown(self) -> str | None:
        """Return why the robot's state is not known, or None."""
        if self._silent or self._lost:
            trouble = self._state.trouble(self.params.state_timeout)
            return f"the robot's state is not known; {trouble or 'it was not heard of yet'}"
        return None

    def _look_whether_at_rest(self) -> None:
        if not self.rest.waiting:
            return
        speeds = np.abs(np.nan_to_num(self._state.velocity))
        still = not self.controller.moving and bool((speeds < REST_SPEED).all())
        self.rest.look(self.now(), still=still, trouble=self._unknown() or "")

    def _make_gripper(self) -> GripperServer | None:
        group = self.robot.groups.get(GRIPPER_GROUP)
        if group is None or not set(group.joints) <= set(self.params.joints):
            return None
        stiffness = self._stiffness[[self.params.joints.index(joint) for joint in group.joints]]
        bounds_effort = self._outputs.drives is not None or bool((stiffness > 0.0).all())
        server = GripperServer(self, group.joints, bounds_effort=bounds_effort)
        self._set_gripper(server, self.params)
        return server

    def _set_gripper(self, server: GripperServer, params: ArticulationParams) -> None:
        limits = self.robot.groups[GRIPPER_GROUP].limits
        server.set_config(gripper_of(params, limits), allow_stalling=params.gripper_allow_stalling)

    @property
    def _lost(self) -> bool:
        return self._state.age() > self.params.state_timeout

    def _before_jump(self, now_ns: int) -> bool:
        """True for a state from before a jump of time, which may arrive just after it."""
        late = self._state.stamp_ns - now_ns > STAMP_SLACK_NS
        return late and time.monotonic() - self._jumped_at < JUMP_SETTLES

    def _begin(self) -> None:
        """Take up the robot's state, at the start and after the robot was lost.

        Where it stands near to where it was last led it is held at that, so that what drives sag
        under gravity does not add up; else where it is.
        """
        measured, led = self._state.position, self._outputs.led
        known = np.isfinite(led)
        away = np.where(known, np.abs(led - measured), 0.0)
        i = int(away.argmax())
        if known.any() and away[i] > self.params.resync_tolerance:
            self.get_logger().warning(
                f"the robot is back, {self.controller.joint_names[i]} {away[i]:.3f} from where it "
                "was led; holding where it is"
            )
            known[:] = False
        self.controller.reset(np.where(known, led, measured))
        self._guard.reset()
        self._silent = False

    def _stop_for_loss(self) -> bool:
        """Brake; False once the joints rest and nothing more is to be sent."""
        trouble = self._state.trouble(self.params.state_timeout)
        self.runner.abort_all(f"the robot was lost: {trouble}")
        if not self.controller.moving:
            self._silent = True
            self._wake_actions(0.0)
            self.get_logger().error(
                f"{trouble}: joints stopped, commands are refused until the robot is back"
            )
            return False
        self.controller.stop()
        return True

    def _lead(self, deadlines: Sequence[int]) -> None:
        """Advance the reference by exactly one period for each deadline [ns], and send it."""
        if not deadlines:
            return
        state, period, scaling = self._state, self.period, self._streams.scaling
        fresh = self._fresh and not self._lost
        residual = self._guard.measure(state) if self._fresh else None
        self._fresh = False
        for stamp in deadlines:
            reference = self.runner.step(
                period, state.position, state.velocity, scaling, fresh=fresh, residual=residual
            )
            # A state counts once, however many references follow from it.
            fresh, residual = False, None
            self._outputs.send(reference, state, period, stamp)
        if self.runner.trouble != self._told:
            self._told = self.runner.trouble
            if self._told:
                self.get_logger().error(f"{self._told}; stopped, holding where the robot is")
        elapsed = len(deadlines) * period
        self._wake_actions(elapsed)
        self._since_report += elapsed
        if self._since_report * self.params.state_publish_rate >= 1.0:
            self._since_report = 0.0
            self._outputs.report(state, scaling, deadlines[-1])

    def _wake_actions(self, dt: float) -> None:
        if self._follow is not None:
            self._follow.look()
        if self._gripper is not None:
            self._gripper.judge(self._state.position, self._state.velocity, dt)
            self._gripper.look()

    def _on_query(self, request: Any, response: Any) -> Any:
        """Answer with the reference at a time: of the trajectories, else where the joints are."""
        refusal = self._unknown() if self.active else "the controller is not active"
        if refusal is not None:
            response.success, response.message = False, refusal
            return response
        ahead = seconds(request.time) - self.now() if seconds(request.time) else 0.0
        sample = self.in_loop(lambda: self.runner.reference_in(ahead))
        response.success = True
        response.name = list(self.controller.joint_names)
        response.position, response.velocity, response.acceleration = (
            values.tolist() for values in sample
        )
        return response

    def _on_reset(self, _request: Any, response: Any) -> Any:
        """Forget all commands and hold where the robot is."""
        if not self.active:
            response.success, response.message = False, "the controller is not active"
            return response
        try:
            self.in_loop(self._reset)
            response.success, response.message = True, "holding where the robot is"
        except (MotionError, TimeoutError) as error:
            response.success, response.message = False, str(error) or "the loop did not answer"
        return response

    def _reset(self) -> None:
        refusal = self.refusal()
        if refusal is not None:
            raise MotionError(refusal)
        self.runner.abort_all("the controller was reset")
        self.runner.take(self.controller.joint_names, "a reset of the controller")
        self._wake_actions(0.0)
        self._outputs.forget()
        self.runner.effort_bounds[:] = np.inf
        self._streams.scaling = 1.0
        self.controller.reset(self._state.position)
        self._guard.reset()


def main() -> None:
    """Run the node as a process of its own."""
    run_node(ArticulationControllerNode)
