# SPDX-License-Identifier: Apache-2.0
"""Paths on a map for clients of Nav2's planner server, one after the other in a thread."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import numpy as np
from nav2_msgs.action import ComputePathThroughPoses, ComputePathToPose, SmoothPath
from nav_msgs.msg import OccupancyGrid as GridMessage
from nav_msgs.msg import Path

from motion_nodes.core.navigation.map_planner import (
    METHODS,
    MOST_CELLS,
    GridPlanConfig,
    GridPlanner,
    MapPlanner,
    NoGridPath,
    OccupancyGrid,
    PlannedBase,
    grid_from_file,
    smoothed,
)
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.nodes.navigation.navigation_requests import (
    MAP_FRAME,
    PATH_CODES,
    Codes,
    FrameNotKnown,
)
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.servers import ActionGoal, ActionOutcome, GoalServer
from motion_nodes.ros.messages.planar_messages import (
    frame_of,
    path_message,
    pose2_from,
    poses_from,
    stamped_pose,
)
from motion_nodes.ros.messages.trajectory_messages import fill_seconds
from motion_nodes.ros.parameters import settings_from
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.base_navigator import BaseNavigatorNode

PLANNERS = ("", "GridBased", *METHODS)
"""Values of planner_id; GridBased is Nav2's default name, and means the base's default method."""
SMOOTHERS = ("", "simple_smoother")
"""Values of smoother_id."""


class _Refused(MotionError):
    """A request that cannot be planned, with the name of its error code."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class _Requested:
    """A request, in one frame."""

    frame: str
    planner: MapPlanner
    method: str
    start: Pose2
    goals: tuple[Pose2, ...]


