# SPDX-License-Identifier: Apache-2.0
"""Gripper actions of the articulation controller: GripperCommand and ParallelGripperCommand.

Positions are those of the finger joints. A gripper stopped by an object is stalled: it keeps
pushing with at most ``max_effort`` until its next command, and by default the goal succeeds. A
max_effort of 0 means the effort limit of the drives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from control_msgs.action import GripperCommand, ParallelGripperCommand
from numpy.typing import NDArray

from motion_nodes.control.active_commands import Claim
from motion_nodes.control.gripper import GripperConfig, GripperMove, GripStatus
from motion_nodes.control.joint_command import JointCommand
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.nodes.articulation.controller_host import ControllerHost
from motion_nodes.ros.concurrency.loop_action_server import LoopActionServer
from motion_nodes.ros.concurrency.threaded_action_server import ActionGoal, ActionOutcome

COMMAND_NAMES = (
    "gripper_action_controller/gripper_cmd",
    "gripper_action_controller/gripper_command",
)
"""Names of the GripperCommand action; clients use either."""

PARALLEL_NAME = "parallel_gripper_action_controller/gripper_cmd"

Array = NDArray[np.float64]


@dataclass(eq=False)
class _Grip:
    """Execution of a goal."""

    goal: ActionGoal
    move: GripperMove
    claim: Claim
    position: float = float("nan")
    """Position of the finger farthest from the goal [rad or m]."""
    canceled: bool = False

    @property
    def ended(self) -> bool:
        return self.canceled or bool(self.claim.lost) or self.move.status is not GripStatus.MOVING


class GripperServer(LoopActionServer[_Grip]):
    """Serves the gripper actions of one robot."""

    def __init__(
        self, host: ControllerHost, joints: tuple[str, ...], *, bounds_effort: bool
    ) -> None:
        """Create the servers; call :meth:`set_config` before the first goal.

        Args:
            host: the controller.
            joints: finger joints, which are all commanded to the same position.
            bounds_effort: whether the controller can limit the efforts of the fingers.
        """
        self._host = host
        self._joints = joints
        self._bounds_effort = bounds_effort
        names = host.runner.controller.joint_names
        self._indices = [names.index(joint) for joint in joints]
        actions = [(GripperCommand, name) for name in COMMAND_NAMES]
        super().__init__(host.node, [*actions, (ParallelGripperCommand, PARALLEL_NAME)])

    def set_config(self, config: GripperConfig, *, allow_stalling: bool) -> None:
        """Set the configuration of future goals.

        Args:
            config: criteria of arrival and stall.
            allow_stalling: whether a stalled goal succeeds.
        """
        self._config, self._allow_stalling = config, allow_stalling

    def update(self, position: Array, velocity: Array, dt: float) -> None:
        """Update the status of active goals; in the loop.

        Args:
            position: measured, of all joints [rad or m], shape (n,).
            velocity: measured, of all joints [rad/s or m/s], shape (n,).
            dt: time since the last update [s].
        """
        for grip in self._works:
            if not grip.ended:
                q, v = position[self._indices], velocity[self._indices]
                farthest = int(np.argmax(np.abs(q - grip.move.goal)))
                grip.position = float(q[farthest])
                grip.move.judge(grip.position, float(v[int(np.argmax(np.abs(v)))]), dt)

    def start(self, goal: ActionGoal) -> _Grip | None:
        """Start the motion; abort the goal if it cannot be executed."""
        command = goal.request.command
        try:
            position, max_effort = self._position(command), self._max_effort(command)
            return self._host.node.in_loop(lambda: self._start(goal, position, max_effort))
        except (MotionError, TimeoutError) as error:
            self._host.node.warn("gripper", f"gripper goal refused: {error}")
            self._finish(goal, ActionOutcome.ABORTED)
            return None

    def stop(self, grip: _Grip) -> None:
        """Cancel a goal: stop the fingers."""
        self._host.runner.release(grip.claim, stop=True)
        grip.canceled = True

    def answer(self, grip: _Grip) -> None:
        """Release the finger joints and send the result."""
        self._host.node.in_loop(lambda: self._host.runner.release(grip.claim, stop=False))
        if grip.claim.lost:
            self._host.node.get_logger().info(f"gripper goal {grip.claim.lost}")
        self._finish(grip.goal, self._outcome(grip), grip.move.status, grip.position)

    def _position(self, command: Any) -> float:
        """Return the commanded position in the goal of either action [rad or m]."""
        if hasattr(command, "max_effort"):
            return float(command.position)
        for name in command.name:
            if name not in self._joints:
                raise InvalidCommand(
                    f"unknown gripper joint '{name}'; allowed: {', '.join(self._joints)}"
                )
        positions = list(command.position)
        if len(positions) not in (1, len(command.name) or 1) or len({*positions}) != 1:
            raise InvalidCommand(
                f"positions are {positions}; a gripper needs one position for all fingers"
            )
        return float(positions[0])

    def _max_effort(self, command: Any) -> float:
        """Return the effort limit of each finger [N m or N]; infinite for that of the drives."""
        if hasattr(command, "max_effort"):
            limit = float(command.max_effort)
        else:
            limit = max((float(effort) for effort in command.effort), default=0.0)
        if not limit >= 0.0:
            raise InvalidCommand(f"max_effort is {limit}; give 0 for the drives' limit, or more")
        if limit > 0.0 and not self._bounds_effort:
            self._host.node.warn(
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
        return _Grip(goal, move, self._host.runner.claim(command, "a gripper goal", max_effort))

    def _outcome(self, grip: _Grip) -> ActionOutcome:
        if grip.canceled:
            return ActionOutcome.CANCELED
        status = grip.move.status
        held = status is GripStatus.STALLED and self._allow_stalling
        succeeded = (status is GripStatus.REACHED or held) and not grip.claim.lost
        return ActionOutcome.SUCCEEDED if succeeded else ActionOutcome.ABORTED

    def _finish(
        self,
        goal: ActionGoal,
        outcome: ActionOutcome,
        status: GripStatus | None = None,
        position: float = float("nan"),
    ) -> None:
        result = goal.result
        result.stalled = status is GripStatus.STALLED
        result.reached_goal = status is GripStatus.REACHED
        if isinstance(result, GripperCommand.Result):
            # The effort is not measured.
            result.position, result.effort = position, float("nan")
        else:
            result.state.name = list(self._joints)
            result.state.position = [position] * len(self._joints)
        goal.finish(outcome, result)
