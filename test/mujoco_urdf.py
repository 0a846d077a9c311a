# SPDX-License-Identifier: Apache-2.0
"""A robot's URDF by MuJoCo's importer, as an oracle."""

import mujoco

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Mesh


def imported(robot: Robot) -> mujoco.MjModel:
    """Return the model of a robot's URDF with its collision shapes, without merged links.

    MuJoCo drops the folders of mesh names, so the files are passed by name.
    """
    keep = '<mujoco><compiler fusestatic="false" discardvisual="true"/></mujoco></robot>'
    names = {
        shape.geometry.filename
        for link in robot.tree.links.values()
        for shape in link.collisions
        if isinstance(shape.geometry, Mesh)
    }
    assets = {path.name: path.read_bytes() for path in map(robot.mesh_path, names)}
    return mujoco.MjModel.from_xml_string(robot.urdf.replace("</robot>", keep), assets)
