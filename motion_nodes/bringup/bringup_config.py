# SPDX-License-Identifier: Apache-2.0
"""Configuration of the bringup: robots, backend, viewer and options, validated.

Includes the launch arguments, which are converted to the same configuration, and the check for
libraries of optional extras before a suite starts.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from motion_nodes.core.robot.placement import Placement, check_namespace, parse_placements
from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.ros.parameter_words import Value

BACKENDS = ("mujoco", "mock", "isaac", "hardware")
"""Sources of joint_states and receivers of joint_command. ``hardware``: the driver of the
configuration or of robot.yaml, or one that is started separately; ``isaac``: Isaac Sim."""
VIEWERS = ("browser", "none")
LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")
MAX_FLOOR_HEIGHT = 100.0
"""[m]"""
MIN_CONTROL_RATE, MAX_CONTROL_RATE = 4.0, 1000.0
"""Limits of the simulation's rate, and of its command latency of two periods [Hz]."""
YES_NO = ("true", "false")


@dataclass(frozen=True, kw_only=True)
class HardwareOptions:
    """Driver options of a real robot, see the parameters of the node ``robot_driver``."""

    driver: str = ""
    """Name of the driver; empty: that of robot.yaml, if any."""
    device: str = ""
    """Serial port, host name or address."""
    calibration: str = ""
    """Calibration file."""
    dry_run: bool = False
    """Only read the robot."""
    speed: float = 1.0
    """Fraction of the velocity limits for first motions."""

    def parameters(self) -> dict[str, Value]:
        """Return the parameters of the driver's node."""
        file = str(Path(self.calibration).expanduser().absolute()) if self.calibration else ""
        return {**asdict(self), "calibration": file}


