# SPDX-License-Identifier: Apache-2.0
"""Objects of the simulation over ROS: their true poses, and requests to move them."""

import numpy as np
from geometry_msgs.msg import TransformStamped
from ros_client import RosClient
from visualization_msgs.msg import MarkerArray

from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.ros import qos


class SimulatedObjects:
    """The objects, as reported by the simulation."""

    def __init__(self, client: RosClient) -> None:
        self.client = client
        self.heard = client.listen(MarkerArray, "/mujoco_sim/objects")
        self._moves = client.publisher(TransformStamped, "/mujoco_sim/move_object", qos.REQUESTS)

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        stamp = self.heard.newest.markers[0].header.stamp
        return float(stamp.sec + 1e-9 * stamp.nanosec)

    def pose(self, name: str) -> np.ndarray:
        """Return the pose of an object in the world, shape (4, 4)."""
        pose = next(m.pose for m in self.heard.newest.markers if m.ns == name)
        p, q = pose.position, pose.orientation
        return from_xyz_quat((p.x, p.y, p.z), (q.x, q.y, q.z, q.w))

    def position(self, name: str) -> np.ndarray:
        """Return the position of an object in the world [m]."""
        return self.pose(name)[:3, 3]

    def move(self, name: str, x: float, y: float, z: float, yaw: float = 0.0) -> None:
        """Request a pose of an object."""
        message = TransformStamped(child_frame_id=name)
        at, q = message.transform.translation, message.transform.rotation
        at.x, at.y, at.z = x, y, z
        q.z, q.w = float(np.sin(0.5 * yaw)), float(np.cos(0.5 * yaw))
        self._moves.publish(message)

    def wait_until_at(self, name: str, x: float, y: float, within: float = 60.0) -> None:
        """Wait until an object is within 5 mm of a place."""
        self.client.wait(lambda: np.abs(self.position(name)[:2] - (x, y)).max() < 5e-3,
                         f"moved {name}", within)  # fmt: skip
