# SPDX-License-Identifier: Apache-2.0
"""The interface of LeRobot that a robot plugin uses, by its guide "Bring Your Own Hardware".

LeRobot itself needs Torch; ``test/integrations/test_with_lerobot.py`` runs where it is installed.
"""

import abc
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

PLUGIN = Path(__file__).parents[1] / "integrations" / "lerobot_robot_motion_nodes"


@dataclass(kw_only=True)
class RobotConfig:
    """Base of configurations, registered by the values of ``--robot.type``."""

    id: str | None = None
    calibration_dir: Path | None = None
    registered: ClassVar[dict[str, type]] = {}

    @classmethod
    def register_subclass(cls, name: str) -> Any:
        def register(kind: type) -> type:
            cls.registered[name] = kind
            return kind

        return register


class Robot(abc.ABC):
    """The interface of robots."""

    config_class: type
    name: str

    def __init__(self, config: RobotConfig) -> None:
        self.id = config.id

    def __str__(self) -> str:
        return f"{self.id} {type(self).__name__}"

    observation_features = abc.abstractproperty()
    action_features = abc.abstractproperty()
    is_connected = abc.abstractproperty()
    is_calibrated = abc.abstractproperty()

    @abc.abstractmethod
    def connect(self, calibrate: bool = True) -> None: ...

    @abc.abstractmethod
    def calibrate(self) -> None: ...

    @abc.abstractmethod
    def configure(self) -> None: ...

    @abc.abstractmethod
    def get_observation(self) -> dict[str, Any]: ...

    @abc.abstractmethod
    def send_action(self, action: dict[str, Any]) -> dict[str, Any]: ...

    @abc.abstractmethod
    def disconnect(self) -> None: ...


@dataclass(kw_only=True)
class CameraConfig:
    height: int = 4
    width: int = 6


class Camera:
    def __init__(self, config: CameraConfig) -> None:
        self.config, self.is_connected = config, False

    def connect(self) -> None:
        self.is_connected = True

    def disconnect(self) -> None:
        self.is_connected = False

    def async_read(self) -> tuple[int, int, int]:
        return (self.config.height, self.config.width, 3)


def modules() -> dict[str, ModuleType]:
    """Return the modules that the plugin imports, by name."""
    made = {
        name: ModuleType(name)
        for name in ("lerobot", "lerobot.robots", "lerobot.cameras", "lerobot.cameras.utils")
    }
    made["lerobot.robots"].__dict__.update(Robot=Robot, RobotConfig=RobotConfig)
    made["lerobot.cameras"].__dict__.update(CameraConfig=CameraConfig)
    made["lerobot.cameras.utils"].__dict__.update(
        make_cameras_from_configs=lambda configs: {k: Camera(c) for k, c in configs.items()}
    )
    return made


def forget_plugin() -> None:
    """Unload the plugin, so that its next import loads it again."""
    for name in [n for n in sys.modules if n.startswith("lerobot_robot_motion_nodes")]:
        del sys.modules[name]
