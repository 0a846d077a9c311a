# SPDX-License-Identifier: Apache-2.0
"""Gripper actions of the articulation controller: GripperCommand and ParallelGripperCommand.

Positions are those of the finger joints. A gripper stopped by an object is stalled: it keeps
pushing with at most ``max_effort`` until its next command, and by default the goal succeeds. A
max_effort of 0 means the effort limit of the drives. The grasp, its force, slips and loss, is
monitored until another command takes the fingers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from control_msgs.action import GripperCommand, ParallelGripperCommand
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from motion_nodes.core.control.gripper import (
    GraspForce,
    GraspSettings,
    GraspState,
    GripperConfig,
    GripperMove,
    GripStatus,
)
from motion_nodes.core.control.joint_command import Claim, JointCommand
from motion_nodes.core.robot.configurations import NamedJoints
from motion_nodes.core.robot.inverse_dynamics import STANDARD_GRAVITY
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.nodes.articulation.articulation_params import ArticulationParams
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.servers import ActionGoal, ActionOutcome, LoopActionServer
from motion_nodes.ros.parameters import settings_from
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode

STATUS = "gripper_action_controller/status"


class GraspWatch:
    """Applies the force of the current grasp to the fingers, and publishes its status."""

    def __init__(self, host: ArticulationControllerNode, joints: tuple[str, ...]) -> None:
        """Create the publisher.

        Args:
            host: the controller.
            joints: finger joints.
        """
        controller = host.runner.controller
        self._host = host
        self._indices = np.array([controller.joint_names.index(joint) for joint in joints])
        self.settings = GraspSettings()
        self.grasp: GraspForce | None = None
        """The current grasp, until another command preempts it."""
        self._out = host.advertise(DiagnosticStatus, STATUS, qos.STATUS)
        self._bounded = False
        """Whether the efforts of the fingers are limited."""
        self._published: object = self  # unlike anything that is published

    def begin(self, claim: Claim, max_effort: float) -> GraspForce:
        """Begin a grasp of claimed fingers with a max effort of each [N or N m]; in the loop."""
        limits = self._host.runner.controller.limits.effort[self._indices]
        grasp = GraspForce(self.settings, min(max_effort, float(limits.min())), len(limits))
        self.grasp = grasp
        self._bounded = self.settings.grasp_force > 0.0 or math.isfinite(max_effort)
        if self.settings.grasp_force > 0.0:
            self._host.runner.effort_bounds[claim.joints] = grasp.force
        return grasp

    def update(self, position: Array, pushing: float, dt: float) -> None:
        """Process a measurement; in the loop.

        Args:
            position: of all joints [rad or m], shape (n,).
            pushing: smallest effort of the fingers towards their goal [N or N m]; NaN: unknown.
            dt: time since the last one [s].
        """
        runner, grasp = self._host.runner, self.grasp
        if grasp is not None and not runner.gripping(self._indices):
            self.grasp = grasp = None
        if grasp is not None and grasp.holding:
            before = grasp.state
            opening, contact = float(position[self._indices].mean()), self._host.contact
            load = certain = math.nan
            if contact is not None:
                load, certain = self._load(contact.value), self._load(contact.certain)
            grasp.step(opening, pushing, load, dt, certain)
            if self._bounded:
                runner.effort_bounds[self._indices] = grasp.efforts(position[self._indices])
            if grasp.state is not before:
                self._host.grasp_failed(grasp.reason)
        self._publish()

    def _load(self, wrench: Array) -> float:
        """Return the force on the tool beyond its own weight [N]."""
        weight = self._host.params.impedance_payload_mass * np.array(STANDARD_GRAVITY)
        return float(np.linalg.norm(wrench[:3] + weight))

    def _publish(self) -> None:
        grasp = self.grasp
        state = "" if grasp is None else grasp.state.value
        now = None if grasp is None else (grasp.state, grasp.slips, round(grasp.force, 1))
        if now == self._published:
            return
        self._published = now
        failed = grasp is not None and grasp.state in (GraspState.LOST, GraspState.OVERLOADED)
        message = DiagnosticStatus(
            level=DiagnosticStatus.WARN if failed else DiagnosticStatus.OK,
            name="gripper",
            message=state or "no grasp",
            hardware_id="gripper_action_controller",
        )
        if grasp is not None:
            load = "unknown" if math.isnan(grasp.load) else f"{grasp.load:.2f}"
            message.values = [
                KeyValue(key="effort limit", value=f"{grasp.force:.2f}"),
                KeyValue(key="load [N]", value=load),
                KeyValue(key="slips", value=str(grasp.slips)),
                KeyValue(key="reason", value=grasp.reason),
            ]
        self._out.publish(message)


COMMAND_NAMES = (
    "gripper_action_controller/gripper_cmd",
    "gripper_action_controller/gripper_command",
)
"""Names of the GripperCommand action; clients use either."""

PARALLEL_NAME = "parallel_gripper_action_controller/gripper_cmd"

MAX_GAP = 0.05
"""[s] A measurement counts for at most this time: a single one after a pause is no stall."""


@dataclass(eq=False)
class _Grip:
    """Execution of a goal."""

    goal: ActionGoal
    move: GripperMove
    claim: Claim
    grasp: GraspForce
    position: float = math.nan
    """Position of the finger farthest from the goal [rad or m]."""
    effort: float = math.nan
    """Smallest effort of the fingers towards the goal [N or N m]."""
    canceled: bool = False
    bounds: Array | None = None
    """Effort limits that apply as soon as the references have passed all fingers [N m or N]: until
    then they press them on an object that they held before."""

    @property
    def ended(self) -> bool:
        if self.canceled or bool(self.claim.lost):
            return True
        return self.move.status is not GripStatus.MOVING and not self.grasp.settling

    @property
    def stalled(self) -> bool:
        """Whether the fingers are stopped by an object."""
        return self.move.status is GripStatus.STALLED and self.grasp.state is not GraspState.LOST

    def pushing(self, q: Array, effort: Array) -> float:
        """Return the smallest effort of the fingers towards the goal; NaN if not measured."""
        return float((effort * np.sign(self.move.goal - q)).clip(0.0).min())


class GripperServer(LoopActionServer[_Grip]):
    """Serves the gripper actions of one robot."""

    def __init__(
        self,
        host: ArticulationControllerNode,
        joints: tuple[str, ...],
        limits: JointLimits,
        *,
        bounds_effort: bool,
    ) -> None:
        """Create the servers.

        Args:
            host: the controller.
            joints: finger joints, which are all commanded to the same position.
            limits: of these joints.
            bounds_effort: whether the controller can limit the efforts of the fingers.
        """
        self._host = host
        self._joints, self._limits = joints, limits
        self._bounds_effort = bounds_effort
        names = host.runner.controller.joint_names
        self.indices = np.array([names.index(joint) for joint in joints])
        """Indices of the fingers among the joints of the controller."""
        self._watch = GraspWatch(host, joints)
        self._unmeasured, self._measured_at = 0.0, -math.inf
        self._newest: _Grip | None = None
        """The newest goal, whose grasp is monitored."""
        self._measured = math.nan, math.nan
        """Mean position of the fingers [rad or m], and their mean effort [N m or N]."""
        self.set_params(host.params)
        # Of two action types under one name, clients find neither.
        aliases = [f"{name}/gripper_cmd" for name in host.params.gripper_aliases]
        parallel = [f"{name}/gripper_cmd" for name in host.params.gripper_parallel_aliases]
        if len(host.robot.hands) == 1:
            aliases[:0] = COMMAND_NAMES
            parallel[:0] = [PARALLEL_NAME]
        actions = [(GripperCommand, name) for name in aliases]
        actions += [(ParallelGripperCommand, name) for name in parallel]
        super().__init__(host, actions)
        self.fill_state_by(lambda result: self._fill(result, *self._measured))
        if host.params.reject_invalid_goals:
            self.refuse_by(self._refusal)

    def set_params(self, params: ArticulationParams) -> None:
        """Set the configuration of future goals."""
        lower, upper = float(self._limits.lower.max()), float(self._limits.upper.min())
        self._config = settings_from(params, GripperConfig, "gripper_", lower=lower, upper=upper)
        self._allow_stalling = params.gripper_allow_stalling
        self._watch.settings = settings_from(params, GraspSettings, "gripper_")

    def update(
        self, position: Array, velocity: Array, effort: Array, dt: float, measured_at: float
    ) -> None:
        """Update the status of active goals, and the current grasp; in the loop.

        Without a new measurement fingers neither arrive nor stall, and nothing is lost.

        Args:
            position: measured, of all joints [rad or m], shape (n,).
            velocity: measured, of all joints [rad/s or m/s], shape (n,).
            effort: measured, of all joints [N m or N], shape (n,); NaN: not measured.
            dt: time since the last update [s].
            measured_at: time at which the state of all fingers was received [s].
        """
        self._unmeasured += dt
        if measured_at <= self._measured_at:
            return
        dt = min(self._unmeasured, MAX_GAP)
        missed, self._unmeasured, self._measured_at = self._unmeasured - dt, 0.0, measured_at
        q, v, tau = position[self.indices], velocity[self.indices], effort[self.indices]
        self._measured = float(q.mean()), float(tau.mean())
        for grip in self._works:
            if not grip.ended:
                grip.move.wait(missed)
                self._evaluate(grip, q, v, tau, dt)
        if self._newest is not None:
            self._watch.update(position, self._newest.pushing(q, tau), dt)

    def _evaluate(self, grip: _Grip, q: Array, v: Array, effort: Array, dt: float) -> None:
        move, grasp = grip.move, grip.grasp
        farthest = int(np.argmax(np.abs(q - move.goal)))
        grip.position, grip.effort = float(q[farthest]), grip.pushing(q, effort)
        before, speed = move.status, float(v[int(np.argmax(np.abs(v)))])
        reference = self._host.runner.controller.reference_position[self.indices]
        pushing = grasp.pushing(grip.effort)
        move.evaluate(
            grip.position, speed, dt, pushing=pushing, reference=float(reference[farthest])
        )
        # An object that is not centred holds the fingers at different positions.
        behind = bool((np.sign(move.goal - q) * (q - reference) > 0.0).any())
        if grip.bounds is not None and not (behind and move.status is GripStatus.MOVING):
            self._host.runner.effort_bounds[self.indices] = grip.bounds
            grip.bounds = None
        if move.status is GripStatus.STALLED and before is GripStatus.MOVING:
            grasp.hold(float(q.mean()), move.goal - grip.position)

    def start(self, goal: ActionGoal) -> _Grip | None:
        """Start the motion; abort the goal if it cannot be executed."""
        command = goal.request.command
        try:
            position, max_effort = self._position(command), self._max_effort(command)
            return self._host.in_loop(lambda: self._start(goal, position, max_effort))
        except (MotionError, TimeoutError) as error:
            self._host.warn("gripper", f"gripper goal refused: {error}")
            self._finish(goal, ActionOutcome.ABORTED)
            return None

    def _refusal(self, request: Any) -> str:
        """Return why a goal is rejected when it is sent; empty if it is accepted."""
        try:
            GripperMove(self._position(request.command), self._config)
            self._max_effort(request.command)
        except MotionError as error:
            return str(error)
        return ""

    def stop(self, grip: _Grip) -> None:
        """Cancel a goal: stop the fingers."""
        self._host.runner.release(grip.claim, stop=True)
        grip.canceled = True

    def answer(self, grip: _Grip) -> None:
        """Release the finger joints and send the result."""
        self._host.in_loop(lambda: self._host.runner.release(grip.claim, stop=False))
        if grip.claim.lost:
            self._host.get_logger().info(f"gripper goal {grip.claim.lost}")
        if grip.grasp.state is GraspState.LOST:
            self._host.warn("gripper", f"gripper goal aborted: {grip.grasp.reason}")
        self._finish(grip.goal, self._outcome(grip), grip)

    def _position(self, command: Any) -> float:
        """Return the commanded position in the goal of either action [rad or m]."""
        if hasattr(command, "max_effort"):
            return float(command.position)
        named = NamedJoints(self._host.robot.tree, command.name)
        for name in named.names:
            if name not in self._joints:
                raise InvalidCommand(
                    f"unknown gripper joint '{name}'; allowed: {', '.join(self._joints)}"
                )
        positions, count = list(command.position), len(command.name)
        fits = len(positions) in (1, count or 1)
        if fits and not named.trivial:
            # One position for joints with different multipliers is that of the driven joint.
            given = positions if count == len(positions) else [positions[0]]
            if count == len(given):
                positions = named.positions(given).tolist()
        if not fits or len({*positions}) != 1:
            raise InvalidCommand(
                f"positions are {positions}; a gripper needs one position for all fingers"
            )
        return float(positions[0])

    def _max_effort(self, command: Any) -> float:
        """Return the effort limit of each finger [N m or N]; infinite for that of the drives."""
        given = [command.max_effort] if hasattr(command, "max_effort") else list(command.effort)
        if self._host.params.peer_defaults and not hasattr(command, "max_effort"):
            given = [abs(effort) for effort in given]
        for effort in given:
            if not effort >= 0.0:
                raise InvalidCommand(
                    f"max_effort is {effort}; give 0 for the drives' limit, or more",
                    field="max_effort",
                )
        limit = float(max(given, default=0.0))
        if limit > 0.0 and not self._bounds_effort:
            self._host.warn(
                "max_effort",
                f"max_effort {limit:g} is not used: the drives of {', '.join(self._joints)} have "
                "no stiffness in robot.yaml, so their efforts cannot be limited",
            )
            return math.inf
        return limit or math.inf

    def _start(self, goal: ActionGoal, position: float, max_effort: float) -> _Grip:
        refusal = self._host.refusal()
        if refusal is not None:
            raise MotionError(refusal)
        move = GripperMove(position, self._config)
        command = JointCommand(names=self._joints, positions=[move.goal] * len(self._joints))
        bounds = self._host.runner.effort_bounds
        before = bounds[self.indices].copy()
        claim = self._host.runner.claim(command, "a gripper goal", max_effort)
        self._unmeasured = 0.0
        grasp = self._watch.begin(claim, max_effort)
        self._newest = _Grip(goal, move, claim, grasp, *self._measured)
        # A released object is not pressed harder before the fingers open.
        self._newest.bounds = bounds[self.indices].copy()
        bounds[self.indices] = np.minimum(before, self._newest.bounds)
        return self._newest

    def _outcome(self, grip: _Grip) -> ActionOutcome:
        if grip.canceled:
            return ActionOutcome.CANCELED
        preempted = bool(grip.claim.lost) and grip is not self._newest
        if preempted and self._host.params.peer_defaults:
            return ActionOutcome.PREEMPTED
        status = grip.move.status
        held = self._allow_stalling and grip.stalled
        succeeded = (status is GripStatus.REACHED or held) and not grip.claim.lost
        return ActionOutcome.SUCCEEDED if succeeded else ActionOutcome.ABORTED

    def _finish(self, goal: ActionGoal, outcome: ActionOutcome, grip: _Grip | None = None) -> None:
        result = goal.result
        result.stalled = grip is not None and grip.stalled
        result.reached_goal = grip is not None and grip.move.status is GripStatus.REACHED
        measured = self._measured if grip is None else (grip.position, grip.effort)
        self._fill(result, *measured)
        goal.finish(outcome, result)

    def _fill(self, result: Any, position: float, effort: float) -> None:
        """Fill in position and effort of the fingers in the result of either action."""
        if isinstance(result, GripperCommand.Result):
            result.position, result.effort = position, effort
        else:
            count = len(self._joints)
            result.state.name = list(self._joints)
            result.state.position, result.state.effort = [position] * count, [effort] * count


def gripper_of(
    host: ArticulationControllerNode, robot: Robot, drives: bool
) -> GripperServer | None:
    """Return the servers of a robot's gripper; None if the controller has the joints of none.

    It is None, too, if it has the joints of several ones: a grip names no joint.

    Args:
        host: the controller.
        robot: with the gripper.
        drives: whether the controller computes the efforts.
    """
    own = [hand for hand in robot.hands if set(hand.joints) <= set(host.params.joints)]
    if len(own) != 1:
        return None
    group = own[0]
    bounds = drives or all(robot.drive(joint).stiffness > 0.0 for joint in group.joints)
    return GripperServer(host, group.joints, group.limits, bounds_effort=bounds)
