# SPDX-License-Identifier: Apache-2.0
"""True poses of the simulation's free objects, as markers named after them."""

from __future__ import annotations

from typing import Any

from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.model.tree import Box, Mesh, Sphere
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.node import MotionNode
from motion_nodes.sim.mujoco_world import MujocoWorld

FRAME = "world"


class ObjectMarkers:
    """Publishes ``~/objects``."""

    def __init__(self, node: MotionNode[Any], world: MujocoWorld) -> None:
        """Create the publisher and a marker for each object."""
        self._world = world
        self._out = node.advertise(MarkerArray, "~/objects")
        self._message = MarkerArray(markers=[self._marker(name) for name in world.objects])

    def publish(self, nanoseconds: int) -> None:
        """Publish the poses at a time [ns]."""
        for marker in self._message.markers:
            marker.pose = pose_message(self._world.object_pose(marker.ns))
            set_stamp(marker, nanoseconds)
        self._out.publish(self._message)

    def _marker(self, name: str) -> Marker:
        marker, shape = Marker(ns=name), self._world.free_body(name).geometry
        marker.header.frame_id = FRAME
        if isinstance(shape, Mesh):
            marker.type, size = Marker.MESH_RESOURCE, shape.scale
            marker.mesh_resource = f"file://{shape.filename}"
        elif isinstance(shape, Box):
            marker.type, size = Marker.CUBE, shape.size
        elif isinstance(shape, Sphere):
            marker.type, size = Marker.SPHERE, (2.0 * shape.radius,) * 3
        else:
            marker.type = Marker.CYLINDER
            size = (2.0 * shape.radius, 2.0 * shape.radius, shape.length)
        marker.scale.x, marker.scale.y, marker.scale.z = size
        color = self._world.free_body(name).rgba
        marker.color.r, marker.color.g, marker.color.b, marker.color.a = color
        return marker
