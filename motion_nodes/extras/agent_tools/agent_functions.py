# SPDX-License-Identifier: Apache-2.0
"""Executes function calls of a language model for one robot: validation, dry run, confirmation.

Each motion is planned and described before it is executed. The token of a dry run is valid once,
for the same function and arguments, and for a limited time. A motion of the robot or a stop
invalidates all tokens: their plans start from another state.

``nodes/clients/ros_robot_link.py`` implements the interface to a running suite over ROS.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from motion_nodes.api.joint_group import JointGroup
from motion_nodes.api.robot_model import RobotModel
from motion_nodes.core.robot.poses import from_xyz_rpy, to_rpy
from motion_nodes.core.scene.scene import Part
from motion_nodes.core.scene.shapes import Solid
from motion_nodes.errors import (
    InvalidCommand,
    InvalidConfig,
    MotionError,
    UnknownJoint,
    did_you_mean,
)
from motion_nodes.extras.agent_tools.function_table import (
    FUNCTIONS,
    AgentFunction,
    checked_arguments,
)
from motion_nodes.typing import Array

Report = Callable[[str], None]
"""Receives progress messages."""
LIFETIME = 300.0
"""Lifetime of a token [s]."""
MAX_WAITING = 20
"""Max number of dry runs awaiting confirmation; the oldest is dropped."""
Perform = Callable[[Callable[[str], None]], dict[str, Any]]
"""Executes a plan and returns the result; progress goes to the given function."""
MAX_ITEMS = 200
"""Max number of listed objects."""
MAX_PARTS = 10
"""Max number of listed shapes of an object."""
DIGITS = 4
"""Decimal places of numbers."""
Data = dict[str, Any]


class NotDone(MotionError):
    """The suite rejected the request, failed or did not respond; the text is the reason."""

    def __init__(self, text: str, code: str = "") -> None:
        """Create the error.

        Args:
            text: the reason.
            code: that of a task (docs/tasks.md); empty for other requests.
        """
        self.code = code
        super().__init__(text)


@dataclass(frozen=True, eq=False)
class SceneItem:
    """Object of the planning scene."""

    name: str
    parts: tuple[Part, ...]
    """Shapes with their poses in the object's frame, shape (4, 4) each."""
    X_BO: Array
    """Pose in the base frame of the robot, or in the attached link, shape (4, 4)."""
    link: str = ""
    """Attached link; empty: not attached."""


@dataclass(frozen=True, eq=False)
class TipTarget:
    """Target pose of a group's tip."""

    link: str
    X_BT: Array
    """Pose in the base frame, shape (4, 4)."""
    oriented: bool
    """Whether the orientation is constrained."""


@dataclass(frozen=True, eq=False)
class PlannedJointMotion:
    """A planned motion."""

    joint_names: tuple[str, ...]
    times: Array
    """Times from the start [s], shape (k,)."""
    positions: Array
    """Positions [rad or m], shape (k, n)."""
    message: Any
    """Data of the link, for execution."""
    note: str = ""
    """Note of the planner."""


class RobotLink(Protocol):
    """One robot of a running suite.

    Raises:
        NotDone: any method; with the reason.
    """

    def positions(self) -> Mapping[str, float]:
        """Return measured positions by joint [rad or m]."""

    def scene(self) -> Sequence[SceneItem]:
        """Return the objects of the planning scene, including attached ones."""

    def plan(
        self,
        group: str,
        goal: Mapping[str, float] | TipTarget,
        velocity: float,
        acceleration: float,
    ) -> PlannedJointMotion:
        """Plan a collision-free motion; nothing moves.

        Args:
            group: planning group.
            goal: positions by joint [rad or m], or a pose of the tip.
            velocity: scaling factor of the velocity limits, above 0 to 1.
            acceleration: scaling factor of the acceleration limits, above 0 to 1.
        """

    def execute(self, path: PlannedJointMotion, report: Report) -> None:
        """Execute a planned motion and wait for its end; ``report`` receives progress messages."""

    def grip(self, position: float, max_effort: float) -> str:
        """Move the fingers.

        Args:
            position: position of the finger joints [m or rad].
            max_effort: max effort of each finger [N or N m]; 0: that of the drives.

        Returns:
            The outcome: position reached, or stopped by an object.
        """

    def plan_task(self, task: str) -> list[dict[str, Any]]:
        """Return the plan of skills for a sentence, or for a plan in JSON; nothing moves."""

    def run_task(self, plan: Sequence[Mapping[str, Any]], report: Report) -> None:
        """Execute a plan of skills and wait for its end; ``report`` receives progress messages."""

    def cancel(self) -> None:
        """Cancel the running motion or task, if any."""

    def stop(self) -> list[str]:
        """Stop all robots of the suite, latched; return a message per robot."""

    def resume(self) -> None:
        """Release the stop of this link; stops by others remain."""

    @property
    def stop_reason(self) -> str:
        """Why commands are rejected; empty: accepted."""


