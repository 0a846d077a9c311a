# SPDX-License-Identifier: Apache-2.0
"""Joint controller (``joint_trajectory_controller``): commands to limited joint references.

Interface of ros2_controllers' joint_trajectory_controller and gripper controllers, and streams of
JointState (docs/interfaces.md). Each joint has one owner at a time: a new command preempts the
owner, whose client is notified with the name of the new one.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState

from motion_nodes.core.control.active_trajectories import TrajectorySettings
from motion_nodes.core.control.cartesian_impedance import CartesianImpedance
from motion_nodes.core.control.contact_wrench import ContactWrench
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.joint_guard import REST_SPEED
from motion_nodes.core.control.state_plausibility import (
    SourceWatch,
    StandingJoints,
    StatePlausibility,
)
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.nodes.articulation.articulation_params import ArticulationParams, robot_defaults
from motion_nodes.nodes.articulation.follow_trajectory import (
    FollowTrajectoryServer,
    listen_for_trajectories,
    serve_state_and_reset,
)
from motion_nodes.nodes.articulation.gripper_actions import gripper_of
from motion_nodes.nodes.articulation.impedance_inputs import ImpedanceInputs, impedance_problem
from motion_nodes.nodes.articulation.joint_outputs import (
    ControllerStatus,
    JointOutputs,
    RestCycles,
    outputs_of,
)
from motion_nodes.nodes.articulation.joint_supervision import (
    ContactGuard,
    PayloadModel,
    StateMonitor,
    contact_problem,
)
from motion_nodes.nodes.articulation.stream_inputs import StreamInputs, forward_topics
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.repeated_cycles import Repetitions, next_due
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.ros.node import RobotNode
from motion_nodes.ros.parameters import given_early
from motion_nodes.tolerances import MEASURED_NOISE

STAMP_TOLERANCE = 0.1
"""[s] Max time by which the stamp of a state may be ahead of the node's time."""

COMPLETE_PERIOD = 0.01
"""[s] Max period of complete cycles. Between them, while a stream moves the joints, other topics
and the grippers wait."""

REST_PERIOD = 0.1
"""[s] Max period of complete cycles at rest."""

JUMP_TIME = 0.5
"""[s] Time after a time jump in which states from before it may still arrive."""


