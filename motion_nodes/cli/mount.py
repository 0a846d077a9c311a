# SPDX-License-Identifier: Apache-2.0
"""``motion mount``: create the folder of a mobile manipulator from a base and an arm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from motion_nodes.cli.printing import print_line


def mount(
    base: Annotated[str, typer.Argument(help="Robot with wheels: name, folder or URDF.")],
    arm: Annotated[str, typer.Argument(help="Arm that it carries: name, folder or URDF.")],
    at: Annotated[
        str, typer.Option(help="Position of the arm's root link, X,Y,Z [m].", metavar="X,Y,Z")
    ],
    rpy: Annotated[
        str, typer.Option(help="Its roll, pitch and yaw [rad].", metavar="R,P,Y")
    ] = "0,0,0",
    link: Annotated[
        str | None, typer.Option(help="Link that carries it; default: the base frame.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the robot; default: both names.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder to create; default: ./NAME.", show_default=False)
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Rename an existing folder of the same name.")
    ] = False,
    trial: Annotated[bool, typer.Option(help="Try the robot in simulation.")] = True,
) -> None:
    """Create the folder of a mobile manipulator: an arm mounted on a wheeled base.

    Prints the results of a trial in simulation. Exit code 1: a step of it failed.
    """
    from motion_nodes.cli.values import numbers
    from motion_nodes.robot_setup.mounted_arm import ArmMount, mount_arm
    from motion_nodes.sim.robot_trial import try_robot

    x, y, z = numbers(at, 3, "--at").tolist()
    roll, pitch, yaw = numbers(rpy, 3, "--rpy").tolist()
    place = ArmMount((x, y, z), (roll, pitch, yaw), link)
    robot = mount_arm(base, arm, place, name=name, output=output, force=force)
    print_line(f"written: {robot.directory} (details in README.md)")
    steps = try_robot(robot) if trial else ()
    for step in steps:
        print_line(f"{'passed' if step.passed else 'FAILED'}: {step.name}: {step.text}")
    print_line(f"next: motion up {robot.directory} --tasks")
    if not all(step.passed for step in steps):
        raise typer.Exit(1)