@dataclass(frozen=True, kw_only=True)
class BringupConfig:
    """Configuration of a suite.

    Raises:
        InvalidConfig: an unknown backend, viewer or log level, or a missing file.
    """

    placements: tuple[Placement, ...]
    backend: str = "mujoco"
    viewer: str = "browser"
    viewer_port: int = 8080
    viewer_host: str = "127.0.0.1"
    namespace: str = ""
    """Prefix of the namespaces of all robots."""
    use_sim_time: bool | None = None
    """None: true with a simulation, false without."""
    autostart: bool = True
    stamped_cmd_vel: bool = True
    """Message type of the topic ``cmd_vel``: TwistStamped or Twist."""
    params_file: str | None = None
    """Parameter files of the user, separated by ';'; the last one overrides all other values."""
    log_level: str = "info"
    floor: bool | None = None
    """Whether planning scenes contain the floor; None: true with a simulation, false without."""
    floor_height: float | None = None
    """Height of the floor in the world, in planning scenes and in MuJoCo [m]; None: 0, lower for
    arms that reach below their root link (:func:`~motion_nodes.core.scene.scenery.floor_below`)."""
    policies: tuple[str, ...] = ()
    """Learned policies, each as [NAMESPACE:=]POLICY: a file, folder or published name. Without a
    namespace for the only robot. They replace the joint controller and the planners."""
    scene_bodies: bool = False
    """Whether objects of the planning scenes are bodies of the MuJoCo simulation."""
    tasks: bool = False
    """Whether arms with fingers get a task server."""
    hardware: HardwareOptions = field(default_factory=HardwareOptions)
    """Driver of the robot, for the backend ``hardware``."""
    suction: bool = False
    """Whether the tool of each arm is a surface gripper, in the MuJoCo simulation."""
    objects: tuple[str, ...] = ()
    """Free objects of the MuJoCo simulation: NAME:=SHAPE:SIZES:MASS@X,Y,Z[,YAW]."""
    empty: bool = False
    """Whether the simulation of an arm with tasks has no objects if none are given; otherwise those
    of :func:`~motion_nodes.bringup.compose.table_objects`."""
    cameras: tuple[str, ...] = ()
    """Depth cameras of arms, mapped for their planning scenes: in MuJoCo
    ``[NAMESPACE/]NAME:=LINK@X,Y,Z[,ROLL,PITCH,YAW]``, otherwise ``[NAMESPACE/]NAME``."""
    detect: bool = False
    """Whether the cameras detect the objects of tasks instead."""
    control_rate: float | None = None
    """Update rate of the simulation and of the joint controllers [Hz]; None: their defaults."""

    @property
    def params_files(self) -> tuple[str, ...]:
        """Parameter files of the user."""
        return tuple(w.strip() for w in (self.params_file or "").split(";") if w.strip())

    def __post_init__(self) -> None:
        for what, word, allowed in (
            ("backend", self.backend, BACKENDS),
            ("viewer", self.viewer, VIEWERS),
            ("log_level", self.log_level, LOG_LEVELS),
        ):
            if word not in allowed:
                raise InvalidConfig(
                    f"{what} '{word}' is not known.{did_you_mean(word, allowed)}", field=what
                )
        if self.namespace.strip("/"):
            check_namespace(self.namespace.rstrip("/"))
        for file in self.params_files:
            if not Path(file).is_file():
                raise InvalidConfig(f"params_file '{file}' does not exist", field="params_file")
        if self.floor_height is not None and not abs(self.floor_height) <= MAX_FLOOR_HEIGHT:
            raise InvalidConfig(
                f"floor_height {self.floor_height} m is not within +-{MAX_FLOOR_HEIGHT:g} m",
                field="floor_height",
            )
        rate = self.control_rate
        if rate is not None and not MIN_CONTROL_RATE <= rate <= MAX_CONTROL_RATE:
            raise InvalidConfig(
                f"control_rate {rate} Hz is not within {MIN_CONTROL_RATE:g} to "
                f"{MAX_CONTROL_RATE:g} Hz",
                field="control_rate",
            )
        self.policy_of("")
        if self.hardware != HardwareOptions():
            if self.backend != "hardware":
                raise InvalidConfig(
                    f"driver, device, calibration, dry_run and speed need the backend hardware, "
                    f"not '{self.backend}'"
                )
            if len(self.placements) > 1:
                raise InvalidConfig(
                    "driver and device are for one robot; for several real robots set them in "
                    "their robot.yaml (hardware.driver, hardware.device)"
                )
        for name in ("scene_bodies", "suction", "objects"):
            if getattr(self, name) and self.backend != "mujoco":
                raise InvalidConfig(
                    f"{name} needs the backend mujoco; '{self.backend}' has no MuJoCo model",
                    field=name,
                )

    @property
    def control_settings(self) -> dict[str, Value]:
        """Parameters of the simulation and of the joint controllers for ``control_rate``."""
        return {} if self.control_rate is None else {"update_rate": self.control_rate}

    @property
    def has_floor(self) -> bool:
        """Whether planning scenes contain the floor."""
        return self.simulated if self.floor is None else self.floor

    def policy_of(self, namespace: str) -> str:
        """Return the learned policy of the robot of a namespace; empty: none.

        Raises:
            InvalidConfig: a policy of no robot, or several of one.
        """
        found: dict[str, str] = {}
        known = [place.namespace for place in self.within_namespace]
        for word in self.policies:
            name, given, policy = word.rpartition(":=")
            if not given and len(known) == 1:
                name = known[0]
            name = name.strip("/")
            if name not in known or name in found or not policy:
                raise InvalidConfig(
                    f"policy '{word}' must be POLICY for one robot, or NAMESPACE:=POLICY for one "
                    f"of {', '.join(filter(None, known)) or 'the robots without a namespace'}, "
                    "once for each"
                )
            found[name] = policy
        return found.get(namespace, "")

    @property
    def within_namespace(self) -> tuple[Placement, ...]:
        """The robots with their full namespaces."""
        return tuple(
            replace(place, namespace=prefixed(self.namespace, place.namespace))
            for place in self.placements
        )

    @property
    def simulated(self) -> bool:
        """True where the suite runs a simulation."""
        return self.backend in ("mujoco", "mock")

    @property
    def sim_time(self) -> bool:
        """Whether the time source of the nodes is /clock."""
        return self.simulated if self.use_sim_time is None else self.use_sim_time


def prefixed(namespace: str, name: str) -> str:
    """Return a name under a namespace, both of which may be empty or have slashes at their ends."""
    return "/".join(part for part in (namespace.strip("/"), name.strip()) if part)


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
    Argument("supervised", "auto",
             "Start the processes by the supervisor, not by launch; auto: those of a real robot.",
             ("auto", *YES_NO)),
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


def check_libraries(config: BringupConfig) -> None:
    """Check that the libraries of the simulation and of the page are installed.

    Raises:
        InvalidConfig: one is missing; names the extra that provides it.
    """
    for needed, module, extra, otherwise in (
        (config.backend == "mujoco", "mujoco", "sim", "--backend mock"),
        (config.viewer == "browser", "viser", "viewer", "--viewer none"),
    ):
        if needed and importlib.util.find_spec(module) is None:
            raise InvalidConfig(
                f"{module} is not installed; run: pip install 'motion-nodes[{extra}]', "
                f"or choose {otherwise}"
            )
