# SPDX-License-Identifier: Apache-2.0
"""The gripper actions of the articulation controller: GripperCommand and ParallelGripperCommand.

Positions are those of the finger joints. A gripper that is stopped by what it holds has stalled;
it goes on pushing with at most ``max_effort``, and by default that is a success. A max_effort of 0
leaves its drives their own force. It holds until the fingers are given something else to do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from control_msgs.action import GripperCommand, ParallelGripperCommand
from numpy.typing import NDArray

from motion_nodes.control.gripper import GripperConfig, GripperMove, GripStatus
from motion_nodes.control.joint_arbiter import Claim
from motion_nodes.control.joint_command import JointCommand
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.nodes.articulation.controller_host import ControllerHost
from motion_nodes.ros.concurrency.loop_action_server import LoopGoals
from motion_nodes.ros.concurrency.threaded_action_server import ActionGoal, ActionOutcome

COMMAND_NAMES = (
    "gripper_action_controller/gripper_cmd",
    "gripper_action_controller/gripper_command",
)
"""Both names that clients have for the GripperCommand action."""

PARALLEL_NAME = "parallel_gripper_action_controller/gripper_cmd"

Array = NDArray[np.float64]


@dataclass(eq=False)
class _Grip:
    """What is done for a goal."""

    goal: ActionGoal
    move: GripperMove
    claim: Claim
    position: float = float("nan")
    canceled: bool = False

    @property
    def ended(self) -> bool:
        return self.canceled or bool(self.claim.lost) or self.move.status is not GripStatus.MOVING


class GripperServer(LoopGoals[_Grip]):
    """Serves the gripper of one robot."""

    def __init__(
        self, host: ControllerHost, joints: tuple[str, ...], *, bounds_effort: bool
    ) -> None:
        """Create the servers; :meth:`set_config` comes before the first goal.

        Args:
            host: the controller.
            joints: the finger joints; all are given the same position.
            bounds_effort: whether the controller can bound what the fingers push with.
        """
        self._host = host
        self._joints = joints
        self._bounds_effort = bounds_effort
        names = host.runner.controller.joint_names
        self._indices = [names.index(joint) for joint in joints]
        actions = [(GripperCommand, name) for name in COMMAND_NAMES]
        super().__init__(host.node, [*actions, (ParallelGripperCommand, PARALLEL_NAME)])

    def set_config(self, config: GripperConfig, *, allow_stalling: bool) -> None:
        """Set what counts for the goals from now on.

        Args:
            config: what counts as arrived and as stopped.
            allow_stalling: whether a gripper that is stopped has succeeded.
        """
        self._config, self._allow_stalling = config, allow_stalling

    def judge(self, position: Array, velocity: Array, dt: float) -> None:
        """Judge the moves under way by the measured state of all joints; called in the loop."""
        for grip in self._works:
            if not grip.ended:
                q, v = position[self._indices], velocity[self._indices]
                farthest = int(np.argmax(np.abs(q - grip.move.goal)))
                grip.position = float(q[farthest])
                grip.move.judge(grip.position, float(v[int(np.argmax(np.abs(v)))]), dt)

    def start(self, goal: ActionGoal) -> _Grip | None:
        """Start the move, or say why not."""
        command = goal.request.command
        try:
            position, max_effort = self._position(command), self._max_effort(command)
            return self._host.node.in_loop(lambda: self._start(goal, position, max_effort))
        except (MotionError, TimeoutError) as error:
            self._host.node.warn("gripper", f"gripper goal refused: {error}")
            self._answer(goal, ActionOutcome.ABORTED)
            return None

    def stop(self, grip: _Grip) -> None:
        """Stop the fingers."""
        self._host.runner.release(grip.claim, stop=True)
        grip.canceled = True

    def answer(self, grip: _Grip) -> None:
        """Let go of the fingers' joints, and tell where they came to."""
        self._host.node.in_loop(lambda: self._host.runner.release(grip.claim, stop=False))
        if grip.claim.lost:
            self._host.node.get_logger().info(f"gripper goal {grip.claim.lost}")
        self._answer(grip.goal, self._outcome(grip), grip.move.status, grip.position)

    def _position(self, command: Any) -> float:
        """Return the position that a message of either action asks for."""
        if hasattr(command, "max_effort"):
            return float(command.position)
        for name in command.name:
            if name not in self._joints:
                raise InvalidCommand(
                    f"joint '{name}' is not of this gripper; it has {', '.join(self._joints)}"
                )
        wanted = list(command.position)
        if len(wanted) not in (1, len(command.name) or 1) or len({*wanted}) != 1:
            raise InvalidCommand(
                f"a gripper needs one position for all its fingers, was given {wanted}"
            )
        return float(wanted[0])

    def _max_effort(self, command: Any) -> float:
        """Return what each finger may push with [N or N m]; infinite for no bound."""
        if hasattr(command, "max_effort"):
            wanted = float(command.max_effort)
        else:
            wanted = max((float(effort) for effort in command.effort), default=0.0)
        if not wanted >= 0.0:
            raise InvalidCommand(f"max_effort is {wanted}; give 0 for the drives' own, or more")
        if wanted > 0.0 and not self._bounds_effort:
            self._host.node.warn(
                "max_effort",
                f"max_effort {wanted:g} is not used: robot.yaml gives the drives of "
                f"{', '.join(self._joints)} no stiffness, so their push cannot be bounded",
            )
            return math.inf
        return wanted or math.inf

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
        good = (status is GripStatus.REACHED or held) and not grip.claim.lost
        return ActionOutcome.SUCCEEDED if good else ActionOutcome.ABORTED

    def _answer(
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
            # What the fingers push with is not measured here.
            result.position, result.effort = position, float("nan")
        else:
            result.state.name = list(self._joints)
            result.state.position = [position] * len(self._joints)
        goal.finish(outcome, result)
