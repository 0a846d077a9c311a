# SPDX-License-Identifier: Apache-2.0
"""~/recover: leads an arm out of a shallow collision, or back inside joint limits, slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes
from std_srvs.srv import Trigger

from motion_nodes.model.robot import Group
from motion_nodes.nodes.planner.plan_execution import ExecutedMotion
from motion_nodes.nodes.planner.planner_host import PlannerHost
from motion_nodes.planning.recovered_plan import recovery_trajectory
from motion_nodes.planning.recovery import RecoverySettings, check_recovery, recover
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.service_threads import ServiceThreads
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.messages.plan_messages import trajectory_message
from motion_nodes.scene.checker import CollisionChecker

Codes = MoveItErrorCodes


class RecoverService:
    """Serves ~/recover; answers when the motion has ended."""

    def __init__(self, host: PlannerHost, threads: ServiceThreads) -> None:
        self._host = host
        threads.serve(Trigger, "~/recover", self._recover, qos.ACTION_REQUESTS)

    def _recover(self, _request: Any, response: Any) -> Any:
        node = self._host.node
        try:
            if not node.active:
                raise RequestRejected(
                    Codes.FAILURE, f"{node.get_name()} is {node.state_label}, not active"
                )
            self._host.requests.await_warm(lambda: not node.active)
            response.message = self._recovered()
            response.success = True
        except RequestRejected as refusal:
            response.success, response.message = False, str(refusal)
        node.get_logger().info(f"recover: {response.message}")
        return response

    def _recovered(self) -> str:
        """Recover each chain of joints that is not valid; return what was done.

        Raises:
            RequestRejected: it could not be done, and why.
        """
        groups = [g for g in self._host.requests.robot.groups.values() if g.tip is not None]
        done = [text for group in groups if (text := self._group(group))]
        return "; ".join(done) or "collision-free and within limits: nothing to do"

    def _group(self, group: Group) -> str:
        """Recover one chain of joints; return what was done, empty where nothing was wrong."""
        checker, q = self._checker(group)
        if checker.limits.within(q) and checker.exact.is_free(q):
            return ""
        execution = self._host.execution
        motion = execution.enter("recovery")
        try:
            execution.claim(motion, group.joints)
            execution.settle(motion)
            return self._move(group, motion)
        finally:
            execution.leave(motion)

    def _move(self, group: Group, motion: ExecutedMotion) -> str:
        settings = settings_from(self._host.params, RecoverySettings, "recovery_")
        checker, q = self._checker(group)
        out = recover(checker, q, settings, cancelled=lambda: motion.stopped is not None)
        motion.go_on()
        if not out.success:
            raise RequestRejected(Codes.START_STATE_IN_COLLISION, f"no recovery: {out.reason}")
        if not out.needed:
            return ""
        trajectory = recovery_trajectory(checker, out, settings)
        refused = check_recovery(checker, trajectory.positions)
        if refused:
            raise RequestRejected(Codes.INVALID_MOTION_PLAN, f"no recovery: {refused}")
        message = trajectory_message(trajectory, self._host.requests.robot.base_frame)
        ending = self._host.execution.follow(motion, message.joint_trajectory)
        if ending.code != Codes.SUCCESS:
            raise RequestRejected(ending.code, f"the recovery was not completed: {ending.text}")
        moved = float(np.abs(out.path[-1] - out.path[0]).max())
        return (
            f"recovered ({out.note}): moved by at most {moved:.3g} rad or m in "
            f"{trajectory.times[-1]:.1f} s"
        )

    def _checker(self, group: Group) -> tuple[CollisionChecker, np.ndarray]:
        requests = self._host.requests
        q = requests.state.fresh()
        return requests.checker(group, requests.scenes.scene, q), q[group.indices]
