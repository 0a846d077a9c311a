# SPDX-License-Identifier: Apache-2.0
"""Joint commands, validated as a whole: by message, by stream, or from the inputs of a graph.

Messages of a stream belong to one deliberate command. A stream starts with a message after a pause;
this message is a command and preempts others. The following messages without a pause preempt
nothing: joints of a newer command stay with it until the stream pauses and starts again. A sender
that comes to rest, or ignores its preemption, thus never regains joints. Each joint belongs to the
newest command that contains it.

The control mode of a joint determines which references its drive gets.

Inputs of an articulation controller in a dataflow graph keep their values until they are set again;
executing the graph evaluates the command. Source: inputs of Isaac Sim's OmniGraph node
"Articulation Controller", except that a selection of joint index 0 alone selects that joint.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.bounds import (
    EFFORT,
    JOINT_POSITION,
    NAMES,
    VELOCITY,
    check_count,
    repeated,
)
from motion_nodes.core.robot.limits import JointLimits, beyond
from motion_nodes.core.robot.robot_yaml import DRIVE_MODES
from motion_nodes.core.robot.tree import frozen
from motion_nodes.errors import InvalidCommand, UnknownJoint, did_you_mean
from motion_nodes.tolerances import LIMIT_ROUNDING
from motion_nodes.typing import Array, Mask

Channel = Sequence[float | None] | Array
STREAM_PAUSE = 0.15
"""[s] Min pause after which the next message of a sender starts a new stream."""
SESSION_MARK = "#"
"""Mark in a sender name that identifies a single stream, which never restarts after a pause."""
_LOST_MESSAGES = 100
"""Max number of consecutive lost messages of a sender; after more it counts as another sender."""
_KEPT = 32
"""Max number of stored senders."""


@dataclass(frozen=True, kw_only=True, eq=False)
class JointCommand:
    """Command to some joints.

    A channel that is None, or an element that is None or NaN, keeps the previous target of that
    joint and channel. Zero is a valid target.
    """

    positions: Channel | None = None
    """Positions [rad or m]."""
    velocities: Channel | None = None
    """Velocities [rad/s or m/s]."""
    efforts: Channel | None = None
    """Efforts [N m or N]."""
    names: Sequence[str] | None = None
    """Joints by name; takes precedence over ``indices``. If both are None: all joints in order."""
    indices: Sequence[int] | None = None
    """Joints by index in the controller's order."""


@dataclass(frozen=True, eq=False)
class CheckedCommand:
    """A validated command: one full-length array per channel, NaN for no value."""

    positions: Array
    velocities: Array
    efforts: Array

    given: NDArray[np.bool_] = field(init=False)
    """Joints with a target, shape (n,)."""

    def __post_init__(self) -> None:
        """Find the joints with a target."""
        none, missing = no_values(len(self.positions)), None
        for values in self.channels:
            if values is not none:
                lacking = np.isnan(values)
                missing = lacking if missing is None else missing & lacking
        given = np.zeros(len(none), np.bool_) if missing is None else ~missing
        object.__setattr__(self, "given", given)

    @property
    def channels(self) -> tuple[Array, Array, Array]:
        """All channels: positions [rad or m], velocities, efforts [N m or N]."""
        return self.positions, self.velocities, self.efforts

    def without(self, joints: NDArray[np.bool_]) -> CheckedCommand:
        """Return the command without some joints, mask of shape (n,)."""
        return CheckedCommand(*(np.where(joints, np.nan, values) for values in self.channels))


def interface_problem(interfaces: Sequence[str], joints: int) -> str:
    """Return why commands of some interfaces cannot be given to joints; empty if they can.

    Args:
        interfaces: names of the quantities of a command.
        joints: number of joints.
    """
    unknown = [name for name in interfaces if name not in DRIVE_MODES]
    if unknown or not interfaces:
        named = f"interface '{', '.join(unknown)}'" if unknown else "no interface"
        return f"{named} is none of {', '.join(DRIVE_MODES)}"
    if len(interfaces) > 1 and (joints != 1 or sorted(interfaces) != ["position", "velocity"]):
        return (
            f"interfaces {', '.join(interfaces)} of {joints} joint(s) are not commanded together; "
            "allowed are one interface, or position and velocity of one joint"
        )
    return ""


@functools.cache
def no_values(n: int) -> Array:
    """Return the channel of a command without values: n times NaN, read-only.

    It is always the same array, so that a channel without values is recognized without reading it.
    """
    return frozen(np.full(n, np.nan))


