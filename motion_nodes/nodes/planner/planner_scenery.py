# SPDX-License-Identifier: Apache-2.0
"""The scenery of a planner's scene, as its parameters describe the cell."""

from __future__ import annotations

from motion_nodes.bases.from_robot import root_height
from motion_nodes.model.loader import load_robot
from motion_nodes.model.placement import parse_placements
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.planner.planner_params import RrtPlannerParams
from motion_nodes.scene.scenery import Scenery, floor_of, joined, neighbours_of


def scenery_for(
    robot: Robot, namespace: str, params: RrtPlannerParams
) -> tuple[Scenery, list[str]]:
    """Return the floor and the fixed parts of other arms, and in words what was left out.

    Args:
        robot: that the planner plans for.
        namespace: of the planner; the robot of this namespace in the cell is its own.
        params: of the planner.

    Raises:
        InvalidConfig: for a cell that cannot be read, or a height that is not finite.
        RobotNotFound: for a robot of the cell that there is not.
    """
    places = {p.namespace: p for p in parse_placements(params.cell)} if params.cell else {}
    own = namespace.strip("/")
    # A wheeled robot stands on the floor, wherever that is.
    height = params.floor_height if robot.base is None else -root_height(robot)
    floor = floor_of(robot, height) if params.floor else Scenery()
    if own not in places:
        return floor, []
    others = {}
    for namespace, place in places.items():
        if namespace != own:
            other = load_robot(place.robot)
            others[namespace or other.name] = other, place
    neighbours, notes = neighbours_of(robot, places[own], others)
    return joined(floor, neighbours), notes
