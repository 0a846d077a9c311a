# SPDX-License-Identifier: Apache-2.0
"""The services of the reactive policy: its own, and those of MoveIt Servo of both generations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moveit_msgs.srv import ServoCommandType
from std_srvs.srv import SetBool, Trigger

from motion_nodes.errors import MotionError
from motion_nodes.nodes.policy.policy_inputs import SERVO_NAMES, PolicyInputs
from motion_nodes.rmpflow.target_follower import Follower
from motion_nodes.ros.node import MotionNode


class PolicyServices:
    """Answers in the executor; what is asked for is done between two ticks."""

    def __init__(self, node: MotionNode[Any], follower: Follower, inputs: PolicyInputs) -> None:
        """Offer the services of ``node``."""
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
        self._node.serve(Trigger, name, lambda _, response: self._answer(response, job))

    def _switch(self, name: str, job: Callable[[bool], str]) -> None:
        def handle(request: Any, response: Any) -> Any:
            return self._answer(response, lambda: job(bool(request.data)))

        self._node.serve(SetBool, name, handle)

    def _answer(self, response: Any, job: Callable[[], str]) -> Any:
        response.success, response.message = False, ""
        if not self._node.active:
            response.message = f"{self._node.get_name()} is {self._node.state_label}, not active"
            return response
        try:
            response.message = self._node.in_loop(job)
            response.success = True
        except (MotionError, TimeoutError) as error:
            response.message = str(error) or "the loop did not answer"
        return response

    # ---- in the loop

    def _reset(self) -> str:
        self._follower.reset()
        self._inputs.count_again()
        self._inputs.servo_on, self._inputs.servo_paused = True, False
        return "targets and posture are forgotten; obstacles and parameters stay"

    def _clear(self) -> str:
        had = self._follower.command is not None
        self._follower.clear()
        self._inputs.count_again()
        return "coming to rest" if had else "there was no target"

    def _pause(self, on: bool) -> str:
        self._follower.pause(on)
        return "paused" if on else "going on"

    def _ignore(self, on: bool) -> str:
        self._follower.policy.set_ignore_state_updates(on)
        return "the policy goes on from its own state" if on else "steps begin at the robot's state"

    def _start_servo(self) -> str:
        self._inputs.servo_on = True
        self._inputs.count_again()
        return "servo commands count"

    def _stop_servo(self) -> str:
        self._inputs.servo_on = False
        self._follower.end_servo()
        return "servo commands are refused until start_servo"

    def _pause_servo(self, on: bool) -> str:
        self._inputs.servo_paused = on
        if on:
            self._follower.end_servo()
        return "servo is paused" if on else "servo commands count"

    def _switch_type(self, request: Any, response: Any) -> Any:
        """Take one type of servo commands only; this answer has no place for words."""
        kind = int(request.command_type)
        response.success = False
        if kind not in SERVO_NAMES:
            known = ", ".join(f"{n} {word}" for n, word in SERVO_NAMES.items())
            self._node.warn("switch_command_type", f"command type {kind} is none of {known}")
            return response
        try:
            self._node.in_loop(lambda: self._change_type(kind))
            response.success = True
        except TimeoutError:
            self._node.warn("switch_command_type", "the loop did not answer")
        return response

    def _change_type(self, kind: int) -> None:
        if kind != self._inputs.servo_type:
            self._follower.end_servo()
        self._inputs.servo_type = kind
