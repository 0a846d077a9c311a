# SPDX-License-Identifier: Apache-2.0
"""Kinematics service: MoveIt's compute_ik, compute_fk and check_state_validity for one robot.

Services run in request threads, separate from the executor and the loop
(:mod:`motion_nodes.ros.concurrency.servers`). The loop tracks poses on ``~/target_pose``:
it solves IK with the measured joint positions as seed and sends solutions to the joint controller.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import MoveItErrorCodes
from moveit_msgs.srv import GetCartesianPath, GetPositionFK, GetPositionIK, GetStateValidity
from sensor_msgs.msg import JointState

from motion_nodes.core.ik.problem import IkSettings, IkTolerance
from motion_nodes.core.ik.solvers import DEFAULT, solver_names
from motion_nodes.errors import MotionError
from motion_nodes.nodes.kinematics.kinematics_requests import (
    IkBatches,
    IkChains,
    KinematicsRequests,
    SeveralTips,
)
from motion_nodes.nodes.kinematics.solution_checks import StateChecks, all_of
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.servers import ServiceThreads
from motion_nodes.ros.current_state import CurrentStateMonitor, RobotFrames
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader, set_stamp, stamp_ns
from motion_nodes.ros.messages.moveit_messages import (
    RequestRejected,
    answered,
    pose_of,
    require_active,
)
from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.ros.node import FramedParams, RobotNode
from motion_nodes.ros.parameters import param
from motion_nodes.ros.ros_time import command_time
from motion_nodes.ros.scene.scene_follower import SceneFollower

TARGET_TIMEOUT = 1.0
"""Max age of a target pose [s]."""
IDLE_AFTER, IDLE_RATE = 2.0, 5.0
"""Time without a target pose [s], and the rate at which messages are read then [Hz]."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class IkServiceParams(FramedParams):
    """Parameters of the kinematics service, named as in MoveIt's kinematics.yaml."""

    update_rate: float = param(
        50.0, doc="Update rate of ~/target_pose tracking.", unit="Hz", gt=0.0, le=1000.0,
        read_only=True,
    )  # fmt: skip
    kinematics_solver: str = param(DEFAULT, doc="Inverse kinematics solver.", one_of=solver_names())
    kinematics_solver_timeout: float = param(
        0.05, doc="Default solver timeout, for requests that give none.", unit="s", gt=0.0, le=60.0
    )
    kinematics_solver_attempts: int = param(
        100, doc="Max number of initial guesses (restarts) of the solver.", ge=1, le=100_000
    )
    position_tolerance: float = param(
        1e-4, doc="Position tolerance of a solution.", unit="m", gt=0.0, le=1.0
    )
    orientation_tolerance: float = param(
        1e-3, doc="Orientation tolerance of a solution.", unit="rad", gt=0.0, le=3.0
    )
    position_only_ik: bool = param(
        False, doc="Solve for the position only and ignore the orientation."
    )
    random_seed: int = param(
        123456, doc="Seed of the random initial guesses; equal seeds give equal solutions.", ge=0,
        le=2**31 - 1,
    )  # fmt: skip
    avoid_collisions: bool = param(
        True,
        doc="Reject a ~/target_pose whose solutions are in collision with the robot itself or "
        "the planning scene.",
    )
    target_group: str = param(
        "", doc="Planning group moved by ~/target_pose; empty: the only group with a tip."
    )
    peer_defaults: bool = param(
        False,
        doc="Return the poses of the known links of a compute_fk request that names unknown ones, "
        "with INVALID_LINK_NAME, as MoveIt; false: the request is refused as a whole.",
    )
    request_threads: int = param(
        2, doc="Number of requests processed concurrently.", ge=1, le=16, read_only=True
    )


