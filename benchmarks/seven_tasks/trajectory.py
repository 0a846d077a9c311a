# SPDX-License-Identifier: Apache-2.0
"""A timed motion over a wall, within limits of velocity, acceleration and jerk."""

import motion_nodes as mn

arm = mn.load_robot("franka")["arm"]
world = mn.World()
world.add("wall", mn.Box(0.4, 0.05, 0.4), mn.pose(xyz=(0.5, 0.0, 0.2)))
down = {"rpy": (3.14, 0.0, 0.0)}
start = arm.ik(mn.pose(xyz=(0.5, -0.3, 0.2), **down), "ready", world=world)
plan = arm.plan(start.q, mn.pose(xyz=(0.5, 0.3, 0.2), **down), world)
assert plan.success, plan.reason
page = arm.show(plan, world=world)
