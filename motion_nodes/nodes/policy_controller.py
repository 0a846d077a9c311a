# SPDX-License-Identifier: Apache-2.0
"""Policy controller: runs a learned policy on a robot, with standing up and damping around it.

Inputs are twists (or other commands) and measurements, outputs joint commands (docs/policies.md).
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from std_srvs.srv import Trigger

from motion_nodes.control.resync import REST_SPEED
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.learned_policy.drive_outputs import DriveOutputs
from motion_nodes.nodes.learned_policy.learned_policy_params import (
    LearnedPolicyParams,
    policy_defaults,
    sequence_of,
    shaper_of,
)
from motion_nodes.nodes.learned_policy.measurements import Measurements
from motion_nodes.nodes.learned_policy.policy_commands import PolicyCommands
from motion_nodes.policies.policy_files import load_policy
from motion_nodes.policies.policy_sequence import PolicyMode, SequenceSettings
from motion_nodes.policies.runner import PolicyRunner
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.loop_services import respond_from_loop
from motion_nodes.ros.names import POLICY_CONTROLLER
from motion_nodes.ros.robot_node import RobotNode
from motion_nodes.ros.run import run_node


class PolicyControllerNode(RobotNode[LearnedPolicyParams]):
    """Runs the policy of one robot."""

    params_type = LearnedPolicyParams
    obeys_stop = drives_robot = True
    _runner: PolicyRunner | None = None

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__(POLICY_CONTROLLER, ros_args=ros_args)

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Load the policy; return the defaults of its description."""
        given = {
            name: self._parameter_overrides[name].value
            for name in ("policy", "description", "joint_order")
            if name in self._parameter_overrides
        }
        self._runner = None
        if not given.get("policy"):
            return {}
        self._runner = load_policy(
            str(given["policy"]),
            robot,
            description=str(given.get("description") or "") or None,
            joint_order=tuple(given.get("joint_order") or ()),
        )
        return policy_defaults(self._runner)

    def check(self, params: LearnedPolicyParams) -> str | None:
        """Validate the limits of the command."""
        try:
            shaper_of(params)
        except MotionError as error:
            return str(error)
        return None

    def configure(self) -> None:
        """Create the sequence and the endpoints."""
        runner = self._runner
        assert runner is not None, "the parameter policy is required"
        self.sequence = sequence_of(self.params, self.robot, runner)
        self._measured = Measurements(self, self.robot, runner)
        self._commands = PolicyCommands(self, runner)
        self._outputs = DriveOutputs(self, self.robot, runner)
        self._period = runner.period
        for name, job in (
            ("stand_up", self._stand_up),
            ("sit_down", self._sit_down),
            ("run", self._run),
            ("damp", self._damp),
        ):
            self.serve(Trigger, f"~/{name}", self._responder(job))
        for note in runner.spec.notes:
            self.get_logger().warning(f"{runner.spec.source}: {note}")
        self._inference: deque[float] = deque(maxlen=200)

    def activate(self) -> None:
        """Wait for the measurements, then stand up."""
        self._restart("not started")

    def tick(self, dt: float) -> None:
        """Read measurements and commands, and send one reference for each deadline."""
        now = self.input_ns() * 1e-9
        self._measured.take(now)
        fault = self._measured.fault(now)
        self._commands.take(now, self.stop_reason or fault)
        if self._waiting and not fault:
            self._begin()
        if self._waiting:
            return
        evaluations = self.sequence.evaluations
        if self._commands.missing(now) and self.sequence.mode is PolicyMode.RUNNING:
            self.sequence.stop()
        for stamp in self.deadlines:
            self._measured.inputs.command = self._commands.step(self.period)
            output = self.sequence.step(
                self._measured.inputs,
                moving=self._commands.moving,
                fault=fault,
                # A late cycle must not evaluate the policy several times on the same measurement.
                evaluate=self.sequence.evaluations == evaluations,
            )
            self._outputs.send(output, stamp)
        if self.sequence.evaluations != evaluations:
            self._inference.append(self.sequence.inference_time)
        self._report_mode()
        if self.rest.waiting:
            speeds = np.abs(np.nan_to_num(self._measured.state.velocity))
            still = self.sequence.at_rest and bool((speeds < REST_SPEED).all())
            self.rest.update(now, still=still, fault=fault)

    def halt(self) -> None:
        """Hold the measured positions; damped motors stay damped."""
        standing = self.sequence.mode is not PolicyMode.DAMPED and self._measured.state.received
        if standing:
            self._outputs.hold_measured(self._measured.state, self.now_ns())
        self.sequence.damp("the controller was deactivated")

    def stopped(self, why: str) -> None:
        """Command zero: the policy comes to rest and is replaced by holding."""
        self.rest.start(self.now())
        self._commands.suspend()
        self.sequence.stop()

    def resumed(self) -> None:
        """Refuse streams that continued during the stop, until they pause."""
        self._commands.take(self.now(), "its stream started before the resume")
        self._commands.suspend()

    def parameters_changed(self, params: LearnedPolicyParams) -> None:
        """Apply times and limits."""
        self.sequence.settings = settings_from(params, SequenceSettings)
        self._commands.set_params()

    def time_jumped(self, before: float, after: float) -> None:
        """Start again with the measurements after the jump."""
        self._restart("time jumped")

    def waiting_for(self) -> str:
        """Return which measurements are missing."""
        return self._measured.fault(self.now()) if self._waiting else ""

    def notice(self) -> str:
        """Return how to command the robot."""
        return f"{self.get_name()} plays {self.params.policy}; {self._commands.notice}"

    def diagnose(self, report: Report) -> None:
        """Report mode, faults, ages and the duration of the network's evaluation."""
        sequence, now = self.sequence, self.now()
        level = "WARN" if sequence.reason and sequence.mode is not PolicyMode.DAMPED else "OK"
        if sequence.mode is PolicyMode.DAMPED and not self._waiting:
            level = "OK" if sequence.reason in ("sat down", "requested") else "ERROR"
        reason = f": {sequence.reason}" if sequence.reason else ""
        report.note(level, f"{sequence.mode.value}{reason}")
        report.value("mode", sequence.mode.value)
        report.value("age of command [s]", self._commands.age(now))
        for name in ("joint_states", "imu", "odometry"):
            report.value(f"age of {name} [s]", self._measured.age(name, now))
        times = sorted(self._inference)
        if not times:
            return
        report.value("inference, median [ms]", 1e3 * times[len(times) // 2])
        report.value("inference, max [ms]", 1e3 * times[-1])
        report.value("period of the policy [ms]", 1e3 * self._period)
        if times[-1] > self._period:
            slow = sum(t > self._period for t in times)
            report.note(
                "WARN",
                f"{slow} of {len(times)} evaluations of the network took longer than its period "
                f"of {1e3 * self._period:g} ms",
            )

    # ---- inside

    def _restart(self, reason: str) -> None:
        self._waiting = True
        self.sequence.damp(reason)
        self._measured.forget()
        self._commands.reset()
        self._outputs.forget()

    def _begin(self) -> None:
        """Start to command the drives, once measurements are available."""
        self._waiting = False
        if not self.params.stand_at_start or self.stop_reason:
            return
        try:
            self.sequence.stand_up(self._measured.inputs)
        except InvalidCommand as error:
            self.get_logger().error(f"the robot does not stand up: {error}")

    def _report_mode(self) -> None:
        """Log and publish every mode since the last cycle, also those of less than a cycle."""
        for mode, reason in self.sequence.take_entered():
            text = f"{mode.value}{': ' + reason if reason else ''}"
            if mode is PolicyMode.DAMPED and reason not in ("sat down", "requested"):
                self.get_logger().error(text)
            else:
                self.get_logger().info(text)
            self._outputs.report(mode)
        self._outputs.report(self.sequence.mode)

    def _responder(self, job: Any) -> Any:
        return lambda _, response: respond_from_loop(self, response, lambda: self._checked(job))

    def _checked(self, job: Any) -> str:
        if not self.active:
            raise InvalidCommand("the controller is not active")
        return str(job())

    def _refuse(self) -> None:
        """Raise InvalidCommand while motions are refused."""
        # Requests are served before the cycle reads its measurements.
        self._measured.take(self.input_ns() * 1e-9)
        refusal = self.stop_reason or self._measured.fault(self.now())
        if refusal:
            raise InvalidCommand(refusal)

    def _stand_up(self) -> str:
        self._refuse()
        self._waiting = False
        self.sequence.stand_up(self._measured.inputs)
        return f"standing up, in {self.params.stand_up_time:g} s"

    def _sit_down(self) -> str:
        self._refuse()
        self._commands.suspend()
        self.sequence.sit_down(self._measured.inputs)
        return self.sequence.mode.value

    def _run(self) -> str:
        self._refuse()
        self._commands.take(self.input_ns() * 1e-9, "")
        missing = self._commands.missing(self.now())
        if missing:
            raise InvalidCommand(missing)
        self.sequence.run()
        self._commands.run_requested = True
        return "the policy commands"

    def _damp(self) -> str:
        self._waiting = False
        self._commands.suspend()
        self.sequence.damp("requested")
        return "the motors are damped"


def main() -> None:
    """Run the node in its own process."""
    run_node(PolicyControllerNode)