@dataclass(frozen=True)
class DryRun:
    """Dry run awaiting confirmation."""

    function: str
    arguments: Mapping[str, Any]
    perform: Perform
    expires: float
    """Time of expiry [s]."""


class DryRuns:
    """Dry runs by token; thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Create without dry runs; ``now`` returns the time [s]."""
        self._now, self._lock = now, threading.Lock()
        self._waiting: dict[str, DryRun] = {}
        self._dropped = ""
        """Reason of the last invalidation."""
        self.cleared = 0
        """Number of invalidations."""

    def add(
        self,
        function: str,
        arguments: Mapping[str, Any],
        perform: Perform,
        cleared: int | None = None,
    ) -> str:
        """Add a dry run and return its token.

        Args:
            function: name of the function.
            arguments: arguments of the function, without ``dry_run`` and ``token``.
            perform: executes the plan.
            cleared: :attr:`cleared` before its planning; None: now.

        Raises:
            InvalidCommand: dry runs were invalidated during its planning.
        """
        token = secrets.token_hex(4)
        with self._lock:
            if cleared not in (None, self.cleared):
                raise InvalidCommand(
                    f"{function} was planned from another state ({self._dropped} meanwhile); make "
                    "a new dry run"
                )
            self._waiting[token] = DryRun(
                function, dict(arguments), perform, self._now() + LIFETIME
            )
            while len(self._waiting) > MAX_WAITING:
                del self._waiting[next(iter(self._waiting))]
        return token

    def take(self, token: str | None, function: str, arguments: Mapping[str, Any]) -> Perform:
        """Return the function that executes a dry run, and invalidate its token.

        Raises:
            InvalidCommand: the token is missing, unknown, used, invalidated or expired, or belongs
                to another function or to other arguments.
        """
        with self._lock:
            if token is None:
                raise InvalidCommand(
                    f"{function} moves the robot only with the token of a dry run: call it with "
                    "dry_run true, read the description, then call it again with dry_run false, "
                    "the same arguments and the token"
                )
            found = self._waiting.get(token)
            if found is None:
                why = f" ({self._dropped})" if self._dropped else ""
                raise InvalidCommand(
                    f"no dry run has the token '{token[:20]}': tokens are valid once, and only "
                    f"until the robot moves or is stopped{why}; make a new dry run"
                )
            if (found.function, found.arguments) != (function, dict(arguments)):
                differ = [key for key, value in arguments.items()
                          if found.arguments.get(key) != value]  # fmt: skip
                what = f"other values of {', '.join(differ)}" if differ else "other arguments"
                if found.function != function:
                    what = f"the function {found.function}"
                raise InvalidCommand(f"the token belongs to {what}; make a new dry run")
            del self._waiting[token]
            if self._now() > found.expires:
                raise InvalidCommand(
                    f"the dry run is older than {LIFETIME:g} s; make a new dry run", field="token"
                )
            return found.perform

    def clear(self, why: str) -> None:
        """Invalidate all dry runs."""
        with self._lock:
            self._waiting.clear()
            self._dropped = why
            self.cleared += 1


def rounded(values: Any) -> list[float]:
    """Return numbers [SI] as a list, rounded to :data:`DIGITS`."""
    return [round(float(value), DIGITS) for value in np.asarray(values).ravel()]


