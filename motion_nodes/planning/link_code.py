# SPDX-License-Identifier: Apache-2.0
"""Generated code of a link's pose and Jacobian over the joints of a checker, for kernels."""

from __future__ import annotations

from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.kinematic_arrays import pack, reroot
from motion_nodes.kernels.robot_codegen import CodeGenerationError, RobotCode
from motion_nodes.scene.checker import CollisionChecker


def pose_and_jacobian(checker: CollisionChecker, link: str) -> int:
    """Return the address of ``both_one(q, pose, jacobian)`` of a link in the robot's base.

    Args:
        checker: its joints are the arguments; all others are fixed at its positions.
        link: the link.

    Raises:
        InvalidConfig: code cannot be generated on this machine.
    """
    robot = checker.robot
    values = zip(robot.joint_names, checker.positions, strict=True)
    above = {joint.name for joint in robot.chain(robot.tree.root, link)}
    fixed = {n: float(x) for n, x in values if n in above and n not in checker.joint_names}
    arrays = pack(robot.tree.packed, checker.joint_names, fixed)
    base = robot.tree.frame_names.index(robot.base_frame)
    if base:
        arrays = reroot(arrays, base)
    try:
        row = arrays.frame_rows[robot.tree.frame_names.index(link)]
        return RobotCode(arrays).address("both_one", row)
    except CodeGenerationError as error:
        raise InvalidConfig(f"the planner needs generated code: {error}") from None
