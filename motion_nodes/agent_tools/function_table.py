# SPDX-License-Identifier: Apache-2.0
"""Functions for language models: names, descriptions and arguments."""

from __future__ import annotations

from dataclasses import dataclass

from motion_nodes.agent_tools.arguments import FunctionArgument
from motion_nodes.model.bounds import JOINT_POSITION

MAX_REACH = 100.0
"""Max coordinate of a goal in the base frame [m]."""

GROUP = FunctionArgument("group", "text", "Planning group; default: the arm.")
SCALING = (
    FunctionArgument(
        "velocity", "number", "Scaling factor of the velocity limits; default: the max allowed.",
        lower=0.01, upper=1.0,
    ),
    FunctionArgument(
        "acceleration", "number", "Scaling factor of the acceleration limits; default: velocity.",
        lower=0.01, upper=1.0,
    ),
)  # fmt: skip
CONFIRMATION = (
    FunctionArgument(
        "dry_run", "flag", "True: plan, check and describe without moving; returns a token.", True
    ),
    FunctionArgument("token", "text", "Token of the dry run, if dry_run is false."),
)


@dataclass(frozen=True)
class AgentFunction:
    """One function."""

    name: str
    doc: str
    arguments: tuple[FunctionArgument, ...] = ()
    moves: bool = False
    """Whether the function moves the robot and therefore needs a dry run."""

    @property
    def all_arguments(self) -> tuple[FunctionArgument, ...]:
        """All arguments, including those of dry runs."""
        return self.arguments + (CONFIRMATION if self.moves else ())


FUNCTIONS = {
    function.name: function
    for function in (
        AgentFunction(
            "robot_state",
            "Measured joint positions [rad or m], pose of the tip of each group in the base frame, "
            "attached objects, running motion, whether a stop is latched, limits of this server.",
        ),
        AgentFunction(
            "named_states", "Named states of each group, with joint positions [rad or m].",
        ),
        AgentFunction(
            "planning_scene",
            "Objects around the robot: shape, size [m], pose in the base frame, attached link.",
        ),
        AgentFunction(
            "move_to_state", "Move a group to a named state without collisions.",
            (FunctionArgument("state", "text", "Name of the state, see named_states.",
                              required=True), GROUP, *SCALING),
            moves=True,
        ),
        AgentFunction(
            "move_to_joints",
            "Move joints to positions without collisions; other joints keep theirs.",
            (FunctionArgument("joints", "numbers_by_name", "Position of each joint [rad or m].",
                              required=True, lower=-JOINT_POSITION.max, upper=JOINT_POSITION.max),
             GROUP, *SCALING),
            moves=True,
        ),
        AgentFunction(
            "move_to_pose",
            "Move the tip of a group to a pose in the base frame without collisions.",
            (FunctionArgument("position", "numbers", "x, y, z in the base frame [m].",
                              required=True, count=3, lower=-MAX_REACH, upper=MAX_REACH),
             FunctionArgument("rpy", "numbers", "Roll, pitch, yaw about the fixed axes of the base "
                              "frame [rad]; default: any orientation.",
                              count=3, lower=-10.0, upper=10.0),
             GROUP, *SCALING),
            moves=True,
        ),
        AgentFunction(
            "grip", "Move the fingers of the gripper; they stop at an object between them.",
            (FunctionArgument("opening", "number", "0: closed, 1: open.",
                              required=True, lower=0.0, upper=1.0),
             FunctionArgument("max_effort", "number", "Max effort of each finger [N or N m]; "
                              "0: that of the drives.", 0.0, lower=0.0, upper=1e4)),
            moves=True,
        ),
        AgentFunction(
            "run_task",
            "Execute a task with skills (locate, pick, place, pour, push, home), each checked "
            "before, during and after execution; failures are repaired a limited number of times. "
            "The dry run returns the plan of skills; motions are planned at the start of each "
            "skill.",
            (FunctionArgument("task", "text", "A sentence with names of objects, such as 'put the "
                              "red box into the tray', or a plan: a JSON list of "
                              "{\"skill\": NAME, \"args\": {NAME: VALUE}}.", required=True),),
            moves=True,
        ),
        AgentFunction("cancel", "Cancel the running motion or task; the robot comes to rest."),
        AgentFunction(
            "stop",
            "Stop all robots of the suite immediately; they reject commands until resume. May be "
            "called at any time. A software stop, not an emergency stop.",
        ),
        AgentFunction(
            "resume",
            "Release a stop of this server: robots accept commands again; no motion is resumed. "
            "Stops by others must be released by a person.",
        ),
    )
}  # fmt: skip
"""By name."""

INSTRUCTIONS = """\
You control a robot. Call robot_state and planning_scene first. Units are SI: metres, radians,
seconds. Functions that move the robot need two calls: with dry_run true (default) they plan, check
and describe the motion and return a token; with dry_run false, the same arguments and that token
they execute it. Read the description before the second call. Call stop whenever anything is
unexpected. Errors state what is allowed."""
