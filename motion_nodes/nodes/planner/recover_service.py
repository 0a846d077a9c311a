# SPDX-License-Identifier: Apache-2.0
"""Service ~/recover: slow motion out of a shallow collision, or back inside joint limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes
from std_srvs.srv import Trigger

from motion_nodes.errors import MotionError
from motion_nodes.model.robot import Group
from motion_nodes.planning.recovered_plan import recovery_trajectory
from motion_nodes.planning.recovery import RecoverySettings, check_recovery, recover
from motion_nodes.ros import qos
from motion_nodes.ros.clients.trajectory_execution import ExecutedMotion
from motion_nodes.ros.concurrency.service_threads import ServiceThreads
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.messages.moveit_messages import RequestRejected, require_active
from motion_nodes.ros.messages.plan_messages import trajectory_message
from motion_nodes.scene.checker import CollisionChecker

if TYPE_CHECKING:
    from motion_nodes.nodes.rrt_planner import RrtPlannerNode

Codes = MoveItErrorCodes


class RecoverService:
    """Serves ``~/recover``; responds after the motion."""

    def __init__(self, host: RrtPlannerNode, threads: ServiceThreads) -> None:
        self._host = host
        threads.serve(Trigger, "~/recover", self._recover, qos.SERVICES)

    def _recover(self, _request: Any, response: Any) -> Any:
        try:
            require_active(self._host)
            self._host.requests.await_warm(lambda: not self._host.active)
            response.message = self._recover_groups()
            response.success = True
        except MotionError as error:
            response.success, response.message = False, str(error)
        self._host.get_logger().info(f"recover: {response.message}")
        return response

    def _recover_groups(self) -> str:
        """Recover each group with a tip from an invalid state; return a summary.

        Raises:
            RequestRejected: a recovery failed.
        """
        groups = [g for g in self._host.requests.robot.groups.values() if g.tip is not None]
        done = [text for group in groups if (text := self._recover_group(group))]
        return "; ".join(done) or "collision-free and within limits: nothing to do"

    def _recover_group(self, group: Group) -> str:
        """Recover one group; return a summary, empty if its state is valid."""
        checker, q = self._checker(group)
        if checker.limits.within(q) and checker.exact.is_free(q):
            return ""
        execution = self._host.execution
        motion = execution.add("recovery")
        try:
            execution.claim(motion, group.joints)
            execution.settle(motion)
            return self._move(group, motion)
        finally:
            execution.remove(motion)

    def _move(self, group: Group, motion: ExecutedMotion) -> str:
        settings = settings_from(self._host.params, RecoverySettings, "recovery_")
        checker, q = self._checker(group)
        recovery = recover(checker, q, settings, cancelled=lambda: motion.stopped is not None)
        motion.raise_if_stopped()
        if not recovery.success:
            raise RequestRejected(Codes.START_STATE_IN_COLLISION, f"no recovery: {recovery.reason}")
        if not recovery.needed:
            return ""
        trajectory = recovery_trajectory(checker, recovery, settings)
        fault = check_recovery(checker, trajectory.positions)
        if fault:
            raise RequestRejected(Codes.INVALID_MOTION_PLAN, f"no recovery: {fault}")
        message = trajectory_message(trajectory, self._host.requests.robot.base_frame)
        result = self._host.execution.execute(motion, message.joint_trajectory)
        if result.code != Codes.SUCCESS:
            raise RequestRejected(result.code, f"the recovery was not completed: {result.text}")
        moved = float(np.abs(recovery.path[-1] - recovery.path[0]).max())
        return (
            f"recovered ({recovery.note}): moved by at most {moved:.3g} rad or m in "
            f"{trajectory.times[-1]:.1f} s"
        )

    def _checker(self, group: Group) -> tuple[CollisionChecker, np.ndarray]:
        requests = self._host.requests
        q = requests.state.fresh()
        return requests.checker(group, requests.scenes.scene, q), q[group.indices]