def pose_data(X: Array) -> dict[str, list[float]]:
    """Return a pose, shape (4, 4), as position [m] and roll, pitch, yaw [rad]."""
    return {"position": rounded(X[:3, 3]), "rpy": rounded(to_rpy(X))}


def _group_data(group: JointGroup, positions: Mapping[str, float]) -> dict[str, Any]:
    """Return the state of a group; measured ``positions`` by joint [rad or m]."""
    joints = {name: round(positions[name], DIGITS) for name in group.joint_names
              if name in positions}  # fmt: skip
    data: dict[str, Any] = {"joints": joints}
    if group.tip is not None and len(joints) == len(group.joint_names):
        X_BT = group.fk([positions[name] for name in group.joint_names])
        data["tip"] = {"link": group.tip, "frame": group.base, **pose_data(X_BT)}
    return data


def shape_data(solid: Solid) -> dict[str, Any]:
    """Return type and dimensions of a shape [m]."""
    kind: dict[str, Any] = {"shape": type(solid).__name__}
    for name in ("size", "radius", "length", "height"):
        if hasattr(solid, name):
            kind[name] = rounded(getattr(solid, name)) if name == "size" else round(
                float(getattr(solid, name)), DIGITS)  # fmt: skip
    return kind


def scene_data(items: Sequence[SceneItem]) -> dict[str, Any]:
    """Return the objects of a scene, at most :data:`MAX_ITEMS`."""
    objects = []
    for item in items[:MAX_ITEMS]:
        entry: dict[str, Any] = {"name": item.name}
        if len(item.parts) == 1:
            entry |= shape_data(item.parts[0].solid) | pose_data(item.X_BO @ item.parts[0].X_OS)
        else:
            shapes = [shape_data(part.solid) | pose_data(part.X_OS)
                      for part in item.parts[:MAX_PARTS]]  # fmt: skip
            entry |= pose_data(item.X_BO) | {"parts": shapes, "part_count": len(item.parts)}
        if item.link:
            entry["attached_to"] = item.link
        objects.append(entry)
    data: dict[str, Any] = {"objects": objects}
    if len(items) > MAX_ITEMS:
        data["not_listed"] = len(items) - MAX_ITEMS
    return data


def _plan_data(group: JointGroup, path: PlannedJointMotion) -> dict[str, Any]:
    """Return a summary of a planned motion: duration, distances, final state."""
    span = np.abs(np.diff(path.positions, axis=0)).sum(axis=0)
    farthest = int(np.argmax(span)) if span.size else 0
    data: dict[str, Any] = {
        "duration": round(float(path.times[-1]), 2) if len(path.times) else 0.0,
        "largest_joint_travel": {path.joint_names[farthest]: round(float(span[farthest]), DIGITS)},
        "final_joints": dict(zip(path.joint_names, rounded(path.positions[-1]), strict=True)),
    }
    if group.tip is not None and set(path.joint_names) == set(group.joint_names):
        columns = [path.joint_names.index(name) for name in group.joint_names]
        tips = group.fk_batch(path.positions[:, columns])
        steps = np.linalg.norm(np.diff(tips[:, :3, 3], axis=0), axis=1)
        data["tip_travel"] = round(float(steps.sum()), 3)
        data["lowest_tip_height"] = round(float(tips[:, 2, 3].min()), 3)
        data["final_tip"] = pose_data(tips[-1])
    if path.note:
        data["note"] = path.note
    return data


@dataclass(frozen=True)
class AgentConfig:
    """Limits for a language model."""

    max_velocity: float = 0.5
    """Max scaling factor of velocities and accelerations, above 0 to 1."""
    read_only: bool = False
    """Whether to omit functions that move the robot."""

    def __post_init__(self) -> None:
        if not 0.0 < self.max_velocity <= 1.0:
            raise InvalidConfig(
                f"max_velocity is {self.max_velocity:g}; allowed: above 0, at most 1",
                field="max_velocity",
            )


def arm_of(robot: RobotModel) -> JointGroup:
    """Return the first group of a robot with a tip.

    Raises:
        InvalidConfig: the robot has no such group.
    """
    arm = next((robot[name] for name in robot if robot[name].tip is not None), None)
    if arm is None:
        raise InvalidConfig(f"'{robot.name}' has no group with a tip; arms only", field="robot")
    return arm


