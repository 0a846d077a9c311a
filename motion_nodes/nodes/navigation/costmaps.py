# SPDX-License-Identifier: Apache-2.0
"""Nav2's services of costmaps and of the map: views of what the navigator knows.

The global costmap is the map, without one the local costmap; the local costmap is the obstacle
memory around the base. A thread answers, since costs of a large map take a while.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from nav2_msgs.srv import (
    ClearCostmapAroundPose,
    ClearCostmapAroundRobot,
    ClearCostmapExceptRegion,
    ClearEntireCostmap,
    GetCostmap,
    IsPathValid,
    LoadMap,
)

from motion_nodes.core.navigation.costmap import cell_costs, grid_around, invalid_poses
from motion_nodes.core.navigation.map_planner import (
    GridPlanConfig,
    GridPlanner,
    grid_from_file,
)
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.nodes.navigation.navigation_requests import MAP_FRAME
from motion_nodes.nodes.navigation.navigator_params import outline_of
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.servers import ServiceThreads
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.planar_messages import fill_pose, frame_of, pose2_from, poses_from
from motion_nodes.ros.parameters import settings_from

if TYPE_CHECKING:
    from motion_nodes.nodes.base_navigator import BaseNavigatorNode
    from motion_nodes.nodes.navigation.obstacle_inputs import ObstacleInputs
    from motion_nodes.nodes.navigation.path_planning import PathPlanning

WINDOW, CELL = 6.0, 0.05
"""Edges of the local costmap and of its cells [m]."""


class CostmapServices:
    """Serves ``global_costmap/…``, ``local_costmap/…``, ``load_map`` and ``is_path_valid``."""

    def __init__(
        self, host: BaseNavigatorNode, paths: PathPlanning, obstacles: ObstacleInputs
    ) -> None:
        """Create the services.

        Args:
            host: the navigator.
            paths: its map.
            obstacles: its obstacle memory.
        """
        self._host, self._paths, self._obstacles = host, paths, obstacles
        self._threads = ServiceThreads(host, 1)
        local, everywhere = "local_costmap", "clear_entirely"
        for kind, name, handler in (
            (ClearEntireCostmap, f"global_costmap/{everywhere}_global_costmap", self._clear),
            (ClearEntireCostmap, f"{local}/{everywhere}_{local}", self._clear),
            (ClearCostmapExceptRegion, f"{local}/clear_costmap_except_region", self._keep_near),
            (ClearCostmapAroundRobot, f"{local}/clear_costmap_around_robot", self._clear_near),
            (ClearCostmapAroundPose, f"{local}/clear_costmap_around_pose", self._clear_at),
            (GetCostmap, "global_costmap/get_costmap", self._global),
            (GetCostmap, f"{local}/get_costmap", self._local),
            (LoadMap, "map_server/load_map", self._load),
            (IsPathValid, "is_path_valid", self._check),
        ):
            self._threads.serve(kind, name, handler, qos.SERVICES)
        self._threads.start()

    def destroy(self) -> None:
        """Destroy the services."""
        self._threads.destroy()

    # ---- in the thread

    def _clear(self, _request: Any, response: Any) -> Any:
        self._host.in_loop(lambda: self._obstacles.memory.clear())
        return response

    def _keep_near(self, request: Any, response: Any) -> Any:
        return self._cleared(response, request.reset_distance, self._host.base_pose, inside=False)

    def _clear_near(self, request: Any, response: Any) -> Any:
        return self._cleared(response, request.reset_distance, self._host.base_pose, inside=True)

    def _clear_at(self, request: Any, response: Any) -> Any:
        def place() -> Pose2:
            X_OF = self._host.frame_pose(frame_of(request.pose, "the pose"), fresh=True).inverse()
            return X_OF.compose(pose2_from(request.pose.pose))

        return self._cleared(response, request.reset_distance, place, inside=True)

    def _cleared(
        self, response: Any, size: float, place: Callable[[], Pose2], *, inside: bool
    ) -> Any:
        """Remove obstacles in or outside of a square; the response cannot tell a refusal."""
        try:
            if not 0.0 <= size < math.inf:
                raise InvalidCommand(f"reset_distance is {size} m; it must be finite and from 0 on")
            centre = place()
            self._host.in_loop(lambda: self._obstacles.memory.remove(centre, size, inside=inside))
        except (MotionError, TimeoutError) as error:
            self._host.warn("costmap", f"obstacles are not cleared: {error}")
        return response

    def _global(self, request: Any, response: Any) -> Any:
        frame, planner = self._paths.planner
        if planner is None:
            return self._local(request, response)
        self._fill(response.map, frame, planner)
        return response

    def _local(self, _request: Any, response: Any) -> Any:
        host = self._host
        points: np.ndarray = host.in_loop(lambda: self._obstacles.memory.points)
        try:
            grid = grid_around(points, host.base_pose(), WINDOW, CELL)
        except MotionError as error:
            host.warn("costmap", f"the local costmap is empty: {error}")
            return response
        config = settings_from(host.params, GridPlanConfig, "planner_")
        radius = float(outline_of(host.params, host.robot).radius)
        self._fill(response.map, host.odom_frame, GridPlanner(grid, radius, config))
        return response

    def _check(self, request: Any, response: Any) -> Any:
        """Return whether the rest of a path is free; a path that cannot be checked is not valid."""
        host = self._host
        try:
            frame, poses = poses_from(request.path)
            points: np.ndarray = host.in_loop(lambda: self._obstacles.memory.points)
            map_frame, planner = self._paths.planner
            if planner is None:
                radius = float(outline_of(host.params, host.robot).radius)
                config = settings_from(host.params, GridPlanConfig, "planner_")
                map_frame, planner = host.odom_frame, GridPlanner(None, radius, config)
            X_MO = host.frame_pose(map_frame, fresh=True)
            X_MF = X_MO.compose(host.frame_pose(frame, fresh=True).inverse())
            seen = [X_MO.compose(Pose2(*point))[:2] for point in points.tolist()]
            invalid = invalid_poses(
                [X_MF.compose(pose) for pose in poses],
                X_MO.compose(host.base_pose()),
                np.reshape(seen, (-1, 2)),
                planner,
            )
        except (MotionError, TimeoutError) as error:
            host.warn("path", f"the path of is_path_valid counts as not valid: {error}")
            return response
        response.is_valid, response.invalid_pose_indices = not invalid, invalid
        return response

    def _fill(self, message: Any, frame: str, planner: GridPlanner) -> None:
        grid, metadata = planner.grid, message.metadata
        assert grid is not None
        set_stamp(message, self._host.now_ns())
        message.header.frame_id = frame
        metadata.update_time = metadata.map_load_time = message.header.stamp
        metadata.layer, metadata.resolution = "master", grid.resolution
        metadata.size_y, metadata.size_x = grid.cells.shape
        fill_pose(metadata.origin, grid.origin)
        message.data = cell_costs(planner).ravel().tobytes()

    def _load(self, request: Any, response: Any) -> Any:
        file = Path(request.map_url.removeprefix("file://"))
        try:
            if not file.is_file():
                response.result = LoadMap.Response.RESULT_MAP_DOES_NOT_EXIST
                raise InvalidCommand(f"there is no file '{file}'")
            response.result = LoadMap.Response.RESULT_INVALID_MAP_DATA
            grid = grid_from_file(file)
        except MotionError as error:
            self._host.warn("map", f"map '{request.map_url}' is not loaded: {error}")
            return response
        self._paths.set_map(MAP_FRAME, grid)
        response.result = LoadMap.Response.RESULT_SUCCESS
        set_stamp(response.map, self._host.now_ns())
        response.map.header.frame_id = MAP_FRAME
        info = response.map.info
        info.resolution, (info.height, info.width) = grid.resolution, grid.cells.shape
        fill_pose(info.origin, grid.origin)
        response.map.data = grid.cells.ravel().tobytes()
        return response
