# SPDX-License-Identifier: Apache-2.0
"""Launch arguments, and their conversion to the bring-up configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from motion_nodes.bringup.bringup_config import (
    BACKENDS,
    LOG_LEVELS,
    VIEWERS,
    BringupConfig,
    HardwareOptions,
)
from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.model.placement import parse_placements

YES_NO = ("true", "false")


@dataclass(frozen=True)
class Argument:
    """One launch argument."""

    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()


ARGUMENTS = (
    Argument("robot", "franka", "Robots, separated by ';': [NAMESPACE:=]ROBOT[@X,Y,YAW]."),
    Argument("backend", "mujoco", "Receiver of joint_command and source of joint_states.",
             BACKENDS),
    Argument("driver", "", "Driver of the backend hardware; empty: that of robot.yaml, if any."),
    Argument("device", "", "Serial port, host name or address of the robot."),
    Argument("calibration", "", "Calibration file of the robot."),
    Argument("dry_run", "false", "Read the robot, but never enable or move it.", YES_NO),
    Argument("speed", "1.0", "Fraction of the velocity limits, for first motions of a robot."),
    Argument("viewer", "browser", "Visualization of the robots.", VIEWERS),
    Argument("viewer_port", "8080", "TCP port of the browser page."),
    Argument("viewer_host", "127.0.0.1", "Listening address of the browser page."),
    Argument("namespace", "", "Prefix of the namespaces of all robots."),
    Argument("use_sim_time", "auto", "Time source /clock; auto: with a simulation.",
             ("auto", *YES_NO)),
    Argument("params_file", "", "ROS parameter files, separated by ';', read last."),
    Argument("autostart", "true", "Configure and activate the nodes.", YES_NO),
    Argument("use_composition", "true",
             "Run nodes in one process, except computationally heavy ones.", YES_NO),
    Argument("respawn", "true", "Replace processes that end or no longer respond.", YES_NO),
    Argument("log_level", "info", "Level of the nodes' log.", LOG_LEVELS),
    Argument("stamped_cmd_vel", "true",
             "Message type of the topic cmd_vel: TwistStamped, else Twist.", YES_NO),
    Argument("floor", "auto", "Add the floor to planning scenes; auto: in simulation.",
             ("auto", *YES_NO)),
    Argument("floor_height", "auto",
             "Height of the floor in the world [m]; auto: 0, lower for arms that reach below."),
    Argument("cameras", "",
             "Depth cameras, separated by ';': [NAMESPACE/]NAME:=LINK@X,Y,Z[,ROLL,PITCH,YAW]."),
    Argument("detect", "false", "Detect the objects of tasks by the cameras.", YES_NO),
    Argument("policy", "",
             "Learned policies in place of joint controllers, separated by ';': "
             "[NAMESPACE:=]POLICY."),
    Argument("tasks", "false", "Task servers for arms with fingers.", YES_NO),
    Argument("scene_bodies", "false", "Add objects of planning scenes to the simulation.", YES_NO),
    Argument("suction", "false", "The tool of each arm is a surface gripper (MuJoCo).", YES_NO),
    Argument("objects", "",
             "Free objects (MuJoCo), separated by ';': NAME:=SHAPE:SIZES:MASS@X,Y,Z[,YAW]."),
    Argument("empty", "false", "No example objects for the tasks of an arm.", YES_NO),
)  # fmt: skip


CELL_ARGUMENTS = (
    Argument("robots", "a:=jetbot@0,0,0; b:=franka@1,0,0",
             "Robots, separated by ';', each with its own namespace: NAMESPACE:=ROBOT[@X,Y,YAW]."),
    Argument("rviz", "false", "Also show the robots in RViz.", YES_NO),
    *(argument for argument in ARGUMENTS if argument.name != "robot"),
)  # fmt: skip
"""Arguments of the launch file for several robots."""


def checked(values: Mapping[str, str], arguments: Sequence[Argument]) -> dict[str, str]:
    """Return the text of every argument, given or default.

    Raises:
        InvalidConfig: an unknown argument or value.
    """
    known = {argument.name: argument for argument in arguments}
    for name in values:
        if name not in known:
            raise InvalidConfig(
                f"launch argument '{name}' is not known.{did_you_mean(name, known)}", field=name
            )
    text = {name: values.get(name, argument.default) for name, argument in known.items()}
    for name, argument in known.items():
        if argument.choices and text[name] not in argument.choices:
            raise InvalidConfig(
                f"{name} '{text[name]}' is not known.{did_you_mean(text[name], argument.choices)}",
                field=name,
            )
    return text


def config_from(values: Mapping[str, str]) -> BringupConfig:
    """Return the bring-up configuration of launch arguments.

    Args:
        values: text by argument name; others have their default.

    Raises:
        InvalidConfig: an unknown argument or value, or an invalid :class:`BringupConfig`.
    """
    text = checked(values, ARGUMENTS)
    if not text["viewer_port"].isdecimal():
        raise InvalidConfig(
            f"viewer_port '{text['viewer_port']}' must be a number", field="viewer_port"
        )
    height = text["floor_height"]
    floor_height = None if height == "auto" else _number("floor_height", height, "[m]")
    auto = {"auto": None, "true": True, "false": False}
    return BringupConfig(
        placements=parse_placements(text["robot"].split(";")),
        backend=text["backend"],
        viewer=text["viewer"],
        viewer_port=int(text["viewer_port"]),
        viewer_host=text["viewer_host"],
        namespace=text["namespace"],
        use_sim_time=auto[text["use_sim_time"]],
        autostart=text["autostart"] == "true",
        stamped_cmd_vel=text["stamped_cmd_vel"] == "true",
        params_file=text["params_file"] or None,
        log_level=text["log_level"],
        floor=auto[text["floor"]],
        floor_height=floor_height,
        policies=tuple(word.strip() for word in text["policy"].split(";") if word.strip()),
        scene_bodies=text["scene_bodies"] == "true",
        tasks=text["tasks"] == "true",
        hardware=HardwareOptions(
            driver=text["driver"],
            device=text["device"],
            calibration=text["calibration"],
            dry_run=text["dry_run"] == "true",
            speed=_number("speed", text["speed"], "from 0 to 1"),
        ),
        suction=text["suction"] == "true",
        objects=tuple(word.strip() for word in text["objects"].split(";") if word.strip()),
        empty=text["empty"] == "true",
        cameras=tuple(word.strip() for word in text["cameras"].split(";") if word.strip()),
        detect=text["detect"] == "true",
    )


def _number(name: str, text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidConfig(f"{name} '{text}' must be a number {what}", field=name) from None
