# SPDX-License-Identifier: Apache-2.0
"""The nodes of a suite for a set of robots, with their names and parameters.

The single source for ``motion up`` and the launch files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.hardware.drivers import driver_name
from motion_nodes.model.files.rmpflow_file import RMPFLOW_FILE
from motion_nodes.model.placement import Placement
from motion_nodes.model.robot import Robot
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros.names import (
    BASE_CONTROLLERS,
    BASE_NAVIGATOR,
    CONTROLLER_MANAGER,
    JOINT_CONTROLLER,
    OCCUPANCY_MAPPER,
    PLANNER,
    POLICY_CONTROLLER,
    REACTIVE_POLICY,
    under,
)

BACKENDS = ("mujoco", "mock", "isaac", "hardware")
"""Sources of joint_states and receivers of joint_command. ``hardware``: the driver that is named in
the configuration or in robot.yaml, or one that is started elsewhere; ``isaac``: Isaac Sim."""

VIEWERS = ("browser", "none")

LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")

BASE_EXECUTABLES = {
    "differential": "differential_base",
    "holonomic": "holonomic_base",
    "ackermann": "ackermann_base",
}

ALONE = (
    "rrt_planner",
    "trajectory_generator",
    "rmpflow_policy",
    "occupancy_mapper",
    "policy_controller",
    "robot_driver",
)
"""Executables whose computational load would delay the loops of other nodes in their process, and
the driver, which must not be delayed by theirs."""

WITHOUT_MOTION = ("robot_state", "ik_service", "controller_manager", "browser_viewer")
"""Executables whose loss does not affect a motion under way."""

CONTAINER = "container"
"""Name of the process that several nodes share."""

MAX_FLOOR_HEIGHT = 100.0
"""[m]"""

Value = bool | int | float | str | Sequence[str] | Sequence[float]


@dataclass(frozen=True)
class NodeSpec:
    """One node: executable, name, namespace and parameters."""

    executable: str
    name: str
    namespace: str = ""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    params_files: tuple[str, ...] = ()
    log_level: str = "info"

    @property
    def full_name(self) -> str:
        """Fully qualified name."""
        return "/" + under(self.namespace, self.name)

    @property
    def is_simulation(self) -> bool:
        """True for the simulation; it has a process of its own."""
        return self.executable.endswith("_sim")

    @property
    def moves_robots(self) -> bool:
        """True for a node that takes part in motions: its robot is held when it is lost."""
        return self.executable not in WITHOUT_MOTION

    @property
    def stands_alone(self) -> bool:
        """True for a node with a process of its own.

        The simulation stands for the robots; planning, trajectory generation and the reactive
        policy hold the interpreter lock for long, which would delay other loops of the process.
        """
        return self.is_simulation or self.executable in ALONE

    def ros_args(self) -> list[str]:
        """Return the ROS arguments of a command line."""
        args = ["--ros-args", "-r", f"__node:={self.name}"]
        args += ["-r", f"__ns:=/{self.namespace}"]
        for key, value in self.parameters.items():
            args += ["-p", f"{key}:={json.dumps(value)}"]
        for file in self.params_files:
            args += ["--params-file", file]
        logger = self.full_name.strip("/").replace("/", ".")
        return [*args, "--log-level", f"{logger}:={self.log_level}"]


@dataclass(frozen=True, kw_only=True)
class HardwareOptions:
    """How to drive a real robot, see the parameters of the node ``robot_driver``."""

    driver: str = ""
    """Name of the driver; empty: that of robot.yaml, if it names one."""
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
    """What to bring up.

    Raises:
        InvalidConfig: for an unknown backend, viewer or log level, or a missing file.
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
    """Parameter file of the user; overrides all other values."""
    log_level: str = "info"
    floor: bool | None = None
    """Whether planning scenes contain the floor; None: true with a simulation, false without."""
    floor_height: float = 0.0
    """Height of the floor in the world, in planning scenes and in MuJoCo [m]."""
    policies: tuple[str, ...] = ()
    """Learned policies, each as [NAMESPACE:=]POLICY: a file, folder or published name. Without a
    namespace for the only robot. They take the place of the joint controller and the planners."""
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
    cameras: tuple[str, ...] = ()
    """Depth cameras of arms, mapped for their planning scenes: in MuJoCo
    ``[NAMESPACE/]NAME:=LINK@X,Y,Z[,ROLL,PITCH,YAW]``, otherwise ``[NAMESPACE/]NAME``."""

    def __post_init__(self) -> None:
        """Check the values."""
        for what, word, allowed in (
            ("backend", self.backend, BACKENDS),
            ("viewer", self.viewer, VIEWERS),
            ("log level", self.log_level, LOG_LEVELS),
        ):
            if word not in allowed:
                raise InvalidConfig(f"{what} '{word}' is not known.{did_you_mean(word, allowed)}")
        if self.params_file is not None and not Path(self.params_file).is_file():
            raise InvalidConfig(f"params_file '{self.params_file}' does not exist")
        if not abs(self.floor_height) <= MAX_FLOOR_HEIGHT:
            raise InvalidConfig(
                f"floor_height {self.floor_height} m is not within +-{MAX_FLOOR_HEIGHT:g} m"
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
                    "driver and device are of one robot; for several real robots name them in "
                    "their robot.yaml (hardware.driver, hardware.device)"
                )
        for name in ("scene_bodies", "suction", "objects"):
            if getattr(self, name) and self.backend != "mujoco":
                raise InvalidConfig(
                    f"{name} needs the backend mujoco; '{self.backend}' has no MuJoCo model"
                )

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
        return tuple(_within(self.namespace, place) for place in self.placements)

    @property
    def simulated(self) -> bool:
        """True where the suite runs a simulation."""
        return self.backend in ("mujoco", "mock")

    @property
    def sim_time(self) -> bool:
        """Whether the time source of the nodes is /clock."""
        return self.simulated if self.use_sim_time is None else self.use_sim_time


