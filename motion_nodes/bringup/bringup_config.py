# SPDX-License-Identifier: Apache-2.0
"""Configuration of the bringup: robots, backend, viewer and options, validated."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from motion_nodes.bringup.node_specs import Value
from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.model.placement import Placement

BACKENDS = ("mujoco", "mock", "isaac", "hardware")
"""Sources of joint_states and receivers of joint_command. ``hardware``: the driver of the
configuration or of robot.yaml, or one that is started separately; ``isaac``: Isaac Sim."""

VIEWERS = ("browser", "none")

LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")

MAX_FLOOR_HEIGHT = 100.0
"""[m]"""

MIN_CONTROL_RATE, MAX_CONTROL_RATE = 4.0, 1000.0
"""Limits of the simulation's rate, and of its command latency of two periods [Hz]."""


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
    arms that reach below their root link (:func:`~motion_nodes.scene.scenery.floor_below`)."""
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
    of :func:`~motion_nodes.bringup.table_scene.table_objects`."""
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
        """Validate the values."""
        for what, word, allowed in (
            ("backend", self.backend, BACKENDS),
            ("viewer", self.viewer, VIEWERS),
            ("log_level", self.log_level, LOG_LEVELS),
        ):
            if word not in allowed:
                raise InvalidConfig(
                    f"{what} '{word}' is not known.{did_you_mean(word, allowed)}", field=what
                )
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
        return tuple(_within(self.namespace, place) for place in self.placements)

    @property
    def simulated(self) -> bool:
        """True where the suite runs a simulation."""
        return self.backend in ("mujoco", "mock")

    @property
    def sim_time(self) -> bool:
        """Whether the time source of the nodes is /clock."""
        return self.simulated if self.use_sim_time is None else self.use_sim_time


def _within(namespace: str, place: Placement) -> Placement:
    inner = prefixed(namespace, place.namespace)
    return Placement(place.robot, inner, place.x, place.y, place.yaw)


def prefixed(namespace: str, name: str) -> str:
    """Return a name under a namespace, both of which may be empty or have slashes at their ends."""
    return "/".join(part for part in (namespace.strip("/"), name.strip()) if part)