def select_joints(command: JointCommand, joint_names: Sequence[str]) -> NDArray[np.intp]:
    """Return the addressed joints as indices into ``joint_names``, shape (k,).

    Args:
        command: the command.
        joint_names: joints of the controller.

    Raises:
        InvalidCommand: a joint is addressed twice, or an index is out of range.
        UnknownJoint: a name that is not among the joints.
    """
    for given in (command.names, command.indices):
        if given is not None and not isinstance(given, str):
            check_count(len(given), NAMES, "the list of joints")
    if isinstance(command.names, str):
        raise InvalidCommand(
            f"names is the text '{command.names}'; give a list of joint names", field="names"
        )
    if command.names is not None and len(command.names) > 0:
        return _named(tuple(command.names), tuple(joint_names))
    if command.indices is None:
        return _all(len(joint_names))
    return _once([_checked_index(i, len(joint_names)) for i in command.indices], joint_names)


@functools.lru_cache(64)
def _named(names: tuple[str, ...], joint_names: tuple[str, ...]) -> NDArray[np.intp]:
    """Return the indices of joints by name; kept, since the names of a stream do not change."""
    where = {name: i for i, name in enumerate(joint_names)}
    for name in names:
        if name not in where:
            raise UnknownJoint(name, joint_names, "this controller")
    if names == joint_names:
        return _all(len(names))
    return _once([where[name] for name in names], joint_names)


@functools.cache
def _all(n: int) -> NDArray[np.intp]:
    return _read_only(np.arange(n))


def _once(chosen: Sequence[int], joint_names: Sequence[str]) -> NDArray[np.intp]:
    """Return indices as an array, after a check that none occurs twice."""
    twice = repeated(joint_names[i] for i in chosen)
    if twice:
        raise InvalidCommand(
            f"joint {', '.join(twice)} is addressed more than once in one command", field=twice[0]
        )
    return _read_only(np.array(chosen, dtype=np.intp))


def _read_only(indices: NDArray[np.intp]) -> NDArray[np.intp]:
    indices.setflags(write=False)
    return indices


def _checked_index(index: object, count: int) -> int:
    whole = not isinstance(index, bool | np.bool_) and index in range(count)
    if not whole:
        raise InvalidCommand(
            f"joint index {index} is not allowed; this controller has indices 0 to {count - 1}",
            field="indices",
        )
    return int(index)  # type: ignore[call-overload, no-any-return]


def check_command(command: JointCommand, limits: JointLimits) -> CheckedCommand:
    """Validate a command as a whole.

    Args:
        command: the command.
        limits: limits of all joints of the controller, which also define their names.

    Returns:
        The command expanded to all joints.

    Raises:
        InvalidCommand: wrong length, infinite value, position outside its limits, or effort
            together with position or velocity on one joint.
        UnknownJoint: a name that is not among the joints.
    """
    names, none = limits.names, no_values(len(limits.names))
    chosen = select_joints(command, names)
    positions = _spread(command.positions, "positions", chosen, names)
    velocities = _spread(command.velocities, "velocities", chosen, names)
    efforts = _spread(command.efforts, "efforts", chosen, names)
    if efforts is not none:
        mixed = ~np.isnan(efforts) & ~(np.isnan(positions) & np.isnan(velocities))
        if np.count_nonzero(mixed):
            raise InvalidCommand(
                f"joint {_list(names, mixed)} is given an effort together with a position or "
                "velocity; give either the effort, or position and velocity",
                field="efforts",
            )
    if positions is not none:
        positions = _within_limits(positions, limits)
        JOINT_POSITION.check(positions, "position", names)
    if velocities is not none:
        VELOCITY.check(velocities, "velocity", names)
    if efforts is not none:
        EFFORT.check(efforts, "effort", names)
    return CheckedCommand(positions, velocities, efforts)


def _within_limits(positions: Array, limits: JointLimits) -> Array:
    """Return positions clamped to their limits, of which they may be outside by a tolerance."""
    clamped = positions.clip(limits.lower, limits.upper)
    # Comparisons with NaN are false, so joints without a value pass.
    outside = np.abs(positions - clamped) > LIMIT_ROUNDING
    if np.count_nonzero(outside):
        i = int(np.argmax(outside))
        raise InvalidCommand(
            f"position {beyond(positions[i], limits.lower[i], limits.upper[i])} of joint "
            f"{limits.names[i]} is outside its limits {limits.lower[i]:.6g} to "
            f"{limits.upper[i]:.6g}",
            field=limits.names[i],
        )
    return clamped


