# SPDX-License-Identifier: Apache-2.0
"""Valid messages as clients of these robots send them, as a start for mutations."""

import json
import random
from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import Pose, PoseStamped
from moveit_msgs.msg import CollisionObject, Constraints, JointConstraint
from shape_msgs.msg import SolidPrimitive
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.core.robot.robot import Robot


class Templates:
    """Makes a plausible message of a type for one robot."""

    def __init__(self, rng: random.Random, robot: Robot) -> None:
        self._rng = rng
        self._robot = robot
        self._joints = list(robot.arm_joints) or list(robot.joint_names)
        self._home = dict(zip(robot.joint_names, robot.home.tolist(), strict=True))
        self._makers: dict[str, Callable[[Any], None]] = {
            "JointState": self._joint_state,
            "JointTrajectory": lambda m: self._fill_trajectory(m),
            "FollowJointTrajectory_Goal": lambda m: self._fill_trajectory(m.trajectory),
            "ExecuteTrajectory_Goal": lambda m: self._fill_trajectory(
                m.trajectory.joint_trajectory
            ),
            "Float64MultiArray": self._array,
            "PoseStamped": lambda m: self._pose_stamped(m),
            "Twist": self._twist,
            "TwistStamped": lambda m: self._twist(m.twist),
            "AckermannDriveStamped": self._drive,
            "GripperCommand_Goal": lambda m: setattr(m.command, "position", rng.uniform(0, 0.04)),
            "NavigateToPose_Goal": lambda m: self._planar(m.pose),
            "FollowPath_Goal": self._path,
            "GetPositionIK_Request": self._ik,
            "GetPositionFK_Request": lambda m: m.fk_link_names.append("panda_hand"),
            "GetMotionPlan_Request": lambda m: self._plan(m.motion_plan_request),
            "MoveGroup_Goal": self._move,
            "CollisionObject": self._object,
            "AttachedCollisionObject": lambda m: self._object(m.object),
            "PlanningScene": self._scene,
            "ApplyPlanningScene_Request": lambda m: self._scene(m.scene),
            "JointJog": self._jog,
            "String": self._text,
        }

    def make(self, kind: type[Any]) -> Any:
        """Return a plausible message of a type; a default one for unknown types."""
        message = kind()
        maker = self._makers.get(kind.__name__)
        if maker is not None:
            maker(message)
        return message

    def _positions(self, spread: float) -> list[float]:
        return [self._home[name] + self._rng.uniform(-spread, spread) for name in self._joints]

    def _joint_state(self, message: Any) -> None:
        message.name, message.position = list(self._joints), self._positions(0.3)

    def _fill_trajectory(self, message: JointTrajectory) -> None:
        message.joint_names = list(self._joints)
        for i in range(3):
            point = JointTrajectoryPoint(positions=self._positions(0.2))
            point.time_from_start.sec = 2 + 2 * i
            message.points.append(point)

    def _array(self, message: Any) -> None:
        message.data = self._positions(0.2)

    def _pose(self, pose: Pose) -> None:
        rng = self._rng
        pose.position.x, pose.position.y = rng.uniform(0.3, 0.6), rng.uniform(-0.3, 0.3)
        pose.position.z = rng.uniform(0.2, 0.6)
        pose.orientation.x, pose.orientation.w = 1.0, 0.0

    def _pose_stamped(self, message: Any) -> None:
        message.header.frame_id = self._robot.base_frame
        self._pose(message.pose)

    def _planar(self, message: Any) -> None:
        message.header.frame_id = "odom"
        message.pose.position.x = self._rng.uniform(-1, 1)
        message.pose.position.y = self._rng.uniform(-1, 1)

    def _path(self, message: Any) -> None:
        message.path.header.frame_id = "odom"
        for i in range(5):
            stamped = PoseStamped()
            stamped.header.frame_id = "odom"
            stamped.pose.position.x = 0.1 * i
            message.path.poses.append(stamped)

    def _twist(self, message: Any) -> None:
        message.linear.x, message.angular.z = self._rng.uniform(-1, 1), self._rng.uniform(-3, 3)

    def _drive(self, message: Any) -> None:
        message.drive.speed = self._rng.uniform(-2, 2)
        message.drive.steering_angle = self._rng.uniform(-0.5, 0.5)

    def _ik(self, message: Any) -> None:
        request = message.ik_request
        self._pose_stamped(request.pose_stamped)
        request.timeout.nanosec = 20_000_000
        request.avoid_collisions = self._rng.random() < 0.5

    def _plan(self, request: Any) -> None:
        request.allowed_planning_time = 0.2
        goal = Constraints()
        for name, position in zip(self._joints, self._positions(0.5), strict=True):
            goal.joint_constraints.append(JointConstraint(
                joint_name=name, position=position, tolerance_above=0.01, tolerance_below=0.01,
                weight=1.0))  # fmt: skip
        request.goal_constraints.append(goal)

    def _move(self, message: Any) -> None:
        self._plan(message.request)
        message.planning_options.plan_only = self._rng.random() < 0.5

    def _object(self, message: Any) -> None:
        message.id = self._rng.choice(("box", "ball", "thing"))
        message.header.frame_id = self._robot.base_frame
        message.primitives.append(
            SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.1, 0.1, 0.1])
        )
        pose = Pose()
        pose.position.x = self._rng.uniform(0.5, 1.5)
        pose.position.y = self._rng.uniform(-1, 1)
        pose.orientation.w = 1.0
        message.primitive_poses.append(pose)

    def _scene(self, message: Any) -> None:
        message.is_diff = self._rng.random() < 0.8
        message.robot_state.is_diff = True
        item = CollisionObject()
        self._object(item)
        message.world.collision_objects.append(item)

    def _jog(self, message: Any) -> None:
        message.joint_names, message.velocities = self._joints[:1], [0.1]

    def _text(self, message: Any) -> None:
        spec = {"format": 1, "cspace_path": [{"to": self._positions(0.2)}]}
        nested = "a: " + "[" * self._rng.choice((10, 500, 5000))
        message.data = self._rng.choice((json.dumps(spec), "stop", nested, "a: &a [*a]", "{}"))
