# SPDX-License-Identifier: Apache-2.0
"""The functions that a language model may call: names, descriptions and arguments."""

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
        "dry_run", "flag", "True: plan, check and describe, without moving; returns a token.", True
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
    """Whether it moves the robot, so that it needs a dry run first."""

    @property
    def all_arguments(self) -> tuple[FunctionArgument, ...]:
        """Arguments, those of dry runs among them."""
        return self.arguments + (CONFIRMATION if self.moves else ())


FUNCTIONS = {
    function.name: function
    for function in (
        AgentFunction(
            "robot_state",
            "Measured joint positions [rad or m], pose of the tip of each group in the base frame, "
            "objects that are held, whether a stop is in force, and limits of this server.",
        ),
        AgentFunction(
            "named_states", "Named states of each group, with joint positions [rad or m].",
        ),
        AgentFunction(
            "planning_scene",
            "Objects around the robot: shape, size [m], pose in the base frame, and what holds it.",
        ),
        AgentFunction(
            "move_to_state", "Move a group to a named state, around obstacles.",
            (FunctionArgument("state", "text", "Name of the state, see named_states.",
                              required=True), GROUP, *SCALING),
            moves=True,
        ),
        AgentFunction(
            "move_to_joints",
            "Move joints to positions, around obstacles; joints that are not given keep theirs.",
            (FunctionArgument("joints", "numbers_by_name", "Position of each joint [rad or m].",
                              required=True, lower=-JOINT_POSITION.max, upper=JOINT_POSITION.max),
             GROUP, *SCALING),
            moves=True,
        ),
        AgentFunction(
            "move_to_pose",
            "Move the tip of a group to a pose in the base frame, around obstacles.",
            (FunctionArgument("position", "numbers", "x, y, z in the base frame [m].",
                              required=True, count=3, lower=-MAX_REACH, upper=MAX_REACH),
             FunctionArgument("rpy", "numbers", "Roll, pitch, yaw about the fixed axes of the base "
                              "frame [rad]; default: any orientation.",
                              count=3, lower=-10.0, upper=10.0),
             GROUP, *SCALING),
            moves=True,
        ),
        AgentFunction(
            "grip", "Move the fingers of the gripper; they stop at what is between them.",
            (FunctionArgument("opening", "number", "0: closed, 1: open.",
                              required=True, lower=0.0, upper=1.0),
             FunctionArgument("max_effort", "number", "Max effort of each finger [N or N m]; "
                              "0: that of the drives.", 0.0, lower=0.0, upper=1e4)),
            moves=True,
        ),
        AgentFunction(
            "run_task",
            "Execute a task with skills (locate, pick, place, pour, push, home), each checked "
            "before, while and after it is executed; failures are repaired a bounded number of "
            "times. The dry run returns the plan of skills; their motions are planned when each "
            "begins.",
            (FunctionArgument("task", "text", "A sentence with names of objects, such as 'put the "
                              "red box into the tray', or a plan: a JSON list of "
                              "{\"skill\": NAME, \"args\": {NAME: VALUE}}.", required=True),),
            moves=True,
        ),
        AgentFunction("cancel", "Cancel the motion or task under way; the robot comes to rest."),
        AgentFunction(
            "stop",
            "Stop all robots of the suite at once; they refuse commands until resume. May be "
            "called at any time. A software stop, not an emergency stop.",
        ),
        AgentFunction(
            "resume",
            "Let robots accept commands again after a stop by this server; no motion is resumed. "
            "Stops by others are ended by a person.",
        ),
    )
}  # fmt: skip
"""By name."""

INSTRUCTIONS = """\
You drive a robot. Look at robot_state and planning_scene first. Units are SI: metres, radians,
seconds. Functions that move the robot need two calls: with dry_run true (default) they plan, check
and describe the motion and return a token; with dry_run false, the same arguments and that token
they move. Read the description in between. Call stop whenever anything is not as expected. Errors
say what is allowed."""
