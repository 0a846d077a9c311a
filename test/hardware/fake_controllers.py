# SPDX-License-Identifier: Apache-2.0
"""Fake controllers of all drivers, and the robots they are tested with."""

import math
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from motion_nodes.core.robot.loader import load_robot

ROBOTS = {
    "feetech": "so101",
    "dynamixel": "open_manipulator_x",
    "ur": "ur5e",
    "xarm": "xarm6",
    "franka": "fr3",
    "two_wheels": "jetbot",
}
"""Robot with which each driver is tested."""
ARMS = ("feetech", "dynamixel", "ur", "xarm", "franka")
"""Drivers of arms."""
ANGLE = 2.0 * math.pi / 4096
"""Angle of a servo's count [rad]."""


@dataclass
class FakeController:
    """A running fake controller, seen from its driver."""

    device: str
    """Value of the driver's parameter ``device``."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Entries of ``hardware.settings`` in addition to the robot's."""
    target: Callable[[], float | None] = lambda: None
    """Returns the last target of the first joint on the bus [rad]; None if unknown."""
    fail: Callable[[], Any] = lambda: None
    """Causes a fault."""
    mend: Callable[[], Any] = lambda: None
    """Removes the cause of the fault."""


def ready_state(driver: str) -> dict[str, float]:
    """Return the joint positions in which a driver's arm is tested [rad]; empty for bases."""
    robot = load_robot(ROBOTS[driver])
    if robot.base is not None:
        return {}
    ready = robot.named_state("ready", "arm")
    return dict(zip(robot.group("arm").joints, ready.tolist(), strict=True))


def start(driver: str, host: str = "127.0.0.1") -> FakeController:
    """Start the controller of a driver.

    Args:
        driver: key of ``ROBOTS``.
        host: loopback address of network controllers.
    """
    return _MAKERS[driver](host, list(ready_state(driver).values()))


def robot_folder(driver: str, controller: FakeController, folder: Path, **settings: Any) -> str:
    """Copy a robot's folder, with the settings of its controller; return the path of the copy.

    Args:
        driver: key of ``ROBOTS``.
        controller: the controller.
        folder: parent folder of the copy.
        settings: further entries of ``hardware.settings``.
    """
    copy = folder / ROBOTS[driver]
    shutil.copytree(load_robot(ROBOTS[driver]).directory, copy)
    file = copy / "robot.yaml"
    content = yaml.safe_load(file.read_text())
    hardware = content.setdefault("hardware", {})
    hardware["driver"] = driver
    hardware["settings"] = hardware.get("settings", {}) | controller.settings | settings
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return str(copy)


def _feetech(_host: str, _ready: list[float]) -> FakeController:
    from hardware.fake_feetech import so101_bus

    bus = so101_bus()

    def overload(error: int) -> None:
        bus.servos[3].error = error

    return FakeController(
        bus.device,
        target=lambda: (bus.servos[1].goal - 2048) * ANGLE,
        fail=lambda: overload(0x20),
        mend=lambda: overload(0),
    )


def _dynamixel(_host: str, _ready: list[float]) -> FakeController:
    from hardware.fake_dynamixel import FakeDynamixel, FakeDynamixelBus

    bus = FakeDynamixelBus({number: FakeDynamixel() for number in range(11, 16)})

    def overheat() -> None:
        bus.servos[13].hardware_error = 0x04

    return FakeController(
        bus.device, target=lambda: (bus.servos[11].goal - 2048) * ANGLE, fail=overheat
    )


def _ur(host: str, ready: list[float]) -> FakeController:
    from hardware.fake_ur_controller import FakeUrController

    fake = FakeUrController(host=host)
    fake.arm.q = ready
    targets = fake.arm.targets

    def protective_stop() -> None:
        fake.safety = 3

    return FakeController(
        host, fake.settings, lambda: targets[-1][0] if targets else None, fail=protective_stop
    )


def _xarm(host: str, ready: list[float]) -> FakeController:
    from hardware.fake_xarm import FakeXArm

    fake = FakeXArm(host=host)
    fake.q[: len(ready)] = ready
    targets = fake.targets
    return FakeController(
        host,
        {"port": fake.port},
        lambda: targets[-1][1][0] if targets else None,
        fail=lambda: fake.fail(31),
    )


def _franka(host: str, ready: list[float]) -> FakeController:
    from franky_sim import SimulationServer
    from franky_sim.mujoco_simulator import MujocoSimulator
    from hardware.franky_simulator import run_in_real_time

    def serve() -> None:
        with MujocoSimulator() as sim:
            sim.add_robot(initial_q=tuple(ready))
            with SimulationServer(sim, hostname_candidates=[host]) as server:
                run_in_real_time(server)

    threading.Thread(target=serve, daemon=True).start()
    return FakeController(host)


def _two_wheels(_host: str, _ready: list[float]) -> FakeController:
    from hardware.fake_wheel_board import FakeWheelBoard

    board = FakeWheelBoard()

    def damage(*, on: bool) -> None:
        board.damaged = on

    settings = {
        "left": "left_wheel_joint",
        "right": "right_wheel_joint",
        "counts_per_turn": 1440.0,
    }
    return FakeController(
        board.device, settings, fail=lambda: damage(on=True), mend=lambda: damage(on=False)
    )


_MAKERS: dict[str, Callable[[str, list[float]], FakeController]] = {
    "feetech": _feetech,
    "dynamixel": _dynamixel,
    "ur": _ur,
    "xarm": _xarm,
    "franka": _franka,
    "two_wheels": _two_wheels,
}
