# SPDX-License-Identifier: Apache-2.0
"""Services for planners, their settings and the robot's model, as RViz and MoveIt's clients use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moveit_msgs.msg import MoveItErrorCodes, PlannerInterfaceDescription
from moveit_msgs.srv import GetGroupUrdf, GetPlannerParams, QueryPlannerInterfaces, SetPlannerParams

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.model.meshes import with_absolute_meshes
from motion_nodes.model.urdf.group_urdf import group_urdf
from motion_nodes.planning.industrial.tool_motion import ToolMotion
from motion_nodes.planning.planners import find_planner, planner_names
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.service_threads import ServiceThreads
from motion_nodes.ros.messages.moveit_messages import RequestRejected, set_code
from motion_nodes.ros.messages.pipelines import INDUSTRIAL, PIPELINE

if TYPE_CHECKING:
    from motion_nodes.nodes.rrt_planner import RrtPlannerNode


class PlannerQueries:
    """Serves queries of planners, their parameters and ``get_urdf``."""

    def __init__(self, host: RrtPlannerNode, threads: ServiceThreads) -> None:
        self._host = host
        for kind, name, handler in (
            (QueryPlannerInterfaces, "query_planner_interface", self._query),
            (GetPlannerParams, "get_planner_params", self._get),
            (SetPlannerParams, "set_planner_params", self._set),
            (GetGroupUrdf, "get_urdf", self._urdf),
        ):
            threads.serve(kind, name, handler, qos.SERVICES)

    def _query(self, _request: Any, response: Any) -> Any:
        response.planner_interfaces = [
            PlannerInterfaceDescription(name=name, pipeline_id=name, planner_ids=planners)
            for name, planners in (
                (PIPELINE, list(planner_names())),
                (INDUSTRIAL, [kind.value for kind in ToolMotion]),
            )
        ]
        return response

    def _get(self, request: Any, response: Any) -> Any:
        """Respond with no settings for an unknown planner or group, like MoveIt."""
        try:
            planner, group = self._planner_and_group(request)
            settings = self._host.requests.settings.words(planner, group)
        except MotionError as error:
            self._host.warn("get_planner_params", f"get_planner_params: {error}")
            return response
        response.params.keys, response.params.values = list(settings), list(settings.values())
        response.params.descriptions = [""] * len(settings)
        return response

    def _set(self, request: Any, response: Any) -> Any:
        params = request.params
        try:
            if len(params.keys) != len(params.values):
                raise InvalidConfig(f"{len(params.keys)} keys and {len(params.values)} values")
            planner, group = self._planner_and_group(request)
            values = dict(zip(params.keys, params.values, strict=True))
            self._host.requests.settings.set(planner, group, values, request.replace)
        except MotionError as error:
            self._host.warn("set_planner_params", f"set_planner_params: {error}")
        return response

    def _urdf(self, request: Any, response: Any) -> Any:
        """Respond with the URDF of a group; without a group name, of the whole robot."""
        requests, robot = self._host.requests, self._host.requests.robot
        text = with_absolute_meshes(robot.urdf, robot.directory)
        try:
            if request.group_name:
                group = requests.group(request.group_name)
                ends = [link for link in (group.base, group.tip) if link is not None]
                text = group_urdf(text, robot.tree, group.name, group.joints, ends)
        except RequestRejected as error:
            set_code(response.error_code, error.code, str(error), self._host.get_name())
            return response
        response.urdf_string = text
        set_code(response.error_code, MoveItErrorCodes.SUCCESS, "", self._host.get_name())
        return response

    def _planner_and_group(self, request: Any) -> tuple[str, str]:
        """Return the names of planner and group in a request.

        Raises:
            InvalidConfig: no such planner or group.
        """
        name, note = find_planner(request.planner_config or self._host.params.planner)
        if note:
            raise InvalidConfig(note)
        if not request.group:
            return name, ""
        try:
            return name, self._host.requests.group(request.group).name
        except RequestRejected as error:
            raise InvalidConfig(str(error)) from None
