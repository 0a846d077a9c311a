# SPDX-License-Identifier: Apache-2.0
"""A hand to a pose."""

import motion_nodes as mn

arm = mn.load_robot("franka")["arm"]
result = arm.ik(mn.pose(xyz=(0.5, 0.1, 0.4), rpy=(3.14, 0.0, 0.0)), "ready")
assert result.success, result.reason
page = arm.show(result.q)
