# SPDX-License-Identifier: Apache-2.0
"""Kinematics service: MoveIt's compute_ik, compute_fk and check_state_validity for one robot.

Requests are answered by threads of their own, past the executor and beside the loop (see
:mod:`motion_nodes.ros.concurrency.service_threads`). The loop follows poses sent to
``~/target_pose``: it solves IK from the measured joints and sends the result to the joint
controller.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import MoveItErrorCodes
from moveit_msgs.srv import GetPositionFK, GetPositionIK, GetStateValidity
from sensor_msgs.msg import JointState

from motion_nodes.errors import MotionError
from motion_nodes.ik.problem import IkSettings, IkTolerance
from motion_nodes.ik.solvers import DEFAULT, solver_names
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.nodes.kinematics.ik_chains import IkChains
from motion_nodes.nodes.kinematics.kinematics_requests import KinematicsRequests, Present
from motion_nodes.nodes.planner.solution_checks import all_of
from motion_nodes.nodes.planner.state_checks import StateChecks
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.service_threads import ServiceThreads
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader, set_stamp, stamp_ns
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_of, set_code
from motion_nodes.ros.messages.stamps import command_time
from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.robot_node import FramedParams, RobotNode
from motion_nodes.ros.run import run_node
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.ros.transform_tree import TransformTree
from motion_nodes.ros.transforms import frame_prefix

TARGET_TIMEOUT = 1.0
"""[s] A target pose older than this is refused."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class IkServiceParams(FramedParams):
    """Parameters of the kinematics service; the words are those of MoveIt's kinematics.yaml."""

    update_rate: float = param(
        50.0,
        doc="Rate at which ~/target_pose is followed.",
        unit="Hz",
        gt=0.0,
        le=1000.0,
        read_only=True,
    )
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
        123456,
        doc="Seed of the random initial guesses; equal seeds give equal solutions.",
        ge=0,
        le=2**31 - 1,
    )
    avoid_collisions: bool = param(
        True,
        doc="Reject a ~/target_pose whose solutions are in collision with the robot itself or "
        "the planning scene.",
    )
    target_group: str = param(
        "", doc="Planning group moved by ~/target_pose; empty: the only group with a tip."
    )
    request_threads: int = param(
        2, doc="Number of requests processed concurrently.", ge=1, le=16, read_only=True
    )


