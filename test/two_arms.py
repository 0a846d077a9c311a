# SPDX-License-Identifier: Apache-2.0
"""A robot with two arms: two Frankas side by side on one stand, and a group of both arms."""

import re
from pathlib import Path
from typing import Any

import yaml

from motion_nodes.core.robot.loader import load_robot

SIDES = {"left": 0.3, "right": -0.3}
"""Position of each arm's base along y [m]."""
TIPS = ("left_panda_hand_tcp", "right_panda_hand_tcp")


def write_two_arms(folder: Path) -> Path:
    """Write the robot's folder; return its path."""
    franka = load_robot("franka")
    body = re.search(r"<robot[^>]*>(.*)</robot>", franka.urdf, re.DOTALL)
    assert body is not None
    description = yaml.safe_load((franka.directory / "robot.yaml").read_text())
    spheres = yaml.safe_load((franka.directory / "spheres.yaml").read_text())
    parts, merged, covered = ['<robot name="two_arms"><link name="stand"/>'], {}, {}
    for side, y in SIDES.items():
        text = _renamed(body[1], side)
        parts.append(text.replace(f"meshes/{side}_", f"{franka.directory.as_uri()}/meshes/"))
        parts.append(
            f'<joint name="{side}_mount" type="fixed"><parent link="stand"/>'
            f'<child link="{side}_panda_link0"/><origin xyz="0 {y} 0"/></joint>'
        )
        arm = yaml.safe_load(_renamed(yaml.safe_dump(description), side))
        arm["groups"] = {f"{side}_{n}": g | {"aliases": []} for n, g in arm["groups"].items()}
        merged = _merged(merged, arm)
        covered |= yaml.safe_load(_renamed(yaml.safe_dump(spheres), side))
    urdf = re.sub(
        r"<material name=\"\w+\"><color[^>]*/></material>", "", "".join([*parts, "</robot>"])
    )
    (folder / "two_arms.urdf").write_text(urdf)
    joints = [name for side in SIDES for name in merged["groups"][f"{side}_arm"]["joints"]]
    merged["groups"]["both_arms"] = {"joints": joints}
    merged |= {"name": "two_arms", "urdf": "two_arms.urdf", "frames": {"base": "stand"}}
    (folder / "robot.yaml").write_text(yaml.safe_dump(merged))
    (folder / "spheres.yaml").write_text(yaml.safe_dump(covered))
    return folder


def _renamed(text: str, side: str) -> str:
    return text.replace("panda_", f"{side}_panda_")


def _merged(a: Any, b: Any) -> Any:
    """Return the union of mappings and the concatenation of lists; else the second value."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a | {key: _merged(a[key], x) if key in a else x for key, x in b.items()}
    return a + b if isinstance(a, list) and isinstance(b, list) and a != b else b
