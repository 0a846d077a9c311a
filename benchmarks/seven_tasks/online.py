# SPDX-License-Identifier: Apache-2.0
"""A hand follows a target online, away from a ball, within joint and velocity limits."""

import numpy as np

import motion_nodes as mn

arm = mn.load_robot("franka")["arm"]
world = mn.World()
world.add("ball", mn.Sphere(0.05), mn.pose(xyz=(0.5, -0.25, 0.45)))
policy = arm.rmpflow(world)
q, qd = arm.state("ready"), np.zeros(7)
for k in range(600):
    q, qd = policy.step(q, qd, [0.5, 0.25 * np.sin(k / 100), 0.45], dt=1 / 60)
assert policy.clearance() > 0.0
page = arm.show(q, world=world)