def _spread(
    given: Channel | None, channel: str, chosen: NDArray[np.intp], names: Sequence[str]
) -> Array:
    """Return a channel for all joints, shape (n,), :func:`no_values` for none."""
    if given is None:
        return no_values(len(names))
    try:
        values = np.array(given, dtype=np.float64)  # None becomes NaN
    except (TypeError, ValueError) as error:
        raise InvalidCommand(
            f"{channel} must be a list of numbers: {error}", field=channel
        ) from error
    if values.ndim != 1:
        raise InvalidCommand(
            f"{channel} must be a plain list, not one of shape {values.shape}", field=channel
        )
    if len(values) != len(chosen):
        raise InvalidCommand(
            f"{len(values)} {channel} given for {len(chosen)} joints "
            f"({', '.join(names[i] for i in chosen)}); give one each, NaN to leave one as it is",
            field=channel,
        )
    infinite = np.isinf(values)
    if np.count_nonzero(infinite):
        i = int(np.argmax(infinite))
        raise InvalidCommand(
            f"{channel} of joint {names[chosen[i]]} is {values[i]}; give a number",
            field=names[chosen[i]],
        )
    if chosen is _all(len(names)):
        return values
    spread = no_values(len(names)).copy()
    spread[chosen] = values
    return spread


def _list(names: Sequence[str], mask: NDArray[np.bool_]) -> str:
    return ", ".join(name for name, hit in zip(names, mask, strict=True) if hit)


class ControlMode(enum.Enum):
    """Control mode of a joint's drive."""

    POSITION = "position"
    VELOCITY = "velocity"
    EFFORT = "effort"

    @classmethod
    def named(cls, name: str) -> ControlMode:
        """Return the mode with a name.

        Raises:
            InvalidCommand: unknown name; lists the modes.
        """
        try:
            return cls(name)
        except ValueError:
            allowed = ", ".join(mode.value for mode in cls)
            raise InvalidCommand(
                f"control mode '{name}' is not known. Available: {allowed}.", field=name
            ) from None


@dataclass(frozen=True, eq=False)
class JointReference:
    """References of the drives: one value per joint and channel, NaN where there is none.

    A joint in position mode has position and velocity, in velocity mode a velocity, both with an
    acceleration for feedforward; a joint in effort mode has an effort.
    """

    positions: Array
    velocities: Array
    efforts: Array
    accelerations: Array

    @property
    def channels(self) -> tuple[Array, Array, Array, Array]:
        """All channels: positions [rad or m], velocities, efforts [N m or N], accelerations."""
        return self.positions, self.velocities, self.efforts, self.accelerations


@dataclass(frozen=True, eq=False)
class Stream:
    """One command that consists of many messages."""

    label: str
    """Name of its sender, for messages to other clients."""
    sender: str
    """Sender name in its messages; may be empty."""
    order: int
    """Its position in the order of all commands."""


@dataclass(eq=False)
class _Sender:
    topic: str
    name: str
    number: int | None
    last_time: float
    stream: Stream


class StreamSenders:
    """Assigns messages to streams."""

    def __init__(self, begin: Callable[[str, str], Stream]) -> None:
        """Create without senders.

        Args:
            begin: creates a stream from a label and a sender's name, with the newest order.
        """
        self._begin = begin
        self._senders: list[_Sender] = []

    def stream_of(self, topic: str, name: str, number: int | None, sent: float) -> Stream:
        """Return the stream of a message, a new one if the message starts one.

        Messages without a sender name are distinguished by their publishers' sequence numbers: a
        number that does not increase, or jumps, belongs to another publisher.

        Args:
            topic: topic of the message.
            name: sender name in the message.
            number: sequence number of its publisher; None if the middleware has none.
            sent: time of sending [s], by the sender's clock.
        """
        known = self._known(topic, name, number)
        if known is None or (
            SESSION_MARK not in name and not 0.0 <= sent - known.last_time < STREAM_PAUSE
        ):
            if known is not None:
                self._senders.remove(known)
            short = name.partition(SESSION_MARK)[0]
            stream = self._begin(f"{topic} of {short}" if short else topic, name)
            known = _Sender(topic, name, number, sent, stream)
            self._senders.insert(0, known)
            del self._senders[_KEPT:]
        known.number, known.last_time = number, sent
        return known.stream

    def _known(self, topic: str, name: str, number: int | None) -> _Sender | None:
        gaps = [_gap(sender, topic, name, number) for sender in self._senders]
        nearest = min(gaps, default=_LOST_MESSAGES + 1)
        return self._senders[gaps.index(nearest)] if nearest <= _LOST_MESSAGES else None


