# SPDX-License-Identifier: Apache-2.0
"""Command streams of the articulation controller: ~/reference, ~/commands, ~/speed_scaling_input.

The topics of forward_command_controllers are command streams, too.
A stream holds its joints from its first message until a newer command preempts it; its messages are
then dropped until it pauses (motion_nodes/core/control/joint_command.py).

Topics of forward_command_controllers, which the joint controller serves beside its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from control_msgs.msg import SpeedScalingFactor
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from motion_nodes.core.control.joint_command import (
    STREAM_PAUSE,
    ControlMode,
    JointCommand,
    Stream,
    StreamSenders,
    interface_problem,
)
from motion_nodes.core.control.state_plausibility import SenderWatch
from motion_nodes.core.robot.configurations import NamedJoints
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.joint_topics import JointSample, JointSampleReader
from motion_nodes.ros.messages.cdr import InvalidMessage
from motion_nodes.ros.names import BLOCKED
from motion_nodes.ros.ros_time import command_time
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode

ACTIVATE = "activate it by switch_controller of controller_manager"
REPORT_TIME = 2.0
"""Time for which a preempted stream is reported after its last dropped message [s]."""


@dataclass(frozen=True)
class ForwardTopic:
    """Commands of one controller: an array with one value per joint, or per interface of one."""

    name: str
    """Name of the controller."""
    interfaces: tuple[str, ...]
    """Quantities of the values: position, velocity or effort, or position and velocity of one joint
    in any order."""
    joints: tuple[str, ...]
    """Joints, in the order of the values."""

    @property
    def topic(self) -> str:
        """Topic of its commands."""
        return f"{self.name}/commands"

    @property
    def mode(self) -> str:
        """Control mode in which its joints take the values."""
        return "position" if "position" in self.interfaces else self.interfaces[0]

    def command(
        self, values: NDArray[np.float64], modes: Mapping[str, ControlMode]
    ) -> JointCommand:
        """Return the command of a message.

        Args:
            values: its values.
            modes: control modes of the controller's joints by name.

        Raises:
            InvalidCommand: another number of values, one that is not finite, or a joint in another
                control mode.
        """
        if len(values) != len(self.joints) * len(self.interfaces):
            expected = f"{len(self.joints)} joints ({', '.join(self.joints)})"
            if len(self.interfaces) > 1:
                expected = f"the interfaces {', '.join(self.interfaces)} of {self.joints[0]}"
            raise InvalidCommand(f"{len(values)} values on {self.topic} for {expected}")
        if not np.isfinite(values).all():
            raise InvalidCommand(f"{self.topic} has values that are not finite")
        for joint in self.joints:
            if modes[joint].value != self.mode:
                raise InvalidCommand(
                    f"{self.topic} has values of the {self.mode}, but joint {joint} is under "
                    f"{modes[joint].value} control; set control_modes first",
                    field=joint,
                )
        given = dict(zip(self.interfaces, np.split(values, len(self.interfaces)), strict=True))
        return JointCommand(
            names=self.joints,
            positions=given.get("position"),
            velocities=given.get("velocity"),
            efforts=given.get("effort"),
        )


def forward_topics(entries: Sequence[str], joints: Sequence[str]) -> tuple[ForwardTopic, ...]:
    """Return the topics of the parameter ``forward_commands``.

    Args:
        entries: each as NAME=INTERFACE:JOINT,JOINT or NAME=position,velocity:JOINT.
        joints: of the controller.

    Raises:
        InvalidConfig: another form, interfaces that are unknown or no combination, or a joint that
            it does not have.
    """
    found = []
    for entry in entries:
        name, _, rest = entry.partition("=")
        interfaces, names = (
            tuple(word for word in part.split(",") if word) for part in rest.partition(":")[::2]
        )
        if not name or not names or len(set(names)) < len(names):
            problem = "each entry is NAME=INTERFACE:JOINT,JOINT"
        else:
            problem = interface_problem(interfaces, len(names))
        if problem:
            raise InvalidConfig(
                f"forward_commands has '{entry}'; {problem}", field="forward_commands"
            )
        unknown = [joint for joint in names if joint not in joints]
        if unknown:
            raise InvalidConfig(
                f"forward_commands: {name} has joint {', '.join(unknown)}, which this controller "
                "does not have",
                field="forward_commands",
            )
        found.append(ForwardTopic(name, interfaces, names))
    return tuple(found)


class StreamInputs:
    """Subscriptions of the command streams, read once per cycle."""

    def __init__(self, host: ArticulationControllerNode) -> None:
        self._host = host
        self._reference = host.poll_bytes(JointState, "~/reference", qos.COMMANDS)
        self._reader = JointSampleReader()
        self._named = NamedJoints(host.robot.tree, ())
        self._places: tuple[NamedJoints, NDArray[np.intp]] | None = None
        """Names of a message, and the indices of its joints; none if they need a closer look."""
        self._commands = host.poll(Float64MultiArray, "~/commands", qos.COMMANDS, relaxed=True)
        self._forward = tuple(
            (each, host.poll(Float64MultiArray, each.topic, qos.COMMANDS, relaxed=True))
            for each in forward_topics(host.params.forward_commands, host.params.joints)
        )
        self._scaling_input = host.poll(SpeedScalingFactor, "~/speed_scaling_input", relaxed=True)
        self.scaling: float = host.params.speed_scaling_initial_scaling_factor
        """Speed scaling factor of trajectories, 0 to 1."""
        self._senders = StreamSenders(host.runner.begin_stream)
        self._watch = SenderWatch()
        self.continued = -float("inf")
        """Time of the newest message that continued a stream, on ``time.monotonic()`` [s]."""
        self.refused: dict[str, str] = {}
        """Recently preempted streams: sender, and the preempting command."""
        self._refused_at: dict[str, float] = {}

    @property
    def subscriptions(self) -> tuple[PolledSubscription[Any], ...]:
        """Subscriptions that :meth:`take` reads."""
        forward = (topic for _, topic in self._forward)
        return self._reference, self._commands, self._scaling_input, *forward

    @property
    def count(self) -> int:
        """Number of received commands."""
        forward = sum(topic.count for _, topic in self._forward)
        return self._reference.count + self._commands.count + forward

    def take(self, now: float, *, at_once: bool = False) -> None:
        """Apply the received messages.

        Args:
            now: ROS time [s].
            at_once: whether to look for messages of idle topics, too.
        """
        if at_once:
            self._commands.poll_next()
            for _, topic in self._forward:
                topic.poll_next()
            self._scaling_input.poll_next()
        scaling = self._scaling_input.newest()
        if scaling is not None:
            self._set_scaling(float(scaling.factor))
        self.take_references(now)
        for array, number, sent in self._commands.traced():
            stream = self._senders.stream_of("~/commands", "", number, sent)
            self._watch.received("~/commands", number, now)
            self._take_array(np.array(array.data), stream)
        for forward, topic in self._forward:
            for array, number, sent in topic.traced():
                stream = self._senders.stream_of(forward.topic, "", number, sent)
                self._watch.received(forward.topic, number, now)
                self._take_forward(forward, np.array(array.data), stream)
        if self.refused:
            self._drop_old_reports()

    def take_references(self, now: float) -> None:
        """Apply the received messages of ~/reference alone.

        Args:
            now: ROS time [s].
        """
        for message, number, sent in self._reference.traced():
            try:
                sample = self._reader.read(message)
            except InvalidMessage as error:
                self._reference.refuse(str(error))
                continue
            stream = self._senders.stream_of("~/reference", sample.sender, number, sent)
            self._watch.received(stream.label, number, now)
            self._take_reference(sample, stream, now)

    def conflict(self, now: float) -> str:
        """Return a warning about senders that command the joints alternately; empty if none do.

        Args:
            now: ROS time [s].
        """
        topics = self._watch.competing(now)
        return f"several senders command the joints at once: {', '.join(topics)}" if topics else ""

    def _take_reference(self, sample: JointSample, stream: Stream, now: float) -> None:
        stamp, warning = command_time(
            sample.stamp_ns * 1e-9, now, self._host.params.command_timeout
        )
        if warning:
            self._host.warn("stamp", warning)
        if stamp is None:
            return
        try:
            names = sample.joint_names()
        except InvalidMessage as error:
            self._reference.refuse(str(error))
            return
        if names != self._named.given:
            self._named = NamedJoints(self._host.robot.tree, names)
        if self._continues(sample, stream):
            return
        try:
            command = self._leader_command(sample)
        except MotionError as error:
            self._reference.refuse(str(error))
            return
        self._command(command, stream)

    def _continues(self, sample: JointSample, stream: Stream) -> bool:
        """Apply a message with positions alone of joints that its stream holds already.

        Returns:
            Whether it was applied; otherwise nothing changed.
        """
        named, positions = self._named, sample.position
        if len(positions) != len(named.given) or len(sample.velocity) or len(sample.effort):
            return False
        if self._places is None or self._places[0] is not named:
            names = self._host.runner.controller.joint_names
            known = named.trivial and not named.twice and set(named.given) <= set(names)
            places = [names.index(name) for name in named.given] if known else []
            self._places = named, np.array(places, np.intp)
        chosen = self._places[1]
        if not len(chosen) or self._host.refusal() is not None:
            return False
        if not self._host.runner.follow_positions(positions, chosen, stream):
            return False
        self.continued = self._reference.polled
        return True

    def _leader_command(self, sample: JointSample) -> JointCommand:
        """Return a command to the joints that move by themselves.

        Raises:
            InvalidCommand: a mimic joint disagrees with its leader, or values for another number of
                joints.
        """
        named = self._named
        channels = (sample.position, sample.velocity, sample.effort)
        position, velocity, effort = (c if len(c) else None for c in channels)
        if not named.trivial:
            wrong = [len(c) for c in channels if len(c) not in (0, len(named.given))]
            if wrong:
                raise InvalidCommand(f"{wrong[0]} values for {len(named.given)} joints")
            if named.twice:
                raise InvalidCommand(f"joint {', '.join(named.twice)} is named twice")
            position = position if position is None else named.positions(position, missing=True)
            velocity = velocity if velocity is None else named.rates(velocity, missing=True)
            effort = effort if effort is None else named.efforts(effort)
        return JointCommand(
            names=named.names or None, positions=position, velocities=velocity, efforts=effort
        )

    def _take_array(self, values: Array, stream: Stream) -> None:
        """Apply one value per joint, of the quantity of its control mode."""
        controller = self._host.runner.controller
        joints = controller.joint_names
        if len(values) != len(joints):
            self._host.warn(
                "commands",
                f"command refused, nothing moves: {len(values)} values on ~/commands for "
                f"{len(joints)} joints ({', '.join(joints)})",
            )
            return
        modes = list(controller.modes.values())

        def channel(mode: ControlMode) -> Array:
            return np.where([m is mode for m in modes], values, np.nan)

        self._command(
            JointCommand(
                positions=channel(ControlMode.POSITION),
                velocities=channel(ControlMode.VELOCITY),
                efforts=channel(ControlMode.EFFORT),
            ),
            stream,
        )

    def _take_forward(self, forward: ForwardTopic, values: Array, stream: Stream) -> None:
        try:
            if forward.name in self._host.params.inactive_controllers:
                raise InvalidCommand(f"{forward.name} is inactive; {ACTIVATE}")
            command = forward.command(values, self._host.runner.controller.modes)
        except MotionError as error:
            self._host.warn("commands", f"command refused, nothing moves: {error}")
            return
        self._command(command, stream)

    def _command(self, command: JointCommand, stream: Stream) -> None:
        refusal = self._host.refusal()
        if refusal is not None:
            self._host.warn("lost", f"command refused: {refusal}")
            return
        try:
            lost = self._host.runner.follow_stream(command, stream)
        except MotionError as error:
            self._host.warn("command", f"command refused, nothing moves: {error}")
            return
        if len(lost):
            self._refuse(stream, lost)

    def _refuse(self, stream: Stream, lost: NDArray[np.intp]) -> None:
        """Report a stream that still commands joints after its preemption."""
        runner = self._host.runner
        holder = runner.holders[int(lost[0])]
        why = holder if holder.startswith(BLOCKED) else f"preempted by {holder}"
        key = stream.sender or stream.label
        self.refused[key] = why
        self._refused_at[key] = time.monotonic()
        names = ", ".join(runner.controller.joint_names[i] for i in lost)
        self._host.warn(
            f"preempted {stream.label}",
            f"{stream.label}: {why}; its messages to {names} are dropped until it pauses for "
            f"{STREAM_PAUSE:g} s",
        )

    def _drop_old_reports(self) -> None:
        now = time.monotonic()
        for key in [key for key, at in self._refused_at.items() if now - at > REPORT_TIME]:
            del self.refused[key], self._refused_at[key]

    def _set_scaling(self, factor: float) -> None:
        if 0.0 <= factor <= 1.0:
            self.scaling = factor
        else:
            self._host.warn("scaling", f"speed scaling {factor} refused; it must be from 0 to 1")