class IkServiceNode(RobotNode[IkServiceParams]):
    """Serves the kinematics of one robot."""

    params_type = IkServiceParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("ik_service", ros_args=ros_args)
        self._threads: ServiceThreads | None = None
        self._frames: RobotFrames | None = None
        self._scene: SceneFollower | None = None

    def configure(self) -> None:
        """Compile kinematics and solvers, create the endpoints."""
        params, robot = self.params, self.robot
        frames = self._frames = RobotFrames.of(self)
        self._settings = settings_of(params)
        states = self.poll_bytes(JointState, "joint_states", qos.STATES)
        reader = JointStateReader(states, robot.joint_names, limits=robot.limits)
        self._state = CurrentStateMonitor(reader)
        scene = self._scene = SceneFollower(self, robot, frames.kinematics, frames)
        checks = StateChecks(robot)
        checks.warm_up()
        self._requests = KinematicsRequests(
            robot,
            frames.kinematics,
            frames,
            self._chains(params),
            lambda: self._settings,
            self._state,
            scene.scene_at,
            checks,
            lambda: scene.note,
            SeveralTips(robot),
        )
        self._batches = IkBatches(robot)
        self._counts = {"solved": 0, "failed": 0}
        self._target = self.poll(PoseStamped, "~/target_pose")
        self._status = self.advertise(DiagnosticStatus, "~/status")
        self._reference = self.advertise(JointState, f"{JOINT_CONTROLLER}/reference")
        threads = self._threads = ServiceThreads(self, params.request_threads)
        for kind, name, handler in (
            (GetPositionIK, "compute_ik", self._compute_ik),
            (GetCartesianPath, "compute_ik_batch", self._compute_ik_batch),
            (GetPositionFK, "compute_fk", self._compute_fk),
            (GetStateValidity, "check_state_validity", self._check_state_validity),
        ):
            threads.serve(kind, name, handler, qos.SERVICES)
        threads.start()

    def release(self) -> None:
        """Destroy the endpoints."""
        for part in (self._threads, self._scene, self._frames):
            if part is not None:
                part.destroy()
        self._threads = self._scene = self._frames = None

    def parameters_changed(self, params: IkServiceParams) -> None:
        """Apply tolerances and timeouts; a new solver may need compilation, in a thread."""
        self._settings = settings_of(params)
        if params.kinematics_solver != self._requests.chains.solver:
            threading.Thread(target=self._change_solver, args=[params], daemon=True).start()

    def tick(self, dt: float) -> None:
        """Update the planning scene and track the newest target pose."""
        assert self._scene is not None
        self._scene.update()
        message = self._target.newest()
        if message is None:
            if self._target.age() > IDLE_AFTER:
                self.idle(IDLE_RATE, (self._target, self._scene.changes))
            return
        now_ns = self.now_ns()
        stamp, warning = command_time(stamp_ns(message) * 1e-9, now_ns * 1e-9, TARGET_TIMEOUT)
        if warning:
            self.warn("target stamp", f"target pose: {warning}")
        if stamp is None:
            self._report(warning or "")
            return
        if self.params.avoid_collisions and not self._requests.checks.compiled:
            self._report("the collision checks are being compiled, once per machine")
            return
        try:
            self._track(message, now_ns)
            self._report("")
        except MotionError as error:
            self.warn("target", f"target pose rejected: {error}")
            self._report(str(error))

    def waiting_for(self) -> str:
        """Return why the robot's state is unknown."""
        return self._state.newest()[1]

    def diagnose(self, report: Report) -> None:
        """Report the solver, request counts and the planning scene."""
        if self._state.newest()[1]:
            report.note("OK", "no joint_states yet; requests must give the whole robot state")
        report.value("solver", self._requests.chains.solver)
        for outcome, count in self._counts.items():
            report.value(f"inverse kinematics {outcome}", count)
        if self._scene is not None:
            self._scene.diagnose(report)
        report.value("age of joint_states [s]", self._state.age)

    def _report(self, fault: str) -> None:
        """Publish whether the newest target pose is followed, or why it is not."""
        status = DiagnosticStatus(name=self.get_name(), hardware_id=self.robot.name)
        status.message = fault or "sent to the joint controller"
        status.level = DiagnosticStatus.WARN if fault else DiagnosticStatus.OK
        self._status.publish(status)

    def _change_solver(self, params: IkServiceParams) -> None:
        """Make a solver in a thread; use it unless the parameter has changed again."""
        try:
            chains = self._chains(params)
        except MotionError as error:
            self.get_logger().error(
                f"cannot use solver {params.kinematics_solver}, keeping "
                f"{self._requests.chains.solver}: {error}"
            )
            return
        if self.configured and self.params.kinematics_solver == chains.solver:
            self._requests = dataclasses.replace(self._requests, chains=chains)

    def _chains(self, params: IkServiceParams) -> IkChains:
        chains = IkChains(self.robot, params.kinematics_solver, settings_of(params))
        chains.warm_up()
        return chains

    def _track(self, message: PoseStamped, now_ns: int) -> None:
        requests = self._requests
        q, fault = self._state.newest()
        if fault:
            raise RequestRejected(MoveItErrorCodes.INVALID_ROBOT_STATE, fault)
        X_FT, note = pose_of(message.pose, "the target")
        if note:
            self.warn("target quaternion", note)
        X_BT = requests.frames.pose(message.header.frame_id, q) @ X_FT
        group = requests.group(self.params.target_group)
        collisions = None
        if self.params.avoid_collisions and self._scene is not None:
            collisions = requests.collision_validity(group, q, self._scene.scene)
        validity = all_of([collisions.check_for] if collisions else [])
        result, names = requests.solve(group, "", X_BT, q, validity=validity)
        self._count(result.success)
        if not result.success:
            contacts = collisions.describe() if collisions else ""
            text = "; ".join(filter(None, (contacts, result.reason)))
            raise RequestRejected(MoveItErrorCodes.NO_IK_SOLUTION, text)
        moved = [(name, value) for name, value in zip(names, result.q.tolist(), strict=True)
                 if name in group.joints]  # fmt: skip
        command = JointState(name=[n for n, _ in moved], position=[value for _, value in moved])
        command.header.frame_id = self.get_name()
        set_stamp(command, now_ns)
        self._reference.publish(command)

    def _compute_ik(self, request: Any, response: Any) -> Any:
        def answer() -> str:
            note = self._requests.inverse(request.ik_request, response)
            header = response.solution.joint_state.header
            header.stamp, header.frame_id = self.get_clock().now().to_msg(), self.robot.base_frame
            return note

        self._count(answered(self, response.error_code, answer))
        return response

    def _compute_ik_batch(self, request: Any, response: Any) -> Any:
        def answer() -> str:
            return self._batches.solve(self._requests, request, response, lambda: not self.active)

        answered(self, response.error_code, answer)
        solved = [bool(p.positions) for p in response.solution.joint_trajectory.points]
        self._counts["solved"] += sum(solved)
        self._counts["failed"] += len(solved) - sum(solved)
        return response

    def _compute_fk(self, request: Any, response: Any) -> Any:
        def answer() -> str:
            stamp, partial = self.get_clock().now().to_msg(), self.params.peer_defaults
            self._requests.forward(request, response, stamp, partial=partial)
            return ""

        answered(self, response.error_code, answer)
        return response

    def _check_state_validity(self, request: Any, response: Any) -> Any:
        try:
            require_active(self)
            self._requests.valid(request, response)
        except RequestRejected as error:
            # The response has no text field.
            self.warn("validity", f"check_state_validity: {error}")
            response.valid = False
        return response

    def _count(self, success: bool) -> None:
        self._counts["solved" if success else "failed"] += 1


def settings_of(params: IkServiceParams) -> IkSettings:
    """Return the solver settings."""
    orientation = np.inf if params.position_only_ik else params.orientation_tolerance
    return IkSettings(
        tolerance=IkTolerance(params.position_tolerance, float(orientation)),
        attempts=params.kinematics_solver_attempts,
        timeout=params.kinematics_solver_timeout,
        random_seed=params.random_seed,
    )