def _gap(sender: _Sender, topic: str, name: str, number: int | None) -> int:
    """Return the number of lost messages of a sender; large for a message of another sender."""
    another = _LOST_MESSAGES + 1
    if (sender.topic, sender.name) != (topic, name):
        return another
    if SESSION_MARK in name or number is None or sender.number is None:
        return 0
    gap = number - sender.number
    return gap if gap > 0 else another


T = TypeVar("T")


@dataclass(eq=False)
class Claim:
    """Joints that are commanded and monitored without a trajectory."""

    label: str
    joints: NDArray[np.intp]
    lost: str = ""
    """The preempting command, as text; empty while the joints are held."""


class JointOwners:
    """Ownership of n joints: each belongs to the newest command that contains it."""

    def __init__(self, n: int) -> None:
        self._count = 0
        """Number of commands; the count of a command is its position in their order."""
        self._orders: NDArray[np.int64] = np.zeros(n, np.int64)
        self._labels = [""] * n

    @property
    def labels(self) -> tuple[str, ...]:
        """Label of each joint's owner; empty without one."""
        return tuple(self._labels)

    def next_order(self) -> int:
        """Return the order of a new command."""
        self._count += 1
        return self._count

    def newer_than(self, order: int) -> Mask:
        """Return the joints whose owner is newer than a command, shape (n,)."""
        return np.asarray(self._orders > order)

    def all_owned_by(self, joints: NDArray[np.intp], order: int) -> bool:
        """Return whether a command owns all of some joints, by indices, shape (k,)."""
        return bool(np.count_nonzero(self._orders[joints] != order) == 0)

    def assign(self, joints: Sequence[int] | NDArray[np.intp], label: str, order: int) -> None:
        """Make a command the owner of some joints, by indices, shape (k,).

        Args:
            joints: indices.
            label: name of the command's sender, for messages to other clients.
            order: from :meth:`next_order`.
        """
        self._orders[joints] = order
        for i in joints:
            self._labels[i] = label


@dataclass(frozen=True, kw_only=True)
class GraphInputs:
    """Values of the inputs; empty: not set."""

    robot_path: str = ""
    """Robot, by its namespace; takes precedence over ``target_prim``."""
    target_prim: str = ""
    """Robot, by its namespace."""
    joint_names: tuple[str, ...] = ()
    """Joints by name; takes precedence over ``joint_indices``. If both are empty: all joints, in
    order."""
    joint_indices: tuple[int, ...] = ()
    """Joints by index in the robot's order."""
    position_command: tuple[float, ...] = ()
    """Position per selected joint, NaN for none [rad or m]."""
    velocity_command: tuple[float, ...] = ()
    """Velocity per selected joint, NaN for none [rad/s or m/s]."""
    effort_command: tuple[float, ...] = ()
    """Effort per selected joint, NaN for none [N m or N]."""

    def target(self, robots: Mapping[str, T]) -> T:
        """Return the robot of the inputs; without a namespace, the only robot.

        Raises:
            InvalidCommand: unknown namespace; or no namespace, and several robots.
        """
        named = self.robot_path or self.target_prim
        if not named and len(robots) == 1:
            return next(iter(robots.values()))
        known = {name.strip("/"): robot for name, robot in robots.items()}
        if named.strip("/") in known and named:
            return known[named.strip("/")]
        shown = [f"/{name}" for name in known]
        if not named:
            raise InvalidCommand(
                f"give robot_path or target_prim; the robots are: {', '.join(shown)}"
            )
        which = "robot_path" if self.robot_path else "target_prim"
        raise InvalidCommand(f"{which} '{named}' is not a known robot.{did_you_mean(named, shown)}")

    def command(self, limits: JointLimits) -> CheckedCommand | None:
        """Return the command to all joints of a robot, or None if there is none.

        Args:
            limits: limits of the robot's joints, which also define their names.

        Raises:
            InvalidCommand: an input is invalid.
            UnknownJoint: unknown joint.
        """
        checked = check_command(
            JointCommand(
                names=self.joint_names or None,
                indices=self.joint_indices or None,
                positions=self.position_command or None,
                velocities=self.velocity_command or None,
                efforts=self.effort_command or None,
            ),
            limits,
        )
        channels = (checked.positions, checked.velocities, checked.efforts)
        return None if np.isnan(channels).all() else checked