def nodes_for(config: BringupConfig) -> list[NodeSpec]:
    """Return the nodes of the suite, the simulation first.

    Raises:
        RobotNotFound: for an unknown robot.
        InvalidDescription: for an unusable description.
    """
    placements = config.within_namespace
    words = [place.word for place in placements]
    specs: list[NodeSpec] = []
    if config.simulated:
        executable = f"{config.backend}_sim"
        cell: dict[str, Value] = {"robots": words}
        if config.backend == "mujoco":
            cell["floor_height"] = config.floor_height
            cell["scene_bodies"] = config.scene_bodies
            cell |= {"objects": config.objects} if config.objects else {}
            cell |= {"surface_grippers": _suction_links(placements)} if config.suction else {}
            if config.cameras:
                cell["cameras"] = [_prefixed(config.namespace, word) for word in config.cameras]
        specs.append(_spec(config, executable, executable, "", cell))
    for place in placements:
        robot = load_description(place.robot)
        if config.backend == "hardware" and (config.hardware.driver or driver_name(robot)):
            settings: dict[str, Value] = {"robot": place.robot, **config.hardware.parameters()}
            specs.append(_spec(config, "robot_driver", "robot_driver", place.namespace, settings))
        specs += _robot_nodes(config, place, robot)
    if config.viewer == "browser":
        settings = {
            "robots": words,
            "port": config.viewer_port,
            "host": config.viewer_host,
        }
        walking = [
            place.namespace or load_description(place.robot).name
            for place in placements
            if config.policy_of(place.namespace)
        ]
        # ROS cannot tell the type of an empty list.
        if walking:
            settings["policies"] = walking
        specs.append(_spec(config, "browser_viewer", "browser_viewer", "", settings))
    return specs


def commands_for(specs: Sequence[NodeSpec], *, composed: bool) -> dict[str, list[str]]:
    """Return the command lines of the processes, by name.

    Args:
        specs: the nodes.
        composed: True: one process for all nodes but those that stand alone; else one for each.
    """
    python = [sys.executable, "-m", "motion_nodes.nodes"]
    commands = {}
    for name, nodes in processes_for(specs, composed=composed).items():
        if name == CONTAINER:
            listed = [{"executable": s.executable, "ros_args": s.ros_args()} for s in nodes]
            commands[name] = [*python, "container", "--nodes", json.dumps(listed)]
        else:
            commands[name] = [*python, nodes[0].executable, *nodes[0].ros_args()]
    return commands


def processes_for(specs: Sequence[NodeSpec], *, composed: bool) -> dict[str, list[NodeSpec]]:
    """Return the nodes of each process, by its name; see :func:`commands_for`."""
    alone = [s for s in specs if not composed or s.stands_alone]
    together = [s for s in specs if s not in alone]
    shared = {CONTAINER: together} if together else {}
    return {s.full_name.strip("/"): [s] for s in alone} | shared


def _prefixed(namespace: str, name: str) -> str:
    return "/".join(part for part in (namespace.strip("/"), name.strip()) if part)


def _within(namespace: str, place: Placement) -> Placement:
    inner = _prefixed(namespace, place.namespace)
    return Placement(place.robot, inner, place.x, place.y, place.yaw)


