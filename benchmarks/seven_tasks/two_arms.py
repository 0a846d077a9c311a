# SPDX-License-Identifier: Apache-2.0
"""Two hands to two poses."""

import motion_nodes as mn

robot = mn.load_robot("g1")
arms = robot["left_arm+right_arm"]
left, right = arms.tips
poses = {left: mn.pose(xyz=(0.25, 0.2, 0.1)), right: mn.pose(xyz=(0.25, -0.2, 0.1))}
result = arms.ik(poses)
assert result.success, result.reason
page = arms.show(result.q)
