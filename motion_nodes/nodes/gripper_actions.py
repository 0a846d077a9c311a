# SPDX-License-Identifier: Apache-2.0
"""The gripper actions of the articulation controller: GripperCommand and ParallelGripperCommand.

Positions are those of the finger joints. A gripper that is stopped by what it holds has stalled;
it goes on pushing with at most ``max_effort``, and by default that is a success. A max_effort of 0
leaves its drives their own force. It holds until the fingers are given something else to do.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from control_msgs.action import GripperCommand, ParallelGripperCommand
from numpy.typing import NDArray
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.task import Future

from motion_nodes.control.gripper import GripperConfig, GripperMove, GripStatus
from motion_nodes.control.joint_command import JointCommand
from motion_nodes.control.trajectory_runner import Claim
from motion_nodes.errors import BadCommand, MotionError
from motion_nodes.nodes.controller_host import ControllerHost
from motion_nodes.nodes.follow_trajectory import RESULT_TIMEOUT
from motion_nodes.ros import qos

COMMAND_NAMES = (
    "gripper_action_controller/gripper_cmd",
    "gripper_action_controller/gripper_command",
)
"""Both names that clients have for the GripperCommand action."""

PARALLEL_NAME = "parallel_gripper_action_controller/gripper_cmd"

Array = NDArray[np.float64]


@dataclass(eq=False)
class _Grip:
    handle: Any
    future: Future
    action: Any
    move: GripperMove | None = None
    claim: Claim | None = None
    position: float = float("nan")
    canceled: bool = False

    @property
    def ended(self) -> bool:
        if self.move is None or self.claim is None:
            return False
        return self.canceled or bool(self.claim.lost) or self.move.status is not GripStatus.MOVING


class GripperServer:
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
        self._grips: list[_Grip] = []
        self._futures: dict[bytes, Future] = {}
        self._ended = host.node.create_guard_condition(self.finish)
        kinds = [(GripperCommand, name) for name in COMMAND_NAMES]
        kinds.append((ParallelGripperCommand, PARALLEL_NAME))
        self._servers = [self._serve(kind, name) for kind, name in kinds]

    def set_config(self, config: GripperConfig, *, allow_stalling: bool) -> None:
        """Set what counts for the goals from now on.

        Args:
            config: what counts as arrived and as stopped.
            allow_stalling: whether a gripper that is stopped has succeeded.
        """
        self._config, self._allow_stalling = config, allow_stalling

    def look(self, position: Array, velocity: Array, dt: float) -> None:
        """Judge the moves under way by the measured state of all joints; called in the loop."""
        for grip in self._grips:
            if grip.move is None or grip.ended:
                continue
            q, v = position[self._indices], velocity[self._indices]
            farthest = int(np.argmax(np.abs(q - grip.move.goal)))
            grip.position = float(q[farthest])
            grip.move.judge(grip.position, float(v[int(np.argmax(np.abs(v)))]), dt)
        if any(grip.ended for grip in self._grips):
            self._ended.trigger()

    def destroy(self) -> None:
        """Abort what is left and take the servers down."""
        for grip in list(self._grips):
            self._answer(grip, "abort")
        for server in self._servers:
            server.destroy()
        self._host.node.destroy_guard_condition(self._ended)

    def _serve(self, kind: Any, name: str) -> ActionServer:
        return ActionServer(
            self._host.node,
            kind,
            name,
            execute_callback=self._execute,
            goal_callback=self._judge,
            handle_accepted_callback=lambda handle: self._accept(handle, kind),
            cancel_callback=self._cancel,
            result_timeout=RESULT_TIMEOUT,
            goal_service_qos_profile=qos.ACTION_REQUESTS,
            result_service_qos_profile=qos.ACTION_REQUESTS,
            cancel_service_qos_profile=qos.ACTION_REQUESTS,
        )

    def _judge(self, _request: Any) -> GoalResponse:
        return GoalResponse.ACCEPT if self._host.node.active else GoalResponse.REJECT

    def _accept(self, handle: Any, action: Any) -> None:
        grip = _Grip(handle, Future(), action)
        self._grips.append(grip)
        self._futures[bytes(handle.goal_id.uuid)] = grip.future
        handle.execute()
        try:
            goal = self._position(handle.request.command)
            effort = self._max_effort(handle.request.command)
            self._host.node.in_loop(lambda: self._start(grip, goal, effort))
        except (MotionError, TimeoutError) as error:
            self._host.node.warn("gripper", f"gripper goal refused: {error}")
            self._answer(grip, "abort")

    def _position(self, command: Any) -> float:
        """Return the position that a message of either action asks for."""
        if hasattr(command, "max_effort"):
            return float(command.position)
        for name in command.name:
            if name not in self._joints:
                raise BadCommand(
                    f"joint '{name}' is not of this gripper; it has {', '.join(self._joints)}"
                )
        wanted = list(command.position)
        if len(wanted) not in (1, len(command.name) or 1) or len({*wanted}) != 1:
            raise BadCommand(
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
            raise BadCommand(f"max_effort is {wanted}; give 0 for the drives' own, or more")
        if wanted > 0.0 and not self._bounds_effort:
            self._host.node.warn(
                "max_effort",
                f"max_effort {wanted:g} is not used: robot.yaml gives the drives of "
                f"{', '.join(self._joints)} no stiffness, so their push cannot be bounded",
            )
            return math.inf
        return wanted or math.inf

    def _start(self, grip: _Grip, goal: float, max_effort: float) -> None:
        refusal = self._host.refusal()
        if refusal is not None:
            raise MotionError(refusal)
        move = GripperMove(goal, self._config)
        command = JointCommand(names=self._joints, positions=[move.goal] * len(self._joints))
        grip.claim = self._host.runner.claim(command, "a gripper goal", max_effort)
        grip.move = move

    def _cancel(self, handle: Any) -> CancelResponse:
        grip = next((g for g in self._grips if g.handle.goal_id == handle.goal_id), None)
        if grip is None or grip.claim is None:
            return CancelResponse.REJECT
        claim = grip.claim
        try:
            self._host.node.in_loop(lambda: self._host.runner.release(claim, stop=True))
        except TimeoutError:
            return CancelResponse.REJECT
        grip.canceled = True
        self._ended.trigger()
        return CancelResponse.ACCEPT

    async def _execute(self, handle: Any) -> Any:
        return await self._futures.pop(bytes(handle.goal_id.uuid))

    def finish(self) -> None:
        """Answer the goals that have ended; in the executor."""
        for grip in list(self._grips):
            if not grip.ended:
                continue
            assert grip.move is not None
            assert grip.claim is not None
            claim = grip.claim
            self._host.node.in_loop(functools.partial(self._release, claim))
            if grip.canceled:
                self._answer(grip, "canceled")
            elif claim.lost:
                self._host.node.get_logger().info(f"gripper goal {claim.lost}")
                self._answer(grip, "abort")
            else:
                held = grip.move.status is GripStatus.STALLED and self._allow_stalling
                good = grip.move.status is GripStatus.REACHED or held
                self._answer(grip, "succeed" if good else "abort")

    def _release(self, claim: Claim) -> None:
        self._host.runner.release(claim, stop=False)

    def _answer(self, grip: _Grip, how: str) -> None:
        self._grips.remove(grip)
        getattr(grip.handle, how)()
        result = grip.action.Result()
        status = grip.move.status if grip.move is not None else None
        result.stalled = status is GripStatus.STALLED
        result.reached_goal = status is GripStatus.REACHED
        if grip.action is GripperCommand:
            # What the fingers push with is not measured here.
            result.position, result.effort = grip.position, float("nan")
        else:
            result.state.name = list(self._joints)
            result.state.position = [grip.position] * len(self._joints)
        grip.future.set_result(result)
