# SPDX-License-Identifier: Apache-2.0
"""A hand to a pose that the base must drive for; a differential base does not slide."""

import motion_nodes as mn

arm = mn.load_robot(mn.mounted_folder("nova_carter", "franka", (0.0, 0.0, 0.422)))["arm"]
now = arm.configuration("ready", base="planar")
hand = mn.FrameTask(arm.tip, now.pose(arm.tip) @ mn.pose(xyz=(1.0, 0.3, 0.1)), gain=0.3)
limits = [mn.ConfigurationLimit(), mn.VelocityLimit()]
for _ in range(100):
    v = mn.solve_step(now, [hand, mn.PostureTask(now)], limits, dt=0.05)
    now = now.integrate(v, 0.05)
assert abs(hand.error(now)).max() < 1e-3
page = arm.show(now.q)
