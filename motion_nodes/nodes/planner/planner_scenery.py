# SPDX-License-Identifier: Apache-2.0
"""Scenery of a planning scene, from the parameters that describe the cell."""

from __future__ import annotations

from motion_nodes.bases.from_robot import root_height
from motion_nodes.model.placement import parse_placements
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.planner.planner_params import RrtPlannerParams
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.scene.scenery import Scenery, floor_of, joined, neighbours_of


def scenery_for(
    robot: Robot, namespace: str, params: RrtPlannerParams
) -> tuple[Scenery, list[str]]:
    """Return the floor and the fixed parts of other arms.

    Args:
        robot: of the planner.
        namespace: of the planner, which identifies its robot in the cell.
        params: of the planner.

    Returns:
        The scenery, and notes on omitted parts.

    Raises:
        InvalidConfig: a cell that cannot be parsed, or a height that is not finite.
        RobotNotFound, InvalidDescription: an unknown robot in the cell, or an invalid file of one.
    """
    places = {p.namespace: p for p in parse_placements(params.cell)} if params.cell else {}
    own = namespace.strip("/")
    # A wheeled robot is always on the floor, at any height in the world.
    height = params.floor_height if robot.base is None else -root_height(robot)
    floor = floor_of(robot, height) if params.floor else Scenery()
    if own not in places:
        return floor, []
    others = {}
    for namespace, place in places.items():
        if namespace != own:
            other = load_description(place.robot)
            others[namespace or other.name] = other, place
    neighbours, notes = neighbours_of(robot, places[own], others)
    return joined(floor, neighbours), notes
