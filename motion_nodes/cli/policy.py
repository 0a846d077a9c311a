# SPDX-License-Identifier: Apache-2.0
"""``motion policy``: checks of learned policies."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motion_nodes.cli.options import JsonOption

if TYPE_CHECKING:
    from motion_nodes.policies.runner import PolicyRunner

policy = typer.Typer(help="Learned policies.", no_args_is_help=True)

TOLERANCE = 1e-6
"""Difference of actions above which a replay diverges."""


@policy.command()
def check(
    file: Annotated[str, typer.Argument(help="Network, folder or published policy.")],
    robot: Annotated[str, typer.Argument(help="Robot: name, folder or file.")],
    description: Annotated[
        str | None, typer.Option(help="IO_descriptors.yaml or env.yaml; default: next to the file.")
    ] = None,
    joint_order: Annotated[
        str,
        typer.Option(help="Joints in the order of training, separated by commas, for env.yaml."),
    ] = "",
    replay: Annotated[
        Path | None,
        typer.Option(help="Recording (.npz) with observations (k, n) and actions (k, m)."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="SVG file of the divergence of the replay.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check the compatibility of a policy with a robot. Exit code 1: errors found.

    Checks joint order, missing joints, inputs and their frames, inputs without effect, scales in
    degrees, gains and rates. With a recording, the actions of the network are compared with the
    recorded ones.
    """
    from motion_nodes.cli.printing import print_json
    from motion_nodes.policies.policy_check import check_policy
    from motion_nodes.policies.policy_files import load_policy
    from motion_nodes.robot_setup.derived_robot import load_description

    described = load_description(robot)
    order = [name.strip() for name in joint_order.split(",") if name.strip()]
    runner = load_policy(file, described, description=description, joint_order=order)
    findings = check_policy(runner, described)
    result = _replayed(runner, replay, plot) if replay is not None else {}
    if json:
        print_json({"findings": [dataclasses.asdict(f) for f in findings], **result})
    else:
        for finding in findings:
            print(f"{finding.level:8} {finding.topic}: {finding.text}")
        for name, value in result.items():
            print(f"{'replay':8} {name}: {value}")
    failed = any(f.level == "error" for f in findings) or result.get("diverges", False)
    raise typer.Exit(1 if failed else 0)


def _replayed(runner: PolicyRunner, recording: Path, plot: Path | None) -> dict[str, object]:
    """Return figures of a replay, and write its plot."""
    import zipfile

    import numpy as np

    from motion_nodes.cli.output_files import write_output
    from motion_nodes.errors import InvalidCommand
    from motion_nodes.policies.policy_check import replay_divergence
    from motion_nodes.policies.replay_plot import divergence_svg

    try:
        with np.load(recording, allow_pickle=False) as data:
            observations, actions = data["observations"], data["actions"]
    # An .npy file is an array, which is no context manager (TypeError).
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise InvalidCommand(
            f"{recording}: is not a recording (.npz with observations and actions): {error}"
        ) from None
    differences = np.abs(replay_divergence(runner, observations, actions))
    largest = differences.max(axis=1)
    beyond = np.flatnonzero(~(largest <= TOLERANCE))  # NaN diverges, too
    if plot is not None:
        write_output(plot, divergence_svg(differences, runner.period))
    return {
        "steps": len(largest),
        "max difference of actions": float(largest.max()),
        "action with the largest": int(differences.max(axis=0).argmax()),
        "first step that differs": int(beyond[0]) if beyond.size else None,
        "diverges": bool(beyond.size),
    }
