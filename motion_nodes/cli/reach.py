# SPDX-License-Identifier: Apache-2.0
"""``motion reach``: a reachability map as a picture."""

from __future__ import annotations

from typing import Annotated

import typer

from motion_nodes.cli.options import (
    DegreesOption,
    GroupOption,
    RobotArgument,
    RpyOption,
    WorldOption,
)


def reach(
    robot: RobotArgument,
    plane: Annotated[str, typer.Option(help="Plane of the map: xy, xz or yz.")] = "xz",
    offset: Annotated[
        float, typer.Option("--at", help="Position of the plane along the axis across it [m].")
    ] = 0.0,
    step: Annotated[float, typer.Option(help="Grid spacing [m].")] = 0.1,
    directions: Annotated[
        int, typer.Option(help="Number of approach directions (z axis of the tip) per point.")
    ] = 20,
    rpy: RpyOption = None,
    group: GroupOption = None,
    world: WorldOption = None,
    free: Annotated[
        bool, typer.Option("--free", help="Only collision-free configurations.")
    ] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="Output file: .svg.")] = "reach.svg",
    degrees: DegreesOption = False,
) -> None:
    """Plot the fraction of approach directions that an arm reaches in a plane of its base.

    With --rpy, only this orientation of the tip.
    """
    from motion_nodes.api.joint_group import JointGroup
    from motion_nodes.api.reachability import reachability_map
    from motion_nodes.cli.output_files import output_path, write_output
    from motion_nodes.cli.printing import print_line, waiting
    from motion_nodes.cli.values import Subject, checker_of
    from motion_nodes.model.poses import from_xyz_rpy
    from motion_nodes.scene.world import World

    file = output_path(output, (".svg",))
    subject = Subject.of(robot, group, degrees)
    arm, turn, around = JointGroup(subject.robot, subject.group.name), None, None
    if rpy is not None:
        turn = from_xyz_rpy((0.0, 0.0, 0.0), subject.angles(rpy, "--rpy"))[:3, :3]
    if free or world is not None:
        around = World(checker_of(subject, world).scene)
    with waiting("solving inverse kinematics"):
        found = reachability_map(
            arm,
            plane,
            offset,
            step=step,
            directions=directions,
            orientation=turn,
            world=around,
        )
    across = next(axis for axis in "xyz" if axis not in plane)
    title = f"{subject.robot.name} {arm.name}: {arm.tip}, {across} = {offset:g} m"
    write_output(file, found.svg(title))
    reached = found.share > 0.0
    print_line(
        f"{reached.sum()} of {reached.size} points are reached, {found.share[reached].mean():.0%} "
        f"of the orientations there; written to {output}."
        if reached.any()
        else f"None of {reached.size} points is reached; written to {output}."
    )
