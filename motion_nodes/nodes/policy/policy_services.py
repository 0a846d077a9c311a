# SPDX-License-Identifier: Apache-2.0
"""Services of the reactive policy: its own, and those of MoveIt Servo in ROS 1 and ROS 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moveit_msgs.srv import ServoCommandType
from std_srvs.srv import SetBool, Trigger

from motion_nodes.nodes.policy.policy_inputs import SERVO_NAMES, RmpflowInputs
from motion_nodes.rmpflow.target_follower import Follower
from motion_nodes.ros.loop_services import respond_from_loop
from motion_nodes.ros.messages.moveit_messages import RequestRejected, require_active
from motion_nodes.ros.node import MotionNode


class PolicyServices:
    """Services whose requests are processed in the loop."""

    def __init__(self, node: MotionNode[Any], follower: Follower, inputs: RmpflowInputs) -> None:
        """Create the services."""
        self._node, self._follower, self._inputs = node, follower, inputs
        self._trigger("~/reset", self._reset)
        self._trigger("~/clear_target", self._clear)
        self._switch("~/pause", self._pause)
        self._switch("~/ignore_state_updates", self._ignore)
        self._trigger("servo_node/start_servo", self._start_servo)
        self._trigger("servo_node/stop_servo", self._stop_servo)
        self._switch("servo_node/pause_servo", self._pause_servo)
        node.serve(ServoCommandType, "servo_node/switch_command_type", self._switch_type)

    def _trigger(self, name: str, job: Callable[[], str]) -> None:
        self._node.serve(Trigger, name, lambda _, response: self._respond(response, job))

    def _switch(self, name: str, job: Callable[[bool], str]) -> None:
        def handle(request: Any, response: Any) -> Any:
            return self._respond(response, lambda: job(bool(request.data)))

        self._node.serve(SetBool, name, handle)

    def _respond(self, response: Any, job: Callable[[], str]) -> Any:
        try:
            require_active(self._node)
        except RequestRejected as error:
            response.success, response.message = False, str(error)
            return response
        return respond_from_loop(self._node, response, job)

    # ---- loop

    def _reset(self) -> str:
        self._inputs.reset()
        self._follower.reset()
        return "targets, posture and servo were reset; obstacles and parameters are kept"

    def _clear(self) -> str:
        had_target = self._follower.command is not None
        self._inputs.discard()
        self._follower.clear()
        self._inputs.accept_all()
        return "coming to rest" if had_target else "there was no target"

    def _pause(self, on: bool) -> str:
        self._follower.pause(on)
        return "paused" if on else "resumed"

    def _ignore(self, on: bool) -> str:
        self._follower.policy.set_ignore_state_updates(on)
        return "integrating the policy's own state" if on else "using the measured joint state"

    def _start_servo(self) -> str:
        self._inputs.servo_on, self._inputs.servo_fault = True, ""
        self._inputs.accept_all()
        return "servo commands are accepted"

    def _stop_servo(self) -> str:
        self._inputs.servo_on = False
        self._inputs.discard()
        self._follower.end_servo()
        return "servo commands are refused until start_servo"

    def _pause_servo(self, on: bool) -> str:
        self._inputs.servo_paused = on
        if on:
            self._follower.end_servo()
        return "servo is paused" if on else "servo commands are accepted"

    def _switch_type(self, request: Any, response: Any) -> Any:
        """Select the type of Servo commands; the response has no text field."""
        kind = int(request.command_type)
        response.success = False
        if kind not in SERVO_NAMES:
            known = ", ".join(f"{n} {name}" for n, name in SERVO_NAMES.items())
            self._node.warn("switch_command_type", f"command type is {kind}; allowed: {known}")
            return response
        try:
            self._node.in_loop(lambda: self._change_type(kind))
            response.success = True
        except TimeoutError as error:
            self._node.warn("switch_command_type", str(error))
        return response

    def _change_type(self, kind: int) -> None:
        if kind != self._inputs.servo_type:
            self._follower.end_servo()
        self._inputs.servo_type, self._inputs.servo_fault = kind, ""
