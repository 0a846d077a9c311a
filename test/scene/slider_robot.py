# SPDX-License-Identifier: Apache-2.0
"""A robot that slides in a plane, with any collision geometry."""

from dataclasses import replace
from pathlib import Path

import yaml

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot


def slider_robot(folder: Path, geometry: str, radius: float | None = None) -> Robot:
    """Return a robot whose link ``point`` moves along ``x`` and ``y`` from -10 to 10 m.

    Args:
        folder: folder of its files.
        geometry: content of the URDF's <geometry>.
        radius: radius of its collision sphere [m]; None: spheres cover its geometry.
    """
    joints = "".join(
        f'<joint name="{axis}" type="prismatic"><parent link="{parent}"/><child link="{child}"/>'
        f'<axis xyz="{way}"/><limit lower="-10" upper="10" velocity="1" effort="1"/></joint>'
        for axis, parent, child, way in (
            ("x", "plane", "rail", "1 0 0"),
            ("y", "rail", "point", "0 1 0"),
        )
    )
    urdf = (
        '<robot name="slider"><link name="plane"/><link name="rail"/><link name="point"><collision>'
        f"<geometry>{geometry}</geometry></collision></link>{joints}</robot>"
    )
    robot = sliding_robot(folder, urdf, {"x": 0.0, "y": 0.0}, ("plane", "point"))
    return (
        robot if radius is None else replace(robot, spheres={"point": ((0.0, 0.0, 0.0, radius),)})
    )


def sliding_robot(folder: Path, urdf: str, home: dict[str, float], ends: tuple[str, str]) -> Robot:
    """Return the robot of a URDF with sliding joints only.

    Args:
        folder: for its files.
        urdf: text of the URDF.
        home: positions of all joints [m].
        ends: links at the base and at the tip of the group ``point``.
    """
    names, (base, tip) = [*home], ends
    (folder / "slider.urdf").write_text(urdf)
    data = {
        "format": 1,
        "name": "slider",
        "kind": "arm",
        "urdf": "slider.urdf",
        "frames": {"base": base, "tool": tip},
        "groups": {"point": {"joints": names, "base": base, "tip": tip}},
        "limits": {
            "acceleration": dict.fromkeys(names, 2.0),
            "jerk": dict.fromkeys(names, 20.0),
        },
        "named_states": {"home": home},
        "drives": [{"joints": names, "mode": "position", "stiffness": 100.0, "damping": 20.0}],
        "sources": {"limits": "a test", "drives": "a test"},
    }
    (folder / "robot.yaml").write_text(yaml.safe_dump(data))
    return load_robot(str(folder))
