# SPDX-License-Identifier: Apache-2.0
"""A hand to a pose, free of collisions with the robot and the world."""

import motion_nodes as mn

arm = mn.load_robot("franka")["arm"]
world = mn.World()
world.add("ball", mn.Sphere(0.1), mn.pose(xyz=(0.4, 0.2, 0.3)))
result = arm.ik(mn.pose(xyz=(0.5, 0.0, 0.3), rpy=(3.14, 0.0, 0.0)), "ready", world=world)
assert result.success, result.reason
page = arm.show(result.q, world=world)