class PathPlanning:
    """Serves ``compute_path_to_pose``, ``compute_path_through_poses`` and ``smooth_path``."""

    def __init__(self, host: BaseNavigatorNode, base: PlannedBase) -> None:
        """Create the servers, and read or subscribe to the map.

        Args:
            host: the navigator.
            base: what paths must respect.

        Raises:
            InvalidDescription: the file of the map cannot be read.
        """
        self._host, self._base = host, base
        params = self._host.params
        self._threads = ThreadPoolExecutor(1, "paths")
        grid = grid_from_file(FilePath(params.map_file)) if params.map_file else None
        self._map: tuple[str, MapPlanner] = (MAP_FRAME, self._planner(grid))
        if params.map_file:
            self._host.tree.update()  # subscribes, so that its frame is known when goals come
        else:
            self._host.listen(GridMessage, "map", qos.LATCHED, self._on_map)
        self._canceled: set[str] = set()
        self._jobs = ExecutorQueue(self._host)
        self._plan_out = self._host.advertise(Path, "unsmoothed_plan")
        self._servers = [
            GoalServer(self._host, self._jobs, kind, name, self._begin, self._cancel)
            for kind, name in (
                (ComputePathToPose, "compute_path_to_pose"),
                (ComputePathThroughPoses, "compute_path_through_poses"),
                (SmoothPath, "smooth_path"),
            )
        ]

    def destroy(self) -> None:
        """Destroy the servers."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for server in self._servers:
            server.abort_all("the navigator is shutting down")
            server.destroy()
        self._jobs.destroy()

    def reconfigure(self, base: PlannedBase) -> None:
        """Apply new parameters to the same map."""
        self._base = base
        frame, planner = self._map
        self._map = frame, self._planner(planner.grid)

    def set_map(self, frame: str, grid: OccupancyGrid) -> None:
        """Replace the map, from any thread; goals under way keep their paths."""
        self._map = frame, self._planner(grid)
        self._jobs.submit(self._host.tree.update)  # subscribes to the transforms of its frame

    @property
    def planner(self) -> tuple[str, GridPlanner | None]:
        """Frame of the map, and the planner of its cells; None without a map."""
        frame, planner = self._map
        return frame, planner.by_cells if planner.grid is not None else None

    @property
    def has_map(self) -> bool:
        """Whether goals are planned on a map."""
        return self._map[1].grid is not None and bool(self._host.params.use_map)

    def around(self, frame: str, direct: PlanarPath) -> tuple[str, PlanarPath] | None:
        """Return the way around the obstacles of the map, and its frame.

        Args:
            frame: frame of the direct path.
            direct: path that the base would drive without a map.

        Returns:
            None: the direct path is free, there is no map, or its frame is unknown.

        Raises:
            NoGridPath: there is no way around.
            FrameNotKnown: the frame is unknown, and transforms are received since just now.
        """
        known, planner = self._map
        if not self.has_map:
            return None
        self._host.tree.update()
        try:
            X_MF = self._host.frame_pose(known).compose(self._host.frame_pose(frame).inverse())
        except MotionError as error:
            if self._host.tree.young:
                raise FrameNotKnown(Codes.TF_ERROR, str(error)) from None
            self._host.warn("map", f"goals do not consider the map: {error}")
            return None
        rows = [tuple(X_MF.compose(Pose2(*row))) for row in direct.resampled().poses().tolist()]
        if not planner.collides(np.array(rows)):
            return None
        try:
            path = planner.plan(Pose2(*rows[0]), Pose2(*rows[-1]))
        except NoGridPath as error:
            if error.why != "start_occupied":
                raise
            self._host.warn("map", f"the goal does not consider the map: {error}")
            return None
        return known, PlanarPath(path)

    # ---- inside

    def _planner(self, grid: OccupancyGrid | None) -> MapPlanner:
        config = settings_from(self._host.params, GridPlanConfig, "planner_")
        planner = MapPlanner(grid, self._base, config)
        self._threads.submit(planner.prepare)
        return planner

    def _on_map(self, message: Any) -> None:
        info = message.info
        try:
            if not 0 < info.width * info.height <= MOST_CELLS or (
                len(message.data) != info.width * info.height
            ):
                raise InvalidCommand(
                    f"{info.width} x {info.height} cells with {len(message.data)} values; at most "
                    f"{MOST_CELLS} are read"
                )
            cells = np.array(message.data, np.int8).reshape(info.height, info.width)
            origin = pose2_from(info.origin, "the origin of the map")
            grid = OccupancyGrid(cells, float(info.resolution), origin)
            frame = frame_of(message, "the map")
        except MotionError as error:
            self._host.warn("map", f"map ignored: {error}")
            return
        self.set_map(frame, grid)

    def _begin(self, goal: ActionGoal) -> None:
        """Convert the poses, in the executor, and plan in the thread."""
        begin = time.monotonic()
        try:
            if isinstance(goal.request, SmoothPath.Goal):
                self._smooth(goal, begin)
                return
            plan = self._requested(goal)
        except _Refused as error:
            self._end(goal, begin, error.code, str(error))
            return
        self._threads.submit(self._run, goal, plan, begin)

    def _smooth(self, goal: ActionGoal, begin: float) -> None:
        """Round the corners of a path."""
        request = goal.request
        if request.smoother_id not in SMOOTHERS:
            raise _Refused(
                "INVALID_SMOOTHER",
                f"smoother_id is '{request.smoother_id}'; it must be empty, or one of "
                f"{', '.join(SMOOTHERS[1:])}",
            )
        try:
            frame, poses = poses_from(request.path)
            rows = smoothed(PlanarPath(np.array(poses)).poses())
        except MotionError as error:
            raise _Refused("INVALID_PATH", str(error)) from None
        known, planner = self._map
        if request.check_for_collisions and frame == known and planner.collides(rows):
            raise _Refused("SMOOTHED_PATH_IN_COLLISION", "the smoothed path touches an obstacle")
        goal.result.path, goal.result.was_completed = self._message(frame, rows), True
        self._end(goal, begin, "NONE", "")

    def _cancel(self, goal: ActionGoal) -> bool:
        self._canceled.add(goal.label)
        return True

    def _run(self, goal: ActionGoal, plan: _Requested, begin: float) -> None:
        rows: list[Array] = []
        try:
            for start, end in itertools.pairwise((plan.start, *plan.goals)):
                if goal.label in self._canceled:
                    break
                at = Pose2(*rows[-1][-1].tolist()) if rows else start
                rows.append(plan.planner.plan(at, end, plan.method))
            if rows:
                path = np.concatenate([rows[0], *(part[1:] for part in rows[1:])])
                goal.result.path = self._message(plan.frame, path)
                self._plan_out.publish(goal.result.path)
        except NoGridPath as error:
            self._end(goal, begin, PATH_CODES[error.why], str(error))
        except Exception as error:
            self._end(goal, begin, "UNKNOWN", f"{type(error).__name__}: {error}")
        else:
            self._end(goal, begin, "NONE", "")

    def _end(self, goal: ActionGoal, begin: float, code: str, text: str) -> None:
        """Send the result."""
        codes, result = goal.kind.Result, goal.result
        result.error_code, result.error_msg = getattr(codes, code, codes.UNKNOWN), text
        smoothing = isinstance(goal.request, SmoothPath.Goal)
        taken = result.smoothing_duration if smoothing else result.planning_time
        fill_seconds(taken, time.monotonic() - begin)
        outcome = ActionOutcome.ABORTED if text else ActionOutcome.SUCCEEDED
        if goal.label in self._canceled:
            self._canceled.discard(goal.label)
            outcome = ActionOutcome.CANCELED
        if text:
            self._host.get_logger().info(f"no path: {text}")
        goal.finish(outcome, result)

    def _requested(self, goal: ActionGoal) -> _Requested:
        """Return start and goals of a request in the frame of the plan."""
        request = goal.request
        if request.planner_id not in PLANNERS:
            raise _Refused(
                "INVALID_PLANNER",
                f"planner_id is '{request.planner_id}'; it must be empty, or one of "
                f"{', '.join(PLANNERS[1:])}",
            )
        several = isinstance(request, ComputePathThroughPoses.Goal)
        goals = list(request.goals) if several else [request.goal]
        if not goals:
            raise _Refused("NO_VIAPOINTS_GIVEN", "goals is empty")
        self._host.tree.update()
        frame, planner = self._map
        if planner.grid is None:
            frame = self._frame_of(goals[0])
        if frame == self._host.base_frame:
            frame = self._host.odom_frame
        start = self._start(request, frame)
        there = tuple(self._in_frame(stamped, frame) for stamped in goals)
        method = request.planner_id if request.planner_id in METHODS else ""
        return _Requested(frame, planner, method, start, there)

    def _start(self, request: Any, frame: str) -> Pose2:
        if request.use_start:
            return self._in_frame(request.start, frame)
        try:
            return self._host.frame_pose(frame).compose(self._host.base_pose())
        except MotionError as error:
            raise _Refused("TF_ERROR", str(error)) from None

    def _frame_of(self, stamped: Any) -> str:
        try:
            return str(frame_of(stamped, "the goal"))
        except InvalidCommand as error:
            raise _Refused("TF_ERROR", str(error)) from None

    def _in_frame(self, stamped: Any, frame: str) -> Pose2:
        """Return a pose in the frame of the plan."""
        try:
            given, pose = self._frame_of(stamped), pose2_from(stamped.pose)
            if given == frame:
                return pose
            if given == self._host.base_frame:
                X_FG = self._host.frame_pose(frame).compose(self._host.base_pose())
            else:
                X_FG = self._host.frame_pose(frame).compose(self._host.frame_pose(given).inverse())
            return X_FG.compose(pose)
        except MotionError as error:
            raise _Refused(getattr(error, "code", "TF_ERROR"), str(error)) from None

    def _message(self, frame: str, rows: Array) -> Path:
        now = self._host.now_ns()
        try:
            message: Path = path_message(PlanarPath(rows), frame, now)
        except InvalidCommand:  # the goal is where the base is
            message = Path(poses=[stamped_pose(Pose2(*rows[-1].tolist()), frame, now)])
            message.header = message.poses[0].header
        return message
