# SPDX-License-Identifier: Apache-2.0
"""Commands of a policy: twists, limited, or arrays of another width."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from std_msgs.msg import Float64MultiArray

from motion_nodes.errors import InvalidCommand
from motion_nodes.nodes.learned_policy.learned_policy_params import shaper_of
from motion_nodes.policies.policy_spec import TWIST_WIDTH
from motion_nodes.policies.runner import PolicyRunner
from motion_nodes.ros import qos
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.wheeled.base_commands import StreamPauses, TwistInputs


class PolicyCommands:
    """The present command of a policy."""

    def __init__(self, node: MotionNode[Any], runner: PolicyRunner) -> None:
        """Create the subscriptions.

        Args:
            node: the node, with LearnedPolicyParams.
            runner: the policy.
        """
        self._node, self._width = node, runner.spec.command_width
        self._twists: TwistInputs | None = None
        self._array = None
        if self._width == TWIST_WIDTH:
            self._twists = TwistInputs(node, stamped_cmd_vel=node.params.stamped_cmd_vel)
        elif self._width:
            self._array = node.poll(Float64MultiArray, "~/command", qos.NEWEST)
        self._balances = runner.spec.balances
        self._pauses = StreamPauses()
        self.run_requested = False
        """Whether a policy without twists shall run."""
        self.reset()

    def reset(self) -> None:
        """Return to zero at once."""
        self._shaper = shaper_of(self._node.params)
        self._given = -math.inf
        self._values = np.zeros(self._width)
        self.run_requested = False

    def suspend(self) -> None:
        """Bring the policy to rest, and refuse present streams of commands until they pause."""
        self._shaper.set_target(np.zeros(TWIST_WIDTH))
        self._rest()
        self._pauses.suspend()
        if self._twists is not None:
            self._twists.pauses.suspend()

    def set_params(self) -> None:
        """Apply changed limits; the command continues from its value."""
        params = self._node.params
        self._shaper.set_limits(params.max_command, params.max_command_rate)

    @property
    def notice(self) -> str:
        """How to command the policy, as text."""
        if self._twists is not None:
            return "drive it by ~/cmd_vel"
        command = "command it by ~/command and " if self._width else ""
        return f"{command}start it by ~/run"

    @property
    def moving(self) -> bool:
        """Whether the policy has to run."""
        return self.run_requested or (self._twists is not None and self._shaper.moving)

    def missing(self, now: float) -> str:
        """Return that a policy with arrays has no command at a time [s]; empty if it has one."""
        timeout = self._node.params.cmd_vel_timeout
        if self._array is None or now - self._given <= timeout:
            return ""
        return f"no ~/command within {timeout:g} s (cmd_vel_timeout)"

    def age(self, now: float) -> float:
        """Return the age of the newest command at a time [s]; infinite without one."""
        return now - self._given

    def take(self, now: float, refusal: str) -> None:
        """Read pending commands.

        Args:
            now: time of the node [s].
            refusal: why they are refused, as text; empty: they are accepted.
        """
        timeout = self._node.params.cmd_vel_timeout
        if self._array is not None:
            self._take_array(now, refusal)
            if self.missing(now):
                self._rest()
        if self._twists is None:
            return
        for twist, given in self._twists.take(now, timeout, refusal):
            try:
                self._shaper.set_target((twist.vx, twist.vy, twist.wz))
                self._given = given
            except InvalidCommand as error:
                self._node.warn("command", f"command ignored: {error}")
        if refusal or now - self._given > timeout:
            self._shaper.set_target(np.zeros(TWIST_WIDTH))

    def step(self, dt: float) -> np.ndarray:
        """Return the command after a time [s], shape (m,)."""
        return self._shaper.step(dt) if self._twists is not None else self._values

    def _rest(self) -> None:
        """Request no run; a policy that balances the robot continues with a command of zero.

        Others are replaced by holding, and an array of zeros may mean another place to them.
        """
        self.run_requested = False
        if self._balances:
            self._values = np.zeros(self._width)

    def _take_array(self, now: float, refusal: str) -> None:
        topic = self._array
        message = topic.newest() if topic is not None else None
        if topic is None or message is None:
            return
        values = np.array(message.data, dtype=np.float64)
        timeout = self._node.params.cmd_vel_timeout
        problem = refusal or self._pauses.continues(topic, topic.sent, timeout)
        if values.shape != (self._width,) or not np.isfinite(values).all():
            problem = f"it must be {self._width} finite numbers"
        if problem:
            self._node.warn("command", f"command ignored: {problem}")
        else:
            self._values, self._given = values, now
