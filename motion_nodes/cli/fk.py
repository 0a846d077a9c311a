# SPDX-License-Identifier: Apache-2.0
"""``motion fk``: forward kinematics."""

from __future__ import annotations

from typing import Annotated

import typer

from motion_nodes.cli.options import (
    DegreesOption,
    GroupOption,
    JsonOption,
    RobotArgument,
    frame_words,
    state_words,
)


def fk(
    robot: RobotArgument,
    joints: Annotated[
        str | None,
        typer.Option(
            help="Positions of all joints of the group, or joint=value,...; default: --state."
        ),
    ] = None,
    state: Annotated[
        str, typer.Option(help="Named state of the joints.", autocompletion=state_words)
    ] = "home",
    frame: Annotated[
        list[str] | None,
        typer.Option(
            help="Frame to compute, may be repeated; default: the group's tip.",
            autocompletion=frame_words,
        ),
    ] = None,
    every_frame: Annotated[bool, typer.Option("--all", help="All frames of the robot.")] = False,
    base: Annotated[
        str | None,
        typer.Option(
            help="Reference frame of the poses; default: the robot's base frame.",
            autocompletion=frame_words,
        ),
    ] = None,
    group: GroupOption = None,
    degrees: DegreesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compute the poses of frames (forward kinematics)."""
    from motion_nodes.cli.printing import pose_data, pose_rows, print_json, print_table
    from motion_nodes.cli.values import Subject
    from motion_nodes.model.kinematics import Kinematics

    subject = Subject.of(robot, group, degrees)
    model, chosen = subject.robot, subject.group
    q = model.home.copy()
    what = "--state" if joints is None else "--joints"
    q[chosen.indices] = subject.configuration(
        state if joints is None else joints, what, inside=False
    )
    tip = chosen.tip or model.tool_frame or model.tree.frame_names[-1]
    frames = list(model.tree.frame_names) if every_frame else frame or [tip]
    kinematics = Kinematics(model.tree, base=base or model.base_frame)
    poses = {name: kinematics.pose(q, name) for name in frames}
    if as_json:
        print_json(
            {
                "robot": model.name,
                "base": kinematics.base,
                "joints": dict(zip(model.joint_names, q.tolist(), strict=True)),
                "frames": {name: pose_data(X) for name, X in poses.items()},
            }
        )
        return
    print_table(
        [f"frame in {kinematics.base}", "", "x", "y", "z", "w"],
        [
            (name if k == 0 else "", *row)
            for name, X in poses.items()
            for k, row in enumerate(pose_rows(X, degrees))
        ],
    )