def _suction_links(placements: Sequence[Placement]) -> tuple[str, ...]:
    """Return the tool of each arm, as [NAMESPACE/]LINK.

    Raises:
        InvalidConfig: no robot has a tool.
    """
    robots = [(place, load_description(place.robot)) for place in placements]
    links = [under(p.namespace, r.tool_frame) for p, r in robots if r.tool_frame is not None]
    if not links:
        raise InvalidConfig("suction needs a robot with a tool frame (frames.tool in robot.yaml)")
    return tuple(links)


def _robot_nodes(config: BringupConfig, place: Placement, robot: Robot) -> list[NodeSpec]:
    settings: dict[str, Value] = {"robot": place.robot}
    framed = settings | {"tf_frame_prefix": "~" if place.namespace else ""}
    specs = [_spec(config, "robot_state", "robot_state", place.namespace, framed)]
    policy = config.policy_of(place.namespace)
    if policy:
        played = settings | {
            "policy": policy,
            "stamped_cmd_vel": config.stamped_cmd_vel,
            "odometry_topic": "ground_truth" if config.simulated else "odom",
        }
        return [
            *specs,
            _spec(config, POLICY_CONTROLLER, POLICY_CONTROLLER, place.namespace, played),
        ]
    if robot.arm_joints:
        # Drives of real arms compensate gravity; plain PD drives do not.
        physics = config.backend == "mujoco"
        led = framed | {
            "feed_forward": physics,
            "contact_detection": physics,
            "impedance.gravity_compensation": physics,
            "effort_commands": config.backend != "mock",
        }
        specs.append(
            _spec(config, "articulation_controller", JOINT_CONTROLLER, place.namespace, led)
        )
    if any(group.tip is not None for group in robot.groups.values()):
        specs.append(_spec(config, "ik_service", "ik_service", place.namespace, framed))
    if robot.arm_joints and (robot.directory / RMPFLOW_FILE).is_file():
        planner = any(group.tip is not None for group in robot.groups.values())
        reactive = framed | {"escape": "plan" if planner else "posture"}
        specs.append(_spec(config, "rmpflow_policy", REACTIVE_POLICY, place.namespace, reactive))
    if robot.arm_joints:
        specs.append(
            _spec(config, "trajectory_generator", "trajectory_generator", place.namespace, framed)
        )
    if robot.base is not None:
        driven = framed | {"stamped_cmd_vel": config.stamped_cmd_vel}
        executable, name = BASE_EXECUTABLES[robot.kind], BASE_CONTROLLERS[robot.kind]
        specs.append(_spec(config, executable, name, place.namespace, driven))
        specs.append(_spec(config, "base_navigator", BASE_NAVIGATOR, place.namespace, settings))
    specs.append(_spec(config, "controller_manager", CONTROLLER_MANAGER, place.namespace, settings))
    if config.tasks and {"arm", "gripper"} <= robot.groups.keys():
        tasks = framed | {
            "detector": "/mujoco_sim/objects" if config.backend == "mujoco" else "",
            "check_grasp": config.backend != "mock",
            "placement": (place.x, place.y, place.yaw),
        }
        specs.append(_spec(config, "task_server", "task_server", place.namespace, tasks))
    if any(group.tip is not None for group in robot.groups.values()):
        # The last, since it takes longest to configure.
        around = framed | {
            # A floating base stands somewhere above it, which planners do not know.
            "floor": config.has_floor and robot.kind != "floating",
            "floor_height": config.floor_height,
            "cell": [each.word for each in config.within_namespace],
        }
        specs.append(_spec(config, "rrt_planner", PLANNER, place.namespace, around))
        images = _depth_topics(config, place)
        if images:
            seen = framed | {"depth_images": images}
            specs.append(_spec(config, "occupancy_mapper", OCCUPANCY_MAPPER, place.namespace, seen))
    return specs


def _depth_topics(config: BringupConfig, place: Placement) -> list[str]:
    """Return the depth images of a robot's cameras, relative to its namespace."""
    found = []
    for word in config.cameras:
        space, _, name = _prefixed(config.namespace, word).partition(":=")[0].rpartition("/")
        if place.namespace == space:
            found.append(f"{name}/depth/image_rect_raw")
    return found


def _spec(
    config: BringupConfig,
    executable: str,
    name: str,
    namespace: str,
    settings: Mapping[str, Value],
) -> NodeSpec:
    common: dict[str, Value] = {"autostart": config.autostart}
    # The simulation is the source of simulated time.
    common["use_sim_time"] = config.sim_time and not executable.endswith("_sim")
    return NodeSpec(
        executable,
        name,
        namespace,
        {**common, **settings},
        (config.params_file,) if config.params_file else (),
        config.log_level,
    )