class AgentFunctions:
    """Functions for one robot; thread-safe, one motion at a time."""

    def __init__(
        self, robot: RobotModel, link: RobotLink, config: AgentConfig | None = None
    ) -> None:
        """Prepare the functions.

        Args:
            robot: the robot.
            link: connection to the suite that runs the robot.
            config: limits; None: the defaults.

        Raises:
            InvalidConfig: see :func:`arm_of`.
        """
        self._robot, self._link, self._arm = robot, link, arm_of(robot)
        self._config = config or AgentConfig()
        self._dry_runs = DryRuns()
        self._moving = threading.Lock()
        self._motion = ""
        self.functions = {
            name: function
            for name, function in FUNCTIONS.items()
            if not (self._config.read_only and (function.moves or name == "resume"))
        }
        """Functions by name."""

    def call(self, name: str, given: Mapping[str, Any], report: Report = lambda _: None) -> Data:
        """Call a function.

        Args:
            name: name of the function.
            given: arguments as received.
            report: receives progress messages.

        Returns:
            The result, as plain data.

        Raises:
            InvalidCommand: an unknown function or invalid arguments; nothing moved.
            MotionError: the suite rejected the call or failed; the text is the reason.
        """
        function = self.functions.get(name)
        if function is None:
            raise InvalidCommand(
                f"function '{name}' is not known.{did_you_mean(name, self.functions)}"
            )
        values = checked_arguments(name, function.all_arguments, given)
        if function.moves:
            return self._motion_call(function, values, report)
        result: Data = getattr(self, f"_{name}")()
        return result

    def abort(self, why: str) -> None:
        """Cancel the current motion or task, and invalidate all dry runs.

        Args:
            why: reason, for later errors.
        """
        self._dry_runs.clear(why)
        if self._motion:
            self._link.cancel()

    # ---- queries

    def _robot_state(self) -> Data:
        positions = self._link.positions()
        groups = {name: _group_data(self._robot[name], positions) for name in self._robot}
        held = [item.name for item in self._link.scene() if item.link]
        return {
            "robot": self._robot.name,
            "groups": groups,
            "held": held,
            "stopped": self._link.stop_reason or False,
            "under_way": self._motion or False,
            "max_velocity": self._config.max_velocity,
        }

    def _named_states(self) -> Data:
        groups = {}
        for name in self._robot:
            group = self._robot[name]
            groups[name] = {
                state: dict(zip(group.joint_names, rounded(group.state(state)), strict=True))
                for state in group.state_names
            }
        return {"groups": groups}

    def _planning_scene(self) -> Data:
        return {"frame": self._arm.base, **scene_data(self._link.scene())}

    def _cancel(self) -> Data:
        under_way = self._motion
        self._link.cancel()
        return {"canceled": under_way or "nothing was under way"}

    def _stop(self) -> Data:
        self._dry_runs.clear("a stop was commanded")
        return {"stopped": self._link.stop(), "to_continue": "call resume, then new dry runs"}

    def _resume(self) -> Data:
        self._link.resume()
        return {"resumed": "commands are accepted; nothing moves until a new dry run is confirmed"}

    # ---- motions

    def _motion_call(self, function: AgentFunction, values: Data, report: Report) -> Data:
        dry_run, token = values.pop("dry_run"), values.pop("token")
        # Read first: a motion that begins from here on invalidates the dry run.
        cleared = self._dry_runs.cleared
        if self._motion:
            raise InvalidCommand(f"{self._motion} is under way; wait, or call cancel or stop")
        if dry_run:
            if token is not None:
                raise InvalidCommand("token requires dry_run false; omit it for a dry run")
            prepare: Callable[..., tuple[Data, Perform]] = getattr(
                self, f"_prepare_{function.name}"
            )
            description, perform = prepare(**values)
            token = self._dry_runs.add(function.name, values, perform, cleared)
            return {
                "dry_run": True,
                **description,
                "token": token,
                "valid_for": f"{LIFETIME:g} s, until the robot moves",
            }
        if not self._moving.acquire(blocking=False):
            raise InvalidCommand("a motion is under way; wait, or call cancel or stop")
        try:
            perform = self._dry_runs.take(token, function.name, values)
            if self._link.stop_reason:
                raise InvalidCommand(f"{self._link.stop_reason}; nothing moved")
            self._motion = function.name
            self._dry_runs.clear(f"{function.name} was executed")
            return {"done": function.name, **perform(report)}
        finally:
            self._motion = ""
            self._moving.release()

    def _prepare_move_to_state(self, state: str, group: str | None, **scaling: Any) -> Any:
        chosen = self._group(group)
        q = chosen.state(state)
        return self._planned(
            chosen, dict(zip(chosen.joint_names, q.tolist(), strict=True)), scaling
        )

    def _prepare_move_to_joints(self, joints: Data, group: str | None, **scaling: Any) -> Any:
        chosen = self._group(group)
        for name, value in joints.items():
            if name not in chosen.joint_names:
                raise UnknownJoint(name, chosen.joint_names, f"group '{chosen.name}'")
            k = chosen.joint_names.index(name)
            lower, upper = float(chosen.limits.lower[k]), float(chosen.limits.upper[k])
            if not lower <= value <= upper:
                raise InvalidCommand(f"joint '{name}' is {value:g}; its limits: {lower:g} to "
                                     f"{upper:g} rad or m")  # fmt: skip
        # Other joints keep their positions; else the planner would choose them.
        now = {**self._link.positions(), **joints}
        unknown = [name for name in chosen.joint_names if name not in now]
        if unknown:
            raise InvalidCommand(
                f"the positions of {', '.join(unknown)} are not known, and not given; nothing moved"
            )
        return self._planned(chosen, {name: now[name] for name in chosen.joint_names}, scaling)

    def _prepare_move_to_pose(
        self, position: Any, rpy: Any, group: str | None, **scaling: Any
    ) -> Any:
        chosen = self._group(group)
        if chosen.tip is None:
            raise InvalidCommand(f"group '{chosen.name}' has no tip to move to a pose")
        goal = TipTarget(
            chosen.tip, from_xyz_rpy(position, rpy or (0.0, 0.0, 0.0)), rpy is not None
        )
        return self._planned(chosen, goal, scaling)

    def _prepare_grip(self, opening: float, max_effort: float) -> tuple[Data, Perform]:
        gripper = self._robot["gripper"] if "gripper" in self._robot.group_names else None
        if gripper is None:
            raise InvalidCommand(f"'{self._robot.name}' has no gripper")
        shut, wide = gripper.state("close")[0], gripper.state("open")[0]
        target = float(shut + opening * (wide - shut))
        now = self._link.positions()
        description = {"finger_positions": {
            "now": [round(now[name], 4) for name in gripper.joint_names if name in now],
            "target": round(target, 4),
        }}  # fmt: skip
        return description, lambda _report: {"result": self._link.grip(target, max_effort)}

    def _prepare_run_task(self, task: str) -> tuple[Data, Perform]:
        plan = self._link.plan_task(task)

        def perform(report: Report) -> Data:
            self._link.run_task(plan, report)
            return {"plan": plan}

        return {"plan": plan, "note": "each motion is planned and checked when it begins"}, perform

    def _planned(self, group: JointGroup, goal: Any, scaling: Data) -> tuple[Data, Perform]:
        velocity, acceleration = scaling["velocity"], scaling["acceleration"]
        velocity = self._config.max_velocity if velocity is None else velocity
        acceleration = velocity if acceleration is None else acceleration
        allowed = self._config.max_velocity
        for name, factor in (("velocity", velocity), ("acceleration", acceleration)):
            if factor > allowed:
                raise InvalidCommand(
                    f"{name} is {factor:g}; this server allows at most {allowed:g}", field=name
                )
        path = self._link.plan(group.name, goal, velocity, acceleration)

        def perform(report: Report) -> Data:
            self._link.execute(path, report)
            return {"state": _group_data(group, self._link.positions())}

        return _plan_data(group, path), perform

    def _group(self, name: str | None) -> JointGroup:
        return self._arm if name is None else self._robot[name]
