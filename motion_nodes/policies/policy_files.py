# SPDX-License-Identifier: Apache-2.0
"""Finds the files of a policy: its network and its description."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motion_nodes.errors import InvalidDescription
from motion_nodes.model.files.yaml_file import read_yaml
from motion_nodes.model.robot import Robot
from motion_nodes.policies.descriptor_file import read_descriptor
from motion_nodes.policies.env_file import breadth_first_joints, read_env
from motion_nodes.policies.network import load_network
from motion_nodes.policies.policy_spec import PolicySpec
from motion_nodes.policies.published import PUBLISHED, SHIPPED, published_files, shipped_network
from motion_nodes.policies.runner import PolicyRunner

NETWORK_ENDINGS = (".onnx", ".pt", ".jit")
DESCRIPTIONS = ("IO_descriptors.yaml", "env.yaml", "params/env.yaml", "../params/env.yaml")
"""File names of descriptions next to a network, in order, after those with its name."""


def load_policy(
    policy: str | Path,
    robot: Robot,
    *,
    description: str | Path | None = None,
    joint_order: Sequence[str] = (),
) -> PolicyRunner:
    """Load a policy for a robot.

    Args:
        policy: network (.onnx, TorchScript .pt), a folder with one, or the name of a published
            policy, such as ``go2_walk``, which is downloaded when it is first used.
        robot: the robot; its joints are those of the runner's inputs and targets, in order.
        description: IO_descriptors.yaml or env.yaml; None: found next to the network.
        joint_order: joints in the order of training, for env.yaml, which does not contain it;
            empty: breadth first.

    Returns:
        The runner.

    Raises:
        InvalidDescription: files that are missing, broken, or do not fit the robot.
        MotionError: a published policy could not be downloaded.
    """
    network_file, found = policy_files(policy, description)
    spec = read_spec(found, robot, joint_order)
    return PolicyRunner(spec, load_network(network_file), robot.joint_names)


def read_spec(file: str | Path, robot: Robot, joint_order: Sequence[str] = ()) -> PolicySpec:
    """Read a description of either format; see :func:`load_policy`.

    Raises:
        InvalidDescription: names the file and what is wrong there.
    """
    data = read_yaml(Path(file), tagged=True)
    if "articulations" in data:
        return read_descriptor(file)
    return read_env(file, joint_order or breadth_first_joints(robot.tree))


def policy_files(policy: str | Path, description: str | Path | None = None) -> tuple[Path, Path]:
    """Return network and description of a policy; arguments as in :func:`load_policy`.

    Raises:
        InvalidDescription: no network or no description was found; lists where.
        MotionError: a published policy could not be downloaded.
    """
    path = Path(policy).expanduser()
    if str(policy) in SHIPPED and not path.exists():
        path = shipped_network(str(policy))
    if str(policy) in PUBLISHED and not path.exists():
        files = published_files(str(policy))
        assert files is not None
        return files[0], Path(description) if description else files[1]
    if path.is_dir():
        networks = sorted(f for ending in NETWORK_ENDINGS for f in path.glob(f"*{ending}"))
        if len(networks) != 1:
            raise InvalidDescription(
                f"{path}: a folder of a policy contains one network ("
                f"{', '.join(NETWORK_ENDINGS)}), this one contains {len(networks)}."
            )
        path = networks[0]
    if not path.is_file():
        raise InvalidDescription(
            f"policy '{policy}' is not a file, a folder or a known policy. Known policies: "
            f"{', '.join((*PUBLISHED, *SHIPPED))}."
        )
    return path, Path(description) if description else _description_beside(path)


def _description_beside(network: Path) -> Path:
    """Return the description of a network."""
    stem = network.stem
    names = (f"{stem}_IO_descriptors.yaml", f"{stem}.yaml", *DESCRIPTIONS)
    for name in names:
        if (network.parent / name).is_file():
            return network.parent / name
    others = sorted(network.parent.glob("*IO_descriptors.yaml"))
    if len(others) == 1:
        return others[0]
    raise InvalidDescription(
        f"{network}: no description next to it; expected one of {', '.join(names)}. Export it with "
        "env.export_io_descriptors=true, or write one (docs/policies.md)."
    )
