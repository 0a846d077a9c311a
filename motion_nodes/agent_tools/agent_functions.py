# SPDX-License-Identifier: Apache-2.0
"""Executes function calls of a language model for one robot: validation, dry run, confirmation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from motion_nodes.agent_tools.arguments import checked_arguments
from motion_nodes.agent_tools.dry_runs import LIFETIME, DryRuns, Perform
from motion_nodes.agent_tools.function_table import FUNCTIONS, AgentFunction
from motion_nodes.agent_tools.motion_summary import group_data, plan_data, rounded, scene_data
from motion_nodes.agent_tools.robot_link import Report, RobotLink, TipTarget
from motion_nodes.api.joint_group import JointGroup
from motion_nodes.api.robot_model import RobotModel
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint, did_you_mean
from motion_nodes.model.poses import from_xyz_rpy

Data = dict[str, Any]


@dataclass(frozen=True)
class AgentConfig:
    """Limits for a language model."""

    max_velocity: float = 0.5
    """Max scaling factor of velocities and accelerations, above 0 to 1."""
    read_only: bool = False
    """Whether to omit functions that move the robot."""

    def __post_init__(self) -> None:
        """Check the limits."""
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
        self,
        robot: RobotModel,
        link: RobotLink,
        config: AgentConfig | None = None,
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
        groups = {name: group_data(self._robot[name], positions) for name in self._robot}
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
            return {"state": group_data(group, self._link.positions())}

        return plan_data(group, path), perform

    def _group(self, name: str | None) -> JointGroup:
        return self._arm if name is None else self._robot[name]