class ArticulationControllerNode(RobotNode[ArticulationParams]):
    """Controls the joints of one robot."""

    params_type = ArticulationParams
    obeys_stop = drives_robot = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("joint_trajectory_controller", ros_args=ros_args)

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Return joints, limits and gains of the robot's description; without the wheels."""
        peer = bool(given_early(self, "peer_defaults"))
        return robot_defaults(robot, given_early(self, "joints") or (), peer_defaults=peer)

    def check(self, params: ArticulationParams) -> str | None:
        """Validate joints, lengths of lists, modes and limits."""
        try:
            self.robot.limits.select(params.joints)
            params.modes()
            params.gains()
            params.output()
            params.limits(self.robot)
            params.effort_margins()
            forward_topics(params.forward_commands, params.joints)
        except MotionError as error:
            return str(error)
        return contact_problem(params) or impedance_problem(params, self._law)

    def configure(self) -> None:
        """Create the controller and its endpoints."""
        params, robot, joints = self.params, self.robot, self.params.joints
        if not joints:
            raise InvalidConfig(f"robot '{robot.name}' has no joints for this controller")
        self.controller = ArticulationController(params.limits(robot), params.modes())
        self.runner = JointArbiter(self.controller, params.start_tolerance)
        self._inactive = set(params.inactive_controllers)
        self.runner.trajectories.settings = TrajectorySettings(
            from_reference=params.interpolate_from_desired_state and params.open_loop_control,
            continue_others=params.allow_trajectory_replacement,
            decelerations=params.decelerations,
        )
        if params.cmd_timeout > 0.0 and not params.end_timeout:
            self.get_logger().warning(
                f"cmd_timeout {params.cmd_timeout:g} s has no effect: it must be above "
                f"constraints.goal_time, {params.constraints_goal_time:g} s"
            )
        drives = [robot.drive(joint) for joint in joints]
        self._payload = PayloadModel(self, robot, params)
        dynamics = self._payload.dynamics
        monitored = dynamics if params.contact_detection else None
        self._guard = ContactGuard(robot, self.runner, params, monitored, self.now_ns)
        self._logged_fault = ""
        self._stiffness = np.array([drive.stiffness for drive in drives])
        self._outputs: JointOutputs = outputs_of(
            self, robot, dynamics, self._stiffness, self.runner.effort_bounds
        )
        states = self.poll_bytes(JointState, "joint_states", qos.STATES)
        checks = StatePlausibility(robot.limits.select(joints).velocity), SourceWatch(len(joints))
        self._state = JointStateReader(states, joints, (), *checks, robot.limits)
        self._payload.serve(self._state)
        self._monitor = StateMonitor(self, robot, self._state, self.runner)
        self._streams = StreamInputs(self)
        self._status = ControllerStatus(self, self._state, self._streams, self._monitor)
        self._impedance = ImpedanceInputs(self, robot, self._state)
        listen_for_trajectories(self)
        serve_state_and_reset(self, self._reset)
        self._follow: FollowTrajectoryServer | None = FollowTrajectoryServer(
            self, params.action_monitor_rate
        )
        self._gripper = gripper_of(self, robot, self._outputs.drives is not None)
        self._at_rest = RestCycles(self._state, self.runner, self._outputs, self.period)
        self._standing = StandingJoints()
        self._repeated, self._report_at = 0.0, 0
        """Time since the last update of the actions [s]; earliest stamp of the next report [ns]."""
        self._unstarted, self._fresh, self._brief = True, False, False
        self._complete_at = 0.0

    def release(self) -> None:
        """Destroy the action servers."""
        for server in (getattr(self, "_follow", None), getattr(self, "_gripper", None)):
            if server is not None:
                server.destroy()
        self._follow = self._gripper = None

    def activate(self) -> None:
        """Hold the measured positions as soon as they are known."""
        self._unstarted = True
        self._jumped_at = -float("inf")

    def tick(self, dt: float) -> None:
        """Read state and commands, and send one reference for each deadline."""
        now = self.step.now
        fresh = self._state.update()
        # Kept until the next reference, which may be that of a later cycle.
        self._fresh = self._fresh or fresh
        if self._monitor.update(self._outputs.sent, fresh=fresh, started=not self._unstarted):
            self._update_actions(0.0)
        known = fresh and not self._state_lost  # of all joints
        if known and self._unstarted and not self._before_jump(now):
            self._start()
        self._brief = self._follows_a_stream()
        if self._brief:
            self._streams.take_references(now)
        else:
            self._streams.take(now)
            self._impedance.take(now)
            self._status.update()
            self._complete_at = time.monotonic() + COMPLETE_PERIOD
        self._update_rest()
        if self._unstarted:
            if self._state_lost:
                self._standing.forget()
            return
        if self._state_lost:
            if self._brake_after_loss():
                # Simulated time may be stalled, too; braking then advances with the loop.
                still = [self.deadline_while_time_stands()] if self.time_stands else None
                self._step(still or self.deadlines, lost=True)
        elif self.time_stands:
            # Motions continue when time advances; until then the references are held.
            self._outputs.wait(self.controller.step(0.0), self._state)
        else:
            self._step(self.deadlines)
            if self._at_rest.begin() and self._holds():
                self._repeat()

    def repeated(self, done: Repetitions) -> None:
        """Account for cycles that repeated the last command."""
        if self._state.repeated(done.inputs[0]):
            self._fresh = True
            self._guard.repeat(self._state)
        self._outputs.sent_again(done.stamps)
        elapsed = done.total * self.period
        self._repeated += elapsed
        self.runner.trajectories.wait(elapsed)
        self._report_at = max((self._report_at, *done.due))

    def halt(self) -> None:
        """Hold the last reference; velocities and efforts become zero."""
        self.runner.abort_all("the controller was deactivated")
        self._update_actions(0.0)
        if self._unstarted:
            return
        self._unstarted = True
        self.controller.stop()
        self._outputs.hand_over(self.controller.step(0.0), self._state, self.now_ns())

    def parameters_changed(self, params: ArticulationParams) -> None:
        """Apply modes, gains and limits, also to active motions."""
        limits, modes = params.limits(self.robot), params.modes()
        self._stop_served(set(params.inactive_controllers) - self._inactive)
        self._inactive = set(params.inactive_controllers)
        self.controller.set_limits(limits)
        self._guard.set_params(params)
        self.runner.start_tolerance = params.start_tolerance
        self.runner.trajectories.settings = dataclasses.replace(
            self.runner.trajectories.settings, continue_others=params.allow_trajectory_replacement
        )
        if self._gripper is not None:
            self._gripper.set_params(params)
        for joint, mode in modes.items():
            if self.controller.modes[joint] is not mode:
                self.runner.take([joint], "a change of its control mode")
                self.controller.switch_mode(mode, [joint])
        self._outputs.set_params(params, limits, modes)
        self._impedance.set_params(params)
        self._payload.set_params(params)

    def in_motion(self) -> bool:
        """Return whether a joint reference moves."""
        return not self._unstarted and self.controller.moving

    def stopped(self, why: str) -> None:
        """Decelerate all joints to rest within their limits, and end all goals."""
        self.rest.start(self.now())
        self.runner.stop_all(why)
        self._update_actions(0.0)

    def resumed(self) -> None:
        """Keep the joints at rest; streams that continued during the stop must pause first."""
        self._streams.take(self.now(), at_once=True)
        self._impedance.take(self.now(), at_once=True)
        self.runner.stop_all("the stop, until it was resumed")

    def time_jumped(self, before: float, after: float) -> None:
        """Come to rest; after a jump of simulated time, hold the measured positions."""
        self.runner.abort_all(f"time jumped from {before:.3f} s to {after:.3f} s")
        self._update_actions(0.0)
        if not self.simulated:
            # A clock was set: the robot is where it was, and moves on.
            self.controller.stop()
            return
        self._unstarted = True
        self._outputs.reset()
        self._state.forget()
        self._monitor.reset()
        self._jumped_at = time.monotonic()

    def waiting_for(self) -> str:
        """Return why the robot's state is unknown."""
        return "" if self._state.received else self._state.fault(self.params.state_timeout)

    def diagnose(self, report: Report) -> None:
        """Report the robot's state, active motions and streams."""
        self._status.diagnose(report)

    # ---- for the parts of the node

    @property
    def _law(self) -> CartesianImpedance | None:
        """The law of impedance control, once configured."""
        inputs: ImpedanceInputs | None = getattr(self, "_impedance", None)
        return None if inputs is None else inputs.law

    def refusal(self) -> str | None:
        """Return why commands are refused, None if they are accepted."""
        return self.stop_reason or self.state_fault() or self._monitor.fault or None

    def state_fault(self) -> str | None:
        """Return why the robot's state is unknown, None if it is known."""
        if self._unstarted or self._state_lost:
            fault = self._state.fault(self.params.state_timeout)
            away = self._standing.waiting and "joints move, away from their last references"
            return f"the robot's state is not known; {fault or away or 'it was not received yet'}"
        return None

    @property
    def contact(self) -> ContactWrench | None:
        """External wrench at the tool, in every control mode; None if it is not estimated."""
        return self._guard.wrench

    def grasp_failed(self, reason: str) -> None:
        """Report that a held object slips or was lost, and abort trajectories if configured."""
        self.get_logger().warning(f"gripper: {reason}")
        if self.params.gripper_abort_on_loss:
            self.runner.abort_trajectories(reason)

    # ---- loop

    @property
    def _state_lost(self) -> bool:
        return self._state.age() > self.params.state_timeout or bool(self._state.rival)

    def _stop_served(self, names: set[str]) -> None:
        """Stop what controllers of these names move."""
        if JOINT_CONTROLLER in names:
            self.runner.abort_trajectories(f"{JOINT_CONTROLLER} was deactivated")
        for each in forward_topics(self.params.forward_commands, self.params.joints):
            if each.name in names:
                self.runner.take(each.joints, f"the deactivation of {each.name}")

    def _update_rest(self) -> None:
        if not self.rest.waiting:
            return
        speeds = np.abs(np.nan_to_num(self._state.velocity))
        still = not self.controller.moving and bool((speeds < REST_SPEED).all())
        self.rest.update(self.now(), still=still, fault=self.state_fault() or "")

    def _before_jump(self, now: float) -> bool:
        """Return whether the newest state is from before a jump of time."""
        ahead = self._state.stamp_ns * 1e-9 - now > STAMP_TOLERANCE
        return ahead and time.monotonic() - self._jumped_at < JUMP_TIME

    def _start(self) -> None:
        """Initialize the references at the first state, and after a loss of the state.

        They continue at the last references if these are within resync_tolerance of the measured
        positions, so that the sag of drives under gravity does not accumulate. Joints further away
        are held where they are, once they stand: states may arrive late, and drives may still
        follow the last references.
        """
        measured = self._state.position
        last = self.controller.limits.turns.nearest(self._outputs.position, measured)
        kept = self.params.set_last_command_interface_value_as_state_on_activation
        known = np.isfinite(last) & kept
        error = np.where(known, np.abs(last - measured), 0.0)
        i = int(error.argmax())
        if error[i] > self.params.resync_tolerance:
            waited = self._standing.waiting
            standing = self._standing.update(measured, time.monotonic())
            if standing or not waited:
                does = "holding the measured position" if standing else "waiting until it stands"
                self.get_logger().warning(
                    f"the state is known again, {self.controller.joint_names[i]} {error[i]:.3f} "
                    f"rad or m from its last reference; {does}"
                )
            if not standing:
                return
            known &= error <= self.params.resync_tolerance
        self._standing.forget()
        self.controller.reset(np.where(known, last, measured))
        for text in self.controller.limits.violations(measured, MEASURED_NOISE):
            self.get_logger().warning(
                f"held outside of its limits, until it is commanded: {text}; is its encoder right?"
            )
        self._guard.reset()
        self._monitor.reset()
        self._unstarted = False

    def _holds(self) -> bool:
        """Return whether the joints are controlled, without a fault or another publisher."""
        stopped = self._unstarted or self.rest.waiting or self._monitor.fault
        watched = self._state_lost or self.time_stands or not self._monitor.alone
        return not (stopped or watched)

    def _repeat(self) -> None:
        """Let the next cycles repeat the last command."""
        duration = min(REST_PERIOD, 0.25 * self.params.state_timeout)
        if self._impedance.reported:
            duration = min(duration, 1.0 / self.params.state_publish_rate)
        outputs = self._outputs
        self.repeat(
            duration,
            (*self._streams.subscriptions, *self._impedance.subscriptions),
            [self._state.repeated_input()],
            [outputs.repeated_output(),
             *outputs.repeated_reports(self._report_period_ns, self._report_at)],
        )  # fmt: skip

    def _follows_a_stream(self) -> bool:
        """Return whether a stream moves the joints, so that other inputs may wait for a moment."""
        now = time.monotonic()
        return now < self._complete_at and now - self._streams.continued < COMPLETE_PERIOD

    def _brake_after_loss(self) -> bool:
        """Brake after a loss of the state; return False once the joints are at rest."""
        fault = self._state.fault(self.params.state_timeout)
        self.runner.abort_all(f"the robot was lost: {fault}")
        if not self.controller.moving:
            self._unstarted = True
            self._update_actions(0.0)
            self.get_logger().error(
                f"{fault}: joints stopped, commands are refused until the state is known again"
            )
            return False
        self.controller.stop()
        return True

    def _step(self, deadlines: Sequence[int], *, lost: bool = False) -> None:
        """Advance the reference by one period for each deadline [ns], and send it."""
        if not deadlines:
            return
        state, period = self._state, self.period
        self.runner.scaling = self._streams.scaling
        usable = self._fresh and not self._monitor.frozen
        fresh = usable and not lost
        residual = self._guard.measure(state) if usable else None
        self._fresh = False
        for stamp in deadlines:
            reference = self.runner.step(
                period, state.position, state.velocity, fresh=fresh, residual=residual,
                effort=state.effort,
            )  # fmt: skip
            # A state is used once, for however many references.
            fresh, residual = False, None
            self._outputs.send(reference, state, period, stamp)
            self._monitor.command(reference, period)
        if self.runner.fault != self._logged_fault:
            self._logged_fault = self.runner.fault
            if self._logged_fault:
                self.get_logger().error(
                    f"{self._logged_fault}; stopped, holding the measured positions"
                )
        elapsed = len(deadlines) * period
        self._repeated += elapsed
        if not self._brief:
            self._update_actions(self._repeated)
            self._repeated = 0.0
        self._report()

    @property
    def _report_period_ns(self) -> int:
        return round(1e9 / self.params.state_publish_rate)

    def _report(self) -> None:
        """Publish ``~/controller_state`` and the external wrench when they are due."""
        stamp, period = self._outputs.sent[-1], self._report_period_ns
        if not self._report_at - period <= stamp < self._report_at:
            self._report_at = next_due(self._report_at, stamp, period)
            self._outputs.report(
                self._state, self._streams.scaling, self.runner.trajectories.newest, stamp
            )
            self._impedance.report(stamp)

    def _update_actions(self, dt: float) -> None:
        if self._gripper is not None:
            state, gripper = self._state, self._gripper
            at = state.measured_at(gripper.indices)
            gripper.update(state.position, state.velocity, state.effort, dt, at)

    def _reset(self) -> str:
        """Discard all commands, come to rest, and hold the measured positions.

        Positions that were reported after a jump, and not used so far, count as measured.
        """
        jumped = self._state.jumped() if self._unstarted else ()
        if jumped and not self.stop_reason:
            self._state.forget()
            return f"the reported positions of {', '.join(jumped)} are used from now on"
        refusal = self.stop_reason or self.state_fault()
        if refusal:
            raise MotionError(refusal)
        self.runner.abort_all("the controller was reset")
        self.runner.take(self.controller.joint_names, "a reset of the controller")
        self._update_actions(0.0)
        self.runner.effort_bounds[:] = np.inf
        self._streams.scaling = self.params.speed_scaling_initial_scaling_factor
        self.runner.hold_measured()
        self._monitor.reset()
        return "holding the measured positions"
