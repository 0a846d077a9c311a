# SPDX-License-Identifier: Apache-2.0
"""Services of the joint controller: ``~/query_state`` and ``~/reset``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from control_msgs.srv import QueryTrajectoryState
from std_srvs.srv import Trigger

from motion_nodes.ros.loop_services import respond_from_loop
from motion_nodes.ros.messages.trajectory_messages import seconds

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode

INACTIVE = "the controller is not active"


def _beyond(host: ArticulationControllerNode, ahead: float) -> str:
    """Return why no active trajectory determines the reference in a time [s]; empty if one does."""
    active = [run.follower for run in host.runner.trajectories.runs]
    left = [
        (f.goal.trajectory.end_time - f.time) / f.goal.rate for f in active if not f.status.ended
    ]
    if not left:
        return "no trajectory is active"
    if ahead > max(left):
        return f"the requested time is {ahead - max(left):.3f} s after the end of the trajectory"
    return ""


def serve_state_and_reset(host: ArticulationControllerNode, reset: Callable[[], str]) -> None:
    """Offer the services.

    Args:
        host: the controller.
        reset: discards all commands, in the loop; returns the message of success.
    """

    def query(request: Any, response: Any) -> Any:
        """Return the reference at a time: that of active trajectories, else the current one."""
        refusal = host.state_fault() if host.active else INACTIVE
        if refusal is not None:
            response.success, response.message = False, refusal
            return response
        ahead = seconds(request.time) - host.now() if seconds(request.time) else 0.0
        try:
            sample, beyond = host.in_loop(
                lambda: (host.runner.reference_in(ahead), _beyond(host, ahead))
            )
        except TimeoutError as error:
            response.success, response.message = False, str(error)
            return response
        response.message = beyond if host.params.peer_defaults else ""
        response.success = not response.message
        response.name = list(host.runner.controller.joint_names)
        response.position, response.velocity, response.acceleration = (
            values.tolist() for values in sample
        )
        return response

    def discard(_request: Any, response: Any) -> Any:
        """Discard all commands and hold the measured positions."""
        if not host.active:
            response.success, response.message = False, INACTIVE
            return response
        return respond_from_loop(host, response, reset)

    for name in ("~", *host.params.aliases):
        host.serve(QueryTrajectoryState, f"{name}/query_state", query)
    host.serve(Trigger, "~/reset", discard)
