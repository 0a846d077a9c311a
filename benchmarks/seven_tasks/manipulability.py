# SPDX-License-Identifier: Apache-2.0
"""A hand to a position with high manipulability."""

import motion_nodes as mn
from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkRequest
from motion_nodes.core.ik.redundancy import Manipulability
from motion_nodes.core.ik.solver import LeastSquaresIk

robot = mn.load_robot("franka")
chain = IkChain.of_group(robot.description, "arm")
target = mn.pose(xyz=(0.5, 0.1, 0.4), rpy=(3.14, 0.0, 0.0))
result = LeastSquaresIk(chain).solve(IkRequest(target, objectives=[Manipulability(chain)]))
assert result.success, result.reason
page = robot["arm"].show(result.q)
