# SPDX-License-Identifier: Apache-2.0
"""Base class of all nodes: lifecycle, parameters, a fixed-rate loop, diagnostics.

The fast part of a node is :meth:`MotionNode.tick`, called at ``update_rate`` by a loop in its own
thread: it reads polled subscriptions, computes and publishes. The slow part (services, parameters,
lifecycle transitions) is spun by an executor in a second thread. It changes the core only through
:meth:`MotionNode.in_loop`, so the core needs no locks. Diagnostics are published by a third thread
of the process, never during a transition.

``configure`` loads the robot, creates the core and compiles its kernels; ``activate`` starts the
loop; ``deactivate`` brings the robot to a safe state. With ``autostart`` (default) the node makes
the first two transitions itself, otherwise a lifecycle manager does.

A node brakes its robot within limits before its loop ends. Otherwise deactivation and process exit
would command zero velocity at once: a velocity step, which drives track with their max effort.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter

from motion_nodes.core.control.stop_state import RestTimer
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.ros.concurrency.fault_recovery import FaultRecovery
from motion_nodes.ros.concurrency.loops import ExecutorQueue, LoopQueue, RateLoop
from motion_nodes.ros.concurrency.polled_subscription import MessageWait, PolledSubscription
from motion_nodes.ros.concurrency.repeated_cycles import (
    RepeatedCycles,
    RepeatedInput,
    RepeatedOutput,
    Repetitions,
    control_cycle,
)
from motion_nodes.ros.diagnostics import HealthReporter, Report, report_loop, report_period
from motion_nodes.ros.endpoint_node import ChangeStateService, EndpointNode
from motion_nodes.ros.instance_lock import InstanceLock
from motion_nodes.ros.parameters import ParameterSet, declare_early, declared, param
from motion_nodes.ros.ros_time import Step, StepClock
from motion_nodes.ros.stop_latch import StopLatch

BRAKE_TIMEOUT = 2.0
"""[s] Max wall time of braking."""
LOOP_TIMEOUT = 0.3
"""[s] Max wall time until the loop begins to brake; a blocked loop cannot."""
POLL_PERIOD = 0.005
"""[s] Interval at which the motion is checked."""
REASON = "the controller was deactivated"
"""Reason with which goals end and commands are refused."""
T = TypeVar("T")


def brake(node: MotionNode[Any]) -> None:
    """Bring a node's robot to rest, as a stop does (docs/stopping.md).

    Returns when the references are at rest, or at once where braking is impossible: the loop is
    blocked, ROS time does not advance, or the node fails to brake. It never raises: the halt that
    follows must not be omitted.

    Args:
        node: the node; commands to it are refused from now on.
    """
    if not (node.active and node.in_motion()):
        return
    node.ending = REASON
    try:
        node.in_loop(lambda: node.stopped(REASON), timeout=LOOP_TIMEOUT)
    except Exception as error:
        node.get_logger().error(f"braking failed: {error}")
        return
    deadline = time.monotonic() + BRAKE_TIMEOUT
    while node.active and node.in_motion() and not node.time_stands:
        if time.monotonic() > deadline:
            node.get_logger().warning(f"not at rest after {BRAKE_TIMEOUT:g} s")
            return
        time.sleep(POLL_PERIOD)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeParams:
    """Parameters that every node has."""

    update_rate: float = param(
        50.0, doc="Update rate of the node's loop.", unit="Hz", gt=0.0, le=2000.0, read_only=True
    )


P = TypeVar("P", bound=NodeParams)


class MotionNode(EndpointNode, Generic[P]):
    """A managed node with a loop; nodes override its hooks, of which only two must be."""

    params_type: type[P]
    obeys_stop = False
    """Whether the node keeps a copy of the suite's latched stop (docs/stopping.md)."""
    drives_robot = False
    """Whether the node commands a robot's drives, and so brings it to rest at a stop."""
    repeated_cycle = control_cycle
    """Cycle of :meth:`repeat`."""

    def __init__(self, name: str, *, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured.

        Args:
            name: node name, unless the ROS arguments remap it.
            ros_args: ROS arguments for this node alone; None for those of the process.

        Raises:
            SecondInstance: a node of the same full name runs on this machine.
        """
        self._instance: InstanceLock | None = None
        self.rest = RestTimer()
        """Measures the time from a stop to rest, if the node drives a robot."""
        self.stop_latch: StopLatch | None = None
        """The node's copy of the stop; None if it does not obey one."""
        self.ending = ""
        """Why commands are refused while the loop ends, empty otherwise."""
        super().__init__(name, ros_args=ros_args)
        try:
            self._instance = InstanceLock(self.get_fully_qualified_name())
            self.autostart: bool = declare_early(self, "autostart", True)
            """Whether the node configures and activates itself."""
            period = report_period(self)
        except MotionError:
            self._leave_graph()
            raise
        self.failure: str | None = None
        """Why the last transition failed, as text; None if it succeeded."""
        self.on_crash: Callable[[], None] | None = None
        """Called when the process must exit: out of memory, or SystemExit in the loop."""
        self._parameters_set: ParameterSet[P] | None = None
        self._loop: RateLoop | None = None
        self.step = Step(0.0, 0.0, None)
        """Time of the current cycle, also for jobs of :meth:`in_loop`."""
        self._starting = threading.RLock()
        self._leaving = False
        self._jobs = LoopQueue()
        self._repetition = RepeatedCycles(self.repeated_cycle)
        self._in_transition = threading.RLock()
        self._recovery = FaultRecovery(self, ExecutorQueue(self))
        ChangeStateService(self, self.halt_and_answer)
        if self.obeys_stop:
            self.stop_latch = StopLatch(self, self.rest if self.drives_robot else None)
        self._health = HealthReporter(self, name, period, self._in_transition)

    # ---- hooks, called by this class

    @classmethod
    def handles_images(cls) -> bool:
        """Return whether the node publishes or receives images or point clouds of megabytes."""
        return False

    def prepare(self) -> dict[str, Any]:
        """Return defaults by field name for parameters without a fixed default."""
        return {}

    def check(self, params: P) -> str | None:
        """Validate a candidate parameter set as a whole.

        Returns:
            Why the set is rejected, or None.
        """
        return None

    def configure(self) -> None:
        """Create the core objects and the endpoints.

        Raises:
            MotionError: the node cannot be configured.
        """
        raise NotImplementedError

    def activate(self) -> None:
        """Initialize the state of the loop; it starts afterwards."""

    def tick(self, dt: float) -> None:
        """Run one cycle of the loop.

        A node that commands a robot publishes one reference for each of
        :attr:`deadlines`.

        Args:
            dt: ROS time by which the deadlines advanced since the last cycle [s]: whole periods, 0
                if none is due. Limited to a few periods, so that a delay causes no jump in motion.
        """
        raise NotImplementedError

    def repeated(self, done: Repetitions) -> None:
        """Account for cycles after :meth:`repeat`; called in the loop before anything else."""

    def halt(self) -> None:
        """Bring the robot to a safe state; the loop has stopped."""

    def answer_waiting(self) -> None:
        """Answer all pending requests and goals; the loop has stopped."""

    def release(self) -> None:
        """Release the resources of ``configure`` other than endpoints."""

    def parameters_changed(self, params: P) -> None:
        """Apply new parameters; called in the loop."""

    def time_jumped(self, before: float, after: float) -> None:
        """Handle a jump of ROS time (simulation reset, bag replay); called in the loop.

        Args:
            before: ROS time before the jump [s].
            after: ROS time after it [s].
        """

    def in_motion(self) -> bool:
        """Return whether references of the robot's drives move; thread-safe."""
        return False

    def stopped(self, why: str) -> None:
        """Bring the robot to rest and end its goals; called in the loop, once per stop.

        Args:
            why: reason of the stop, as text.
        """

    def resumed(self) -> None:
        """Discard commands from before a resume; called in the loop."""

    def diagnose(self, report: Report) -> None:
        """Add the node's own status and values to a diagnostics report."""

    def waiting_for(self) -> str:
        """Return the condition that an active node still waits for; empty if it is ready."""
        return ""

    def notice(self) -> str:
        """Return a status text for users once the node is ready; may be empty."""
        return ""

    # ---- for the node's own code

    @property
    def params(self) -> P:
        """The current parameters."""
        assert self._parameters_set is not None, "parameters exist after configure"
        return self._parameters_set.current

    @property
    def active(self) -> bool:
        """True between activate and deactivate."""
        return self._loop is not None

    @property
    def configured(self) -> bool:
        """True between configure and cleanup."""
        return self._parameters_set is not None

    @property
    def overdue(self) -> float:
        """Time since the next cycle of the loop should have begun [s]; 0 if no loop runs."""
        loop = self._loop
        return 0.0 if loop is None else loop.overdue

    @property
    def in_transition(self) -> bool:
        """Whether another thread executes a lifecycle transition."""
        if not self._in_transition.acquire(blocking=False):
            return True
        self._in_transition.release()
        return False

    @property
    def leaving(self) -> bool:
        """True after :meth:`stop`."""
        return self._leaving

    @property
    def state_label(self) -> str:
        """Name of the lifecycle state."""
        return str(self._state_machine.current_state[1])

    @property
    def deadlines(self) -> tuple[int, ...]:
        """Stamps of the references due in this cycle [ns], one period apart."""
        return self.step.stamps

    @property
    def stop_reason(self) -> str:
        """Why commands are refused since a stop, empty if they are not; thread-safe."""
        return self.ending or ("" if self.stop_latch is None else self.stop_latch.reason)

    @property
    def held(self) -> str:
        """Why the supervisor holds the node at rest, empty if it does not; thread-safe."""
        return "" if self.stop_latch is None else self.stop_latch.held

    def hold(self, why: str) -> None:
        """Bring the robot to rest and end goals, once; thread-safe."""
        if self.stop_latch is not None:
            self.stop_latch.hold(why)

    def input_ns(self) -> int:
        """Return the time at which the inputs of this cycle are evaluated [ns].

        The first deadline of the cycle, or now if none is due, but not after the next one; so a
        command is never newer than the reference computed from it.
        """
        if self.step.stamps:
            return self.step.stamps[0]
        # /clock may have passed the next deadline since the cycle began.
        return int(min(self.now_ns(), self.step.next_ns or math.inf))

    @property
    def period(self) -> float:
        """Time between two deadlines of the loop [s]."""
        return 1.0 / self.params.update_rate

    def idle(self, rate: float, inputs: Sequence[PolledSubscription[Any]] = ()) -> None:
        """Begin the next cycle later, as a slower loop does; called by a tick without work.

        Args:
            rate: of that loop [Hz].
            inputs: whose messages begin it at once, as those of a stop then do; without any, they
                wait for it.
        """
        loop = self._loop
        if loop is None:
            return
        loop.stride = max(round(1.0 / (rate * loop.period)), 1)
        if inputs and loop.pause is None:
            loop.pause = wait = MessageWait(self)
            latch = () if self.stop_latch is None else self.stop_latch.subscriptions
            wait.inputs = (*inputs, *latch)

    def repeat(
        self,
        duration: float,
        silent: Sequence[PolledSubscription[Any]],
        inputs: Sequence[RepeatedInput],
        outputs: Sequence[RepeatedOutput],
    ) -> None:
        """Let the next cycles repeat the outputs, until a message changes an input; in the loop.

        After them :meth:`repeated` is called.

        Args:
            duration: max time [s].
            silent: subscriptions in which any message is a change.
            inputs: that repeat their last message.
            outputs: that are published for each deadline.
        """
        cycles, count = self._repetition, round(duration / self.period) - 1
        if count > 0 and cycles.ready:
            latch = () if self.stop_latch is None else self.stop_latch.subscriptions
            cycles.begin(count, (*silent, *latch), inputs, outputs)
            self.set_cycle_time(cycles)

    def set_cycle_time(self, cycles: RepeatedCycles) -> None:
        """Set the time of repeated cycles: that of the loop's deadlines."""
        cycles.follow(self._time.clock, self.now_ns(), self._steps.grid)

    def deadline_while_time_stands(self) -> int:
        """Return the stamp of a reference published while ROS time does not advance [ns]."""
        return self._steps.take_deadline()

    def in_loop(self, job: Callable[[], T], timeout: float = 1.0, *, keep: bool = False) -> T:
        """Run a function between two cycles of the loop, or at once if no loop runs.

        Args:
            job: the function.
            timeout: max time to wait for the loop [s].
            keep: whether the loop runs the job later if it did not in time.

        Returns:
            The result of ``job``.

        Raises:
            TimeoutError: the loop did not run the job in time.
        """
        loop = self._loop
        if loop is None or loop.inside:
            return job()
        return self._jobs.call(job, timeout, keep=keep)

    def fail(self, error: Exception) -> None:
        """Halt and restart the node after an exception in another of its threads."""
        loop = self._loop
        if loop is not None:
            loop.stop()
            self._crashed(error)

    # ---- lifecycle, called by rclpy

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Declare the parameters and configure the node."""
        return self._guarded("configure", self._configure)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start the loop."""
        return self._guarded("activate", self._activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the loop and bring the robot to a safe state."""
        return self._guarded("deactivate", self.halt_and_answer)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release the resources of configure."""
        return self._guarded("clean up", self._release)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop and release, from any state."""
        return self._guarded("shut down", self._shut_down)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Return to unconfigured after an error."""
        return self._guarded("recover", self._shut_down)

    def stop(self) -> None:
        """Halt the robot and never activate again; thread-safe."""
        self._leaving = True
        try:
            self._deactivate()
        except Exception as error:
            self.get_logger().error(f"halting failed: {error}")

    def halt_and_answer(self) -> None:
        """Halt the robot and answer pending requests and goals; in the executor."""
        self._deactivate()
        self.answer_goals()
        self.answer_waiting()

    def destroy_node(self) -> None:
        """Halt, release, and leave the graph."""
        self.stop()
        self._recovery.end()
        if self.stop_latch is not None:
            self.stop_latch.end()
        self._health.end()
        self._guarded("shut down", self._shut_down)
        self._leave_graph()

    # ---- called by FaultRecovery

    def changed_parameters(self) -> list[Parameter]:
        """Return the current values of the parameters that clients can set."""
        return [] if self._parameters_set is None else self._parameters_set.settable()

    def report_fault(self, text: str) -> None:
        """Report a fault to the parent process and on /diagnostics."""
        self._health.fault(text, restart=not self._leaving)

    # ---- called by HealthReporter

    def fill_report(self, report: Report) -> None:
        """Add the state of lifecycle, loop and stop, and the node's own, to a report."""
        report.value("lifecycle state", self.state_label)
        loop = self._loop
        fault = self._recovery.text or self.failure
        if fault:
            report.note("ERROR", fault)
        elif loop is None:
            report.note("OK", self.state_label)
        if self._recovery.count:
            report.value("faults", self._recovery.count)
            report.value("last fault", self._recovery.last)
        if self.stop_reason:
            report.note("WARN", self.stop_reason)
        if loop is not None:
            report_loop(report, loop, self._steps.take_skipped())
            missing = self.waiting_for() or self.held
            report.value("ready", f"no: {missing}" if missing else "yes")
            if self.time_stands:
                report.note("WARN", "/clock does not advance (use_sim_time is set)")
            self.diagnose(report)
        self.warn.diagnose(report)

    # ---- inside

    def _guarded(self, what: str, action: Callable[[], None]) -> TransitionCallbackReturn:
        self.failure = None
        with self._in_transition:
            try:
                action()
            except MotionError as error:
                self.failure = str(error)
            except Exception as error:
                self.failure = f"{type(error).__name__}: {error}"
                self.get_logger().error(traceback.format_exc())
        if self.failure is None:
            return TransitionCallbackReturn.SUCCESS
        self.get_logger().error(f"cannot {what}: {self.failure}")
        if what == "configure":
            try:
                self._release()
            except Exception:
                self.get_logger().error(f"cleanup failed too:\n{traceback.format_exc()}")
        return TransitionCallbackReturn.FAILURE

    def _leave_graph(self) -> None:
        if self._instance:
            self._instance.release()
        super().destroy_node()
        # The state machine references the node and would keep it in the graph until collected.
        self._state_machine.destroy_when_not_in_use()

    def _configure(self) -> None:
        begin = time.monotonic()
        self._parameters_set = ParameterSet(self, self.params_type, self.prepare(), self.check)
        self.configure()
        # Not earlier: changes during configure are applied when it has finished.
        self._parameters_set.on_change(self._parameters_swapped)
        self.get_logger().info(f"configured in {time.monotonic() - begin:.2f} s")

    def _parameters_swapped(self, params: P) -> None:
        def apply() -> None:
            try:
                self.parameters_changed(params)
            except Exception:
                self.get_logger().error(f"applying parameters failed:\n{traceback.format_exc()}")

        try:
            self.in_loop(apply, keep=True)
        except TimeoutError:
            self.warn("parameters", "the loop is blocked; parameters are applied when it continues")

    def _activate(self) -> None:
        with self._starting:
            if self._leaving:
                raise MotionError("the process is being stopped")
            # Commands sent while the node was inactive are stale.
            self.forget_messages()
            self.activate()
            if self.stop_latch is not None:
                self.stop_latch.begin()
            # A garbage collection of the long-lived objects would block all loops for 50 ms.
            gc.freeze()
            loop = RateLoop(
                self.params.update_rate, self._tick, self._crashed, name=self.get_name()
            )
            self._steps = StepClock(self._time, loop.period, lambda: loop.deadline)
            self.step = Step(0.0, 0.0, None)
            self._loop = loop
            self._jobs.wake = loop.wake
            self._recovery.settle()
            loop.start()

    def _deactivate(self) -> None:
        with self._starting:
            brake(self)
            loop, self._loop, self.ending = self._loop, None, ""
            if loop is None:
                return
            if not loop.stop():
                self.get_logger().error("the loop did not stop within 2 s")
                # A halt overrides late outputs of the blocked cycle.
                loop.at_end(self.halt)
            self._end_repetition()
            self._jobs.run()
            self.halt()
            self.poll_goals()

    def _release(self) -> None:
        self._repetition.close()
        self.release()
        self.destroy_endpoints()
        # The released objects may be collected again.
        gc.unfreeze()
        if self._parameters_set is not None:
            self._parameters_set.undeclare()
            self._parameters_set = None

    def _shut_down(self) -> None:
        self._deactivate()
        if self._parameters_set is not None:
            self._release()

    def _repeats(self) -> bool:
        """Run a repeated cycle; return False once the node's own cycle is due."""
        latch, cycles = self.stop_latch, self._repetition
        unchanged = not self._jobs and (latch is None or not latch.unapplied)
        if unchanged and cycles.run():
            return True
        self._end_repetition()
        return False

    def _end_repetition(self) -> None:
        cycles = self._repetition
        if cycles.armed:
            done = cycles.end()
            if done.next_index:
                self._steps.serve_up_to(done.next_index, cycles.now_ns)
            self.repeated(done)

    def _tick(self) -> None:
        if self._repetition.armed and self._repeats():
            return
        loop = self._loop
        if loop is not None:
            loop.stride = 1
        step = self.step = self._steps.step()
        jobs = len(self._jobs)  # requests made after a resume must not be discarded by it
        self.obey_stop_latch()
        self._jobs.run(jobs)
        if step.jump is not None:
            before, after = step.jump
            self.warn("time", f"ROS time jumped from {before:.3f} s to {after:.3f} s; restarting")
            self.time_jumped(before, after)
        self.tick(step.dt)
        self.poll_goals()

    def obey_stop_latch(self) -> None:
        """Apply stops and resumes; called in the loop before anything else."""
        if self.stop_latch is not None:
            self.stop_latch.obey(self.stopped, self.resumed)

    def _crashed(self, error: BaseException) -> None:
        """Halt after an exception in a cycle; in the loop's thread. Recovery restarts the node."""
        text = "".join(traceback.format_exception(error))
        failure = f"the loop stopped: {type(error).__name__}: {error}"
        self.get_logger().fatal(f"{failure}\n{text}")
        try:
            self.halt()
        except Exception as second:
            self.get_logger().fatal(f"halting failed too: {second!r}")
        # A loop that is started later must not repeat what was sent before the failure.
        self._repetition.armed = False
        # Not earlier: a transition waits for this thread, and requires a completely halted node.
        self._loop = None
        self._jobs.run()  # as they do while no loop runs
        self.failure = failure
        if isinstance(error, Exception) and not isinstance(error, MemoryError):
            self._recovery.begin(failure)
        elif self.on_crash is not None:
            self.on_crash()


@dataclasses.dataclass(frozen=True, kw_only=True)
class RobotParams(NodeParams):
    """Parameters of a node for one robot."""

    robot: str = param(
        doc="Robot model: name of a shipped robot, or path of a robot.yaml file or its folder.",
        read_only=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FramedParams(RobotParams):
    """Parameters of a node that publishes or receives frame names."""

    tf_frame_prefix: str = param(
        "",
        doc="Prefix of all frame names; '~' is replaced by the node's namespace.",
        read_only=True,
    )


R = TypeVar("R", bound=RobotParams)


class RobotNode(MotionNode[R]):
    """A node with a ``robot``, whose description gives defaults of parameters."""

    robot: Robot

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Return defaults by field name for parameters that the robot's description gives."""
        return {}

    def prepare(self) -> dict[str, Any]:
        """Load the robot of the parameter ``robot``."""
        name = self.early_text("robot")
        if not name:
            raise InvalidConfig(
                "parameter 'robot' must name a robot, such as -p robot:=franka", field="robot"
            )
        self.robot = load_description(name)
        return self.robot_defaults(self.robot)

    def early_text(self, name: str) -> str:
        """Return a text parameter on which the defaults of others depend."""
        if not self.has_parameter(name):
            entry = next(e for e in declared(self.params_type) if e.name == name)
            declare_early(self, name, "", entry.descriptor())
        return str(self.get_parameter(name).value)
