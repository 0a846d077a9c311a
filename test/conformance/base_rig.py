# SPDX-License-Identifier: Apache-2.0
"""A base's node under test with wheels that follow it, and clients of its topics."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from ros_client import RosClient
from scripted_wheels import ScriptedWheels
from sensor_msgs.msg import JointState

FREE = {
    f"{axis}.{limit}": math.nan
    for axis in ("linear.x", "angular.z")
    for limit in ("max_velocity", "max_acceleration", "max_deceleration", "max_jerk")
} | {"max_wheel_velocity": math.nan, "max_wheel_acceleration": math.nan}
"""Parameters without limits, as the peers' defaults are."""


class Rig:
    """One base: commands in, wheel references and odometry out."""

    def __init__(
        self, client: RosClient, node: str, joints: Sequence[str], topic: str = "cmd_vel"
    ) -> None:
        self.client, self.node, self.joints = client, node, tuple(joints)
        space = node.rpartition("/")[0]
        self.wheels = ScriptedWheels(client, joints, space)
        self.reference = client.publisher(TwistStamped, f"{node}/{topic}")
        self.odometry = client.listen(Odometry, f"{node}/odom")
        self.states = client.publisher(JointState, f"{space}/joint_states")
        self.followed = True

    def message(self, vx: float, wz: float = 0.0, vy: float = 0.0, *, age: float | None = None):
        """Return a command; ``age``: of its stamp [s], None for a stamp of 0."""
        message = TwistStamped()
        message.twist = twist(vx, wz, vy)
        if age is not None:
            now = self.client.node.get_clock().now().nanoseconds - round(1e9 * age)
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(now, 1_000_000_000)
        return message

    def send(self, *values: float, age: float | None = None, **more: float) -> None:
        self.reference.publish(self.message(*values, age=age, **more))

    @property
    def told(self) -> dict[str, tuple[float, float]]:
        """Commanded position and velocity of each joint."""
        newest = self.wheels.commands.newest
        if newest is None:
            return {}
        positions = list(newest.position) or [math.nan] * len(newest.name)
        return {
            name: (q, v) for name, q, v in zip(newest.name, positions, newest.velocity, strict=True)
        }

    def speeds(self, *joints: str) -> list[float]:
        """Return commanded velocities; by default of the joints that have one."""
        found = [self.told[joint][1] for joint in joints or self.joints]
        return found if joints else [speed for speed in found if not math.isnan(speed)]

    def until(self, condition: Any, what: str, *sends: Any, rate: float = 50.0) -> Any:
        """Move the wheels and send until a condition is true."""
        return self.wheels.until(condition, what, *sends, rate=rate)

    def until_speeds(
        self, expected: Sequence[float], *sends: Any, joints: Sequence[str] = (), tol: float = 1e-6
    ) -> None:
        def reached() -> bool:
            return bool(self.told) and np.allclose(self.speeds(*joints), expected, 0.0, tol)

        self.until(reached, f"the speeds {np.round(expected, 3).tolist()}", *sends)

    def stop(self) -> None:
        self.wheels.commands.clear()
        self.until(lambda: self.told and not any(self.speeds()), "rest", lambda: self.send(0.0))

    def rest(self) -> None:
        """Wait for zero commands without sending any."""
        self.wheels.commands.clear()
        self.until(lambda: self.told and not any(self.speeds()), "rest without a command")

    def set(self, **values: Any) -> None:
        """Set parameters; two underscores stand for a dot."""
        assert self.client.set_parameters(self.node, **values).successful

    @property
    def pose(self) -> tuple[float, float, float]:
        p = self.odometry.newest.pose.pose
        return p.position.x, p.position.y, 2.0 * math.atan2(p.orientation.z, p.orientation.w)

    def place(self, pose: Sequence[float], what: str = "the pose", tol: float = 1e-6) -> None:
        """Wait until odometry is at a pose."""

        def there() -> bool:
            if self.odometry.newest is None:
                return False
            d = np.subtract(self.pose, pose)
            d[2] = math.remainder(d[2], math.tau)
            return bool(np.abs(d).max() < tol)

        self.odometry.clear()
        self.until(there, f"{what} {np.round(pose, 4).tolist()}")

    def measure(self, angles: Sequence[float], speeds: Sequence[float] | None = None) -> None:
        """Publish one state of the wheels."""
        message = JointState(name=list(self.joints), position=[float(a) for a in angles])
        if speeds is not None:
            message.velocity = [float(v) for v in speeds]
        message.header.stamp = self.client.node.get_clock().now().to_msg()
        self.states.publish(message)


def twist(vx: float, wz: float = 0.0, vy: float = 0.0) -> Twist:
    message = Twist()
    message.linear.x, message.linear.y, message.angular.z = float(vx), float(vy), float(wz)
    return message


def write_base(folder: Path, kind: str, base: dict[str, Any], wheels: dict[str, Any]) -> Path:
    """Write a robot with wheels on one body.

    Args:
        folder: destination; its name is the robot's.
        kind: of robot.yaml.
        base: block ``base``, without limits.
        wheels: pose and axis of each joint: ``(xyz, axis)`` as text.
    """
    folder.mkdir(parents=True, exist_ok=True)
    body = (
        '<inertial><mass value="1"/>'
        '<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>'
    )
    links = [f'<link name="base_link">{body}</link>']
    links += [f'<link name="{name}_link">{body}</link>' for name in wheels]
    joints = [
        f'<joint name="{name}" type="continuous"><parent link="base_link"/>'
        f'<child link="{name}_link"/><origin xyz="{xyz}"/><axis xyz="{axis}"/>'
        '<limit velocity="1000" effort="5"/></joint>'
        for name, (xyz, axis) in wheels.items()
    ]
    (folder / "base.urdf").write_text(f'<robot name="b">{"".join(links + joints)}</robot>')
    limits = {
        "linear": {"x": {"max_velocity": 50.0, "max_acceleration": 100.0}},
        "angular": {"z": {"max_velocity": 50.0, "max_acceleration": 100.0}},
    }
    (folder / "robot.yaml").write_text(yaml.safe_dump({
        "format": 1, "name": folder.name, "kind": kind, "urdf": "base.urdf",
        "frames": {"base": "base_link", "odom": "odom"},
        "base": limits | base,
        "drives": [{"joints": list(wheels), "mode": "velocity", "damping": 0.5}],
        "limits": {"acceleration": dict.fromkeys(wheels, 1000.0)},
        "sources": {"base": "chosen", "drives": "chosen", "limits": "chosen"},
    }))  # fmt: skip
    return folder