class IkServiceNode(RobotNode[IkServiceParams]):
    """Serves kinematics."""

    params_type = IkServiceParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("ik_service", ros_args=ros_args)
        self._threads: ServiceThreads | None = None
        self._frames: TransformTree | None = None
        self._scene: SceneFollower | None = None

    def configure(self) -> None:
        """Compile kinematics and solvers, offer the services."""
        params, robot = self.params, self.robot
        prefix = frame_prefix(self, params.tf_frame_prefix)
        kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
        kinematics.warm_up()
        self._settings = settings_of(params)
        self._state = JointStateReader(
            self.poll(JointState, "joint_states", qos.STATES), robot.joint_names
        )
        self._reading = threading.Lock()
        frames = self._frames = TransformTree(self)
        robot_frames = RobotFrames(kinematics, frames, prefix)
        scene = self._scene = SceneFollower(self, robot, kinematics, robot_frames)
        checks = StateChecks(robot)
        checks.warm_up()
        self._requests = KinematicsRequests(
            robot,
            kinematics,
            robot_frames,
            self._chains(params),
            lambda: self._settings,
            self._present,
            scene.scene_at,
            checks,
            lambda: scene.note,
        )
        self._counts = {"solved": 0, "failed": 0}
        self._target = self.poll(PoseStamped, "~/target_pose")
        self._reference = self.advertise(JointState, f"{JOINT_CONTROLLER}/reference")
        threads = self._threads = ServiceThreads(self, params.request_threads)
        for kind, name, handler in (
            (GetPositionIK, "compute_ik", self._compute_ik),
            (GetPositionFK, "compute_fk", self._compute_fk),
            (GetStateValidity, "check_state_validity", self._check_state_validity),
        ):
            threads.serve(kind, name, handler, qos.ACTION_REQUESTS)
        threads.start()

    def release(self) -> None:
        """Take the services down."""
        if self._threads is not None:
            self._threads.destroy()
            self._threads = None
        if self._scene is not None:
            self._scene.destroy()
            self._scene = None
        if self._frames is not None:
            self._frames.destroy()
            self._frames = None

    def parameters_changed(self, params: IkServiceParams) -> None:
        """Take over tolerances and budgets; prepare another solver, which may be compiled."""
        self._settings = settings_of(params)
        if params.kinematics_solver != self._requests.chains.solver:
            threading.Thread(target=self._change_solver, args=[params], daemon=True).start()

    def tick(self, dt: float) -> None:
        """Follow the scene and the newest target pose."""
        assert self._scene is not None
        self._scene.update()
        message = self._target.newest()
        if message is None:
            return
        now_ns = self.now_ns()
        given, warning = command_time(stamp_ns(message) * 1e-9, now_ns * 1e-9, TARGET_TIMEOUT)
        if warning:
            self.warn("target stamp", f"target pose: {warning}")
        if given is not None:
            try:
                self._follow(message, now_ns)
            except MotionError as refusal:
                self.warn("target", f"target pose refused: {refusal}")

    def lacks(self) -> str:
        """Wait for the robot's first state."""
        return self._present().trouble

    def diagnose(self, report: Report) -> None:
        """Say what was asked for and how it went."""
        if not self._state.received:
            report.note("OK", "requests must bring a whole robot state: no joint_states yet")
        report.value("solver", self._requests.chains.solver)
        for word, count in self._counts.items():
            report.value(f"inverse kinematics {word}", count)
        if self._scene is not None:
            self._scene.diagnose(report)
        report.value("age of joint_states [s]", self._state.age())

    def _change_solver(self, params: IkServiceParams) -> None:
        """Prepare a solver beside the loop, and use it unless another is wanted meanwhile."""
        try:
            chains = self._chains(params)
        except MotionError as error:
            self.get_logger().error(
                f"{params.kinematics_solver} is not used, {self._requests.chains.solver} stays: "
                f"{error}"
            )
            return
        if self.configured and self.params.kinematics_solver == chains.solver:
            self._requests = dataclasses.replace(self._requests, chains=chains)

    def _chains(self, params: IkServiceParams) -> IkChains:
        chains = IkChains(self.robot, params.kinematics_solver, settings_of(params))
        chains.warm_up()
        return chains

    def _present(self) -> Present:
        """Return where the joints are now; any thread may ask."""
        with self._reading:
            self._state.update()
            trouble = "" if self._state.received else self._state.trouble(np.inf)
            return Present(self._state.position.copy(), trouble)

    def _follow(self, message: PoseStamped, now_ns: int) -> None:
        requests = self._requests
        present = self._present()
        if present.trouble:
            raise RequestRejected(MoveItErrorCodes.INVALID_ROBOT_STATE, present.trouble)
        X_FT, note = pose_of(message.pose, "the target")
        if note:
            self.warn("target quaternion", note)
        X_WT = requests.frames.pose(message.header.frame_id, present.q) @ X_FT
        group = requests.group(self.params.target_group)
        collisions = None
        if self.params.avoid_collisions and self._scene is not None:
            collisions = requests.collisions(group, present.q, self._scene.scene)
        judges = [collisions.judge] if collisions else []
        result, names = requests.solve(group, "", X_WT, present.q, validity=all_of(judges))
        self._count(result.success)
        if not result.success:
            words = collisions.words() if collisions else ""
            text = "; ".join(filter(None, (words, result.reason)))
            raise RequestRejected(MoveItErrorCodes.NO_IK_SOLUTION, text)
        moved = [(name, q) for name, q in zip(names, result.q.tolist(), strict=True)
                 if name in group.joints]  # fmt: skip
        command = JointState(name=[name for name, _ in moved], position=[q for _, q in moved])
        command.header.frame_id = self.get_name()
        set_stamp(command, now_ns)
        self._reference.publish(command)

    def _compute_ik(self, request: Any, response: Any) -> Any:
        try:
            self._refuse_inactive()
            note = self._requests.inverse(request.ik_request, response)
        except RequestRejected as refusal:
            self._count(False)
            set_code(response.error_code, refusal.code, str(refusal), self.get_name())
            return response
        self._count(True)
        response.solution.joint_state.header.stamp = self.get_clock().now().to_msg()
        response.solution.joint_state.header.frame_id = self.robot.base_frame
        set_code(response.error_code, MoveItErrorCodes.SUCCESS, note, self.get_name())
        return response

    def _compute_fk(self, request: Any, response: Any) -> Any:
        try:
            self._refuse_inactive()
            self._requests.forward(request, response, self.get_clock().now().to_msg())
        except RequestRejected as refusal:
            set_code(response.error_code, refusal.code, str(refusal), self.get_name())
            return response
        set_code(response.error_code, MoveItErrorCodes.SUCCESS, "", self.get_name())
        return response

    def _check_state_validity(self, request: Any, response: Any) -> Any:
        try:
            self._refuse_inactive()
            self._requests.valid(request, response)
        except RequestRejected as refusal:
            # This answer has no place for words.
            self.warn("validity", f"check_state_validity: {refusal}")
            response.valid = False
        return response

    def _refuse_inactive(self) -> None:
        if not self.active:
            raise RequestRejected(
                MoveItErrorCodes.FAILURE, f"{self.get_name()} is {self.state_label}, not active"
            )

    def _count(self, success: bool) -> None:
        self._counts["solved" if success else "failed"] += 1


def settings_of(params: IkServiceParams) -> IkSettings:
    """Return the core's settings from the parameters."""
    orientation = np.inf if params.position_only_ik else params.orientation_tolerance
    return IkSettings(
        tolerance=IkTolerance(params.position_tolerance, float(orientation)),
        attempts=params.kinematics_solver_attempts,
        timeout=params.kinematics_solver_timeout,
        random_seed=params.random_seed,
    )


def main() -> None:
    """Run the node as a process of its own."""
    run_node(IkServiceNode)
