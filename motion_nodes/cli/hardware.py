# SPDX-License-Identifier: Apache-2.0
"""``motion hardware``: drivers of real robots; and their options in ``motion up``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from motion_nodes.cli.options import Commands, RobotArgument
from motion_nodes.errors import InvalidConfig, did_you_mean

if TYPE_CHECKING:  # a fifth of the time of `motion --help`
    from motion_nodes.core.robot.placement import Placement

hardware = Commands(help="Drivers of real robots.", no_args_is_help=True)


@hardware.command()
def drivers() -> None:
    """List the drivers."""
    from motion_nodes.extras.hardware.robot_driver import available_drivers

    for name in available_drivers():
        typer.echo(name)


@hardware.command()
def check(
    robot: RobotArgument,
    device: Annotated[
        str, typer.Option("--device", "--port", help="Serial port, host name or address.")
    ] = "",
    driver: Annotated[str, typer.Option(help="Driver; default: that of robot.yaml.")] = "",
    calibration: Annotated[str, typer.Option(help="Calibration file.")] = "",
    move: Annotated[
        bool,
        typer.Option("--move", help="Also show joints while you move them by hand, until Ctrl-C."),
    ] = False,
) -> None:
    """Check a real robot: link, permissions, drives, calibration. Nothing is enabled or moved."""
    from motion_nodes.core.robot.loader import load_description
    from motion_nodes.extras.hardware.robot_driver import check_robot, make_driver, show_motion

    described = load_description(robot)
    made = make_driver(described, driver, device=device, calibration=calibration)
    results = check_robot(made, described.limits)
    for result in results:
        typer.echo(f"{'ok  ' if result.ok else 'FAIL'}  {result.what}: {result.text}")
    good = all(result.ok for result in results)
    if move and results[0].ok:
        show_motion(made, typer.echo)
    made.close()
    raise typer.Exit(0 if good else 1)


def backend_and_driver(word: str, placements: Sequence[Placement]) -> tuple[str, str]:
    """Return the backend and the driver that ``--backend`` names.

    Raises:
        InvalidConfig: neither a backend, a driver, nor the robot that is brought up.
    """
    from motion_nodes.bringup.bringup_config import BACKENDS
    from motion_nodes.extras.hardware.robot_driver import available_drivers

    if word in BACKENDS:
        return word, ""
    if word in available_drivers():
        return "hardware", word
    if any(place.robot == word for place in placements):
        return "hardware", ""
    known = (*BACKENDS, *available_drivers())
    raise InvalidConfig(f"backend '{word}' is not known.{did_you_mean(word, known)}")


def page_and_device(port: str, device: str) -> tuple[int, str]:
    """Return the page's TCP port and the robot's device.

    Args:
        port: value of ``--port``: a number, or a path, which is the device.
        device: value of ``--device``.

    Raises:
        InvalidConfig: it is neither.
    """
    if port.isdecimal() and int(port) < 65536:
        return int(port), device
    if port.startswith("/") and not device:
        return 8080, port
    raise InvalidConfig(
        f"--port '{port}' is neither a TCP port (0 to 65535) nor the path of a device", field="port"
    )
