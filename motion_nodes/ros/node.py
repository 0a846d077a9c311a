# SPDX-License-Identifier: Apache-2.0
"""The base of every node: lifecycle, parameters, a fixed-rate loop, diagnostics.

A node has a fast part and a slow part. The fast part is :meth:`MotionNode.tick`, called by a loop
of its own at ``update_rate``; it takes the newest messages of polled subscriptions, does the work
and publishes. The slow part (services, parameters, lifecycle) is spun by an executor in another
thread, which also runs all transitions. What the slow part wants changed in the core goes through
:meth:`MotionNode.in_loop`, so the core needs no locks. Diagnostics are read and told by a third
thread of the process, never during a transition.

A node's life: ``configure`` reads the robot, builds the core and compiles its kernels;
``activate`` starts the loop; ``deactivate`` halts the robot's part. With ``autostart`` (default)
the node does this by itself; otherwise a lifecycle manager does.
"""

from __future__ import annotations

import dataclasses
import gc
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter

from motion_nodes.control.stop_state import RestTimer
from motion_nodes.errors import MotionError
from motion_nodes.ros.clients.change_state import ChangeStateService
from motion_nodes.ros.concurrency.executor_queue import ExecutorJobs
from motion_nodes.ros.concurrency.fault_recovery import FaultRecovery
from motion_nodes.ros.concurrency.loop_queue import LoopJobs
from motion_nodes.ros.concurrency.rate_loop import RateLoop
from motion_nodes.ros.concurrency.report_thread import RegularCall
from motion_nodes.ros.diagnostics import DiagnosticsPublisher, Report, report_period
from motion_nodes.ros.endpoint_node import EndpointNode
from motion_nodes.ros.instance_lock import InstanceLock
from motion_nodes.ros.node_health import TwinWatch, report_loop
from motion_nodes.ros.parameters import ParameterSet, declare_early, param
from motion_nodes.ros.readiness import LOOK, Readiness
from motion_nodes.ros.ros_time import Step, StepClock
from motion_nodes.ros.stop_latch import StopLatch

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeParams:
    """Parameters that every node has."""

    update_rate: float = param(
        50.0, doc="Update rate of the node's loop.", unit="Hz", gt=0.0, le=2000.0, read_only=True
    )


P = TypeVar("P", bound=NodeParams)


class MotionNode(EndpointNode, Generic[P]):
    """Base of the suite's nodes; see the module's text for how one is written."""

    params_type: type[P]
    obeys_stop = False
    """Whether the node keeps a copy of the suite's latched stop."""
    drives_robot = False
    """Whether the node itself commands a robot's drives, and so brings it to rest at a stop."""

    def __init__(self, name: str, *, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured.

        Args:
            name: node name, where the ROS arguments give none.
            ros_args: ROS arguments for this node alone; None takes those of the process.

        Raises:
            SecondInstance: a node of the same full name runs on this machine.
        """
        self._instance: InstanceLock | None = None
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
        """Why the last transition failed, in words."""
        self.on_crash: Callable[[], None] | None = None
        """Called where the process has to end: memory ran out, or the loop was told to exit."""
        self.goal_servers: list[Any] = []
        """Those of the node's actions."""
        self._parameters_set: ParameterSet[P] | None = None
        self._loop: RateLoop | None = None
        self.step = Step(0.0, 0.0, 0.0, None)
        """Time as the tick under way has it, for jobs of :meth:`in_loop` too."""
        self._starting = threading.RLock()
        self._leaving = False
        self._jobs = LoopJobs()
        self._twins = TwinWatch(self)
        self._diagnostics = DiagnosticsPublisher(self, name)
        self._readiness = Readiness(self, self._report)
        self._in_transition = threading.RLock()
        self._recovery = FaultRecovery(self, ExecutorJobs(self))
        ChangeStateService(self, self.say_goodbye)
        self.rest = RestTimer()
        """Times the way to rest, where the node drives a robot."""
        self.stop_latch: StopLatch | None = None
        """The suite's stop as the node knows it, where it obeys that."""
        if self.obeys_stop:
            self.stop_latch = StopLatch(self, self.rest if self.drives_robot else None)
        self._reporting = RegularCall(self._report, period)
        self._looking = RegularCall(self._look_whether_ready, LOOK)

    # ---- what a node fills in

    def prepare(self) -> dict[str, Any]:
        """Return field name -> default for parameters that the dataclass cannot know."""
        return {}

    def check(self, params: P) -> str | None:
        """Return what is wrong with a candidate parameter set as a whole, or None."""
        return None

    def configure(self) -> None:
        """Build the core and the endpoints; raise a MotionError when that cannot be done."""
        raise NotImplementedError

    def activate(self) -> None:
        """Prepare for ticking."""

    def tick(self, dt: float) -> None:
        """Do one step of work.

        ``dt`` is how far the loop's deadlines moved on in ROS time since the last tick [s]: whole
        periods, 0 where none has come. After a delay it is cut to a few periods, so that nothing
        driven makes up for it in one leap. What leads a robot sends one reference for each of
        :attr:`deadlines`.
        """
        raise NotImplementedError

    def halt(self) -> None:
        """Leave the robot safe: the loop has stopped and will not tick again."""

    def answer_waiting(self) -> None:
        """Answer those who wait for an end of what the loop did; the loop has stopped."""

    def release(self) -> None:
        """Give up what ``configure`` made beyond its endpoints."""

    def parameters_changed(self, params: P) -> None:
        """Take over new parameters; called in the loop."""

    def time_jumped(self, before: float, after: float) -> None:
        """React to time that went back or leapt ahead (simulation reset, bag replay)."""

    def stopped(self, why: str) -> None:
        """Bring to rest what the node drives and end its goals; in the loop, once for each stop."""

    def resumed(self) -> None:
        """React to a resume: what was commanded until now must begin anew; in the loop."""

    def diagnose(self, report: Report) -> None:
        """Add the node's own findings and figures."""

    def lacks(self) -> str:
        """Say what an active node still waits for before it can do its work, or nothing."""
        return ""

    def notice(self) -> str:
        """Say what people should know of the node once it is ready, or nothing."""
        return ""

    # ---- what a node uses

    @property
    def params(self) -> P:
        """The parameters now in force."""
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
    def stop_reason(self) -> str:
        """Why nothing may move since the suite was stopped, or nothing; any thread may ask."""
        return "" if self.stop_latch is None else self.stop_latch.reason

    @property
    def leaving(self) -> bool:
        """True once the node was stopped for good."""
        return self._leaving

    @property
    def state_label(self) -> str:
        """The lifecycle state's name."""
        return str(self._state_machine.current_state[1])

    @property
    def deadlines(self) -> tuple[int, ...]:
        """Stamps of the references that are due in the tick under way [ns], one period apart."""
        return self.step.stamps

    def input_ns(self) -> int:
        """Return the time [ns] at which what came for this tick counts.

        That is the first deadline that it can be answered at, else now; so a command is never
        younger than the reference that follows from it.
        """
        return self.step.stamps[0] if self.step.stamps else self.now_ns()

    @property
    def period(self) -> float:
        """Time between two deadlines of the loop [s]."""
        return 1.0 / self.params.update_rate

    @property
    def wall_dt(self) -> float:
        """Wall time between the last two ticks [s], for what must go on when ROS time stands."""
        return self.step.wall_dt

    def deadline_while_time_stands(self) -> int:
        """Return the stamp [ns] of a reference that must go on while ROS time does not."""
        return self._steps.take_deadline()

    def in_loop(self, job: Callable[[], T], timeout: float = 1.0) -> T:
        """Run ``job`` between two ticks and return its result; at once where no loop runs.

        Raises:
            TimeoutError: the loop did not come to it in ``timeout`` [s]; it will not be done later.
        """
        loop = self._loop
        if loop is None or loop.inside:
            return job()
        return self._jobs.ask(job, timeout)

    # ---- lifecycle, called by rclpy

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Read the robot, declare the parameters, build the node."""
        return self._guarded("configure", self._configure)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start the loop."""
        return self._guarded("activate", self._activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the loop and leave the robot safe."""
        return self._guarded("deactivate", self.say_goodbye)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Give up what configure made."""
        return self._guarded("clean up", self._release)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop from any state."""
        return self._guarded("shut down", self._shut_down)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Come back to unconfigured after an error."""
        return self._guarded("recover", self._shut_down)

    def stop(self) -> None:
        """Halt what the node drives, at once and for good; any thread may call this."""
        self._leaving = True
        try:
            self._deactivate()
        except Exception as error:
            self.get_logger().error(f"halting failed: {error}")

    def say_goodbye(self) -> None:
        """Halt what the node drives, and answer all who wait for it; in the executor."""
        self._deactivate()
        self.answer_waiting()

    def destroy_node(self) -> None:
        """Halt, release, and leave the graph."""
        self.stop()
        self._recovery.end()
        if self.stop_latch is not None:
            self.stop_latch.end()
        self._looking.end()
        self._reporting.end()
        self._guarded("shut down", self._shut_down)
        self._leave_graph()

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
                self.get_logger().error(f"giving up failed too:\n{traceback.format_exc()}")
        return TransitionCallbackReturn.FAILURE

    def _leave_graph(self) -> None:
        if self._instance is not None:
            self._instance.release()
        super().destroy_node()
        # It holds on to the node, which else would stay in the graph until it is collected.
        self._state_machine.destroy_when_not_in_use()

    def _configure(self) -> None:
        begin = time.monotonic()
        self._parameters_set = ParameterSet(self, self.params_type, self.prepare(), self.check)
        self.configure()
        # Only now: what a client sets while configure runs is seen when it has ended.
        self._parameters_set.on_change(self._parameters_swapped)
        self.get_logger().info(f"configured in {time.monotonic() - begin:.2f} s")

    def _parameters_swapped(self, params: P) -> None:
        try:
            self.in_loop(lambda: self.parameters_changed(params))
        except Exception:
            self.get_logger().error(f"new parameters failed:\n{traceback.format_exc()}")

    def _activate(self) -> None:
        with self._starting:
            if self._leaving:
                raise MotionError("the process is being stopped")
            # What was sent to an inactive node was not meant for now.
            self.forget_messages()
            self.activate()
            if self.stop_latch is not None:
                self.stop_latch.begin()
            # What was built until now stays; to look through it for garbage would keep all of the
            # process's loops waiting for 50 ms, whenever Python thinks it due.
            gc.freeze()
            loop = RateLoop(
                self.params.update_rate, self._tick, self._crashed, name=self.get_name()
            )
            self._steps = StepClock(self._time, loop.period, lambda: loop.deadline)
            self.step = Step(0.0, 0.0, 0.0, None)
            self._loop = loop
            self._recovery.settle()
            loop.start()

    def _deactivate(self) -> None:
        with self._starting:
            loop, self._loop = self._loop, None
            if loop is None:
                return
            if not loop.stop():
                self.get_logger().error("the loop did not stop within 2 s")
                # What the hanging tick still sends must not be the last word.
                loop.at_end(self.halt)
            self._jobs.run()
            self.halt()

    def _release(self) -> None:
        self.release()
        self.destroy_endpoints()
        # What went now may be collected again.
        gc.unfreeze()
        if self._parameters_set is not None:
            self._parameters_set.undeclare()
            self._parameters_set = None

    def _shut_down(self) -> None:
        self._deactivate()
        if self._parameters_set is not None:
            self._release()

    def _tick(self) -> None:
        step = self.step = self._steps.step()
        # Before the jobs: what was asked for after a resume must not be ended by that.
        if self.stop_latch is not None:
            self.stop_latch.obey(self.stopped, self.resumed)
        self._jobs.run()
        if step.jump is not None:
            before, after = step.jump
            self.warn("time", f"time went from {before:.3f} s to {after:.3f} s; starting anew")
            self.time_jumped(before, after)
        self.tick(step.dt)

    def _crashed(self, error: BaseException) -> None:
        """Halt after the tick raised; in the loop's thread. The node comes back by itself."""
        text = "".join(traceback.format_exception(error))
        self.failure = f"the loop stopped: {type(error).__name__}: {error}"
        self.get_logger().fatal(f"{self.failure}\n{text}")
        self._loop = None
        try:
            self.halt()
        except Exception as second:
            self.get_logger().fatal(f"halting failed too: {second!r}")
        # What others wait for is done now, as where no loop runs.
        self._jobs.run()
        if isinstance(error, Exception) and not isinstance(error, MemoryError):
            self._recovery.begin(self.failure)
        elif self.on_crash is not None:
            self.on_crash()

    def fail(self, error: Exception) -> None:
        """Halt and restart the node after an exception in another thread of its own."""
        loop = self._loop
        if loop is not None:
            loop.stop()
            self._crashed(error)

    # ---- what the recovery from faults uses

    def abort_goals(self, text: str) -> None:
        """Abort the goals of all actions that have no result yet; in the executor."""
        for server in self.goal_servers:
            server.abort_all(text)

    def changed_parameters(self) -> list[Parameter]:
        """Return the parameters that a client may have set, as they are now."""
        return [] if self._parameters_set is None else self._parameters_set.settable()

    def tell_fault(self, text: str) -> None:
        """Tell of a fault through the pipe and on /diagnostics, and watch for readiness anew."""
        self._readiness.fault(text)
        self._looking.end()
        if not self._leaving:
            self._looking = RegularCall(self._look_whether_ready, LOOK)
        self._report()

    # ---- reports, beside loop and executor

    def _look_whether_ready(self) -> None:
        try:
            ready = self._readiness.look()
        except Exception:
            self.get_logger().error(f"looking for readiness failed:\n{traceback.format_exc()}")
            ready = True
        if ready:
            self._looking.end()

    def _report(self) -> None:
        # Half configured there is nothing to tell yet.
        if not self._in_transition.acquire(blocking=False):
            return
        try:
            self._publish_diagnostics()
        except Exception:
            self.get_logger().error(f"diagnostics failed:\n{traceback.format_exc()}")
        finally:
            self._in_transition.release()

    def _publish_diagnostics(self) -> None:
        report = Report()
        report.value("lifecycle state", self.state_label)
        loop = self._loop
        fault = self._recovery.text
        if fault:
            report.note("ERROR", fault)
        elif self.failure is not None:
            report.note("ERROR", self.failure)
        elif loop is None:
            report.note("OK", self.state_label)
        if self.stop_reason:
            report.note("WARN", self.stop_reason)
        if loop is not None:
            report_loop(report, loop, self._steps.take_skipped())
            report.value("ready", f"no: {lacking}" if (lacking := self.lacks()) else "yes")
            if self.time_stands:
                report.note("WARN", "time stands still (use_sim_time is set; nothing moves /clock)")
            self.diagnose(report)
        if self._recovery.count:
            report.value("faults", self._recovery.count)
            report.value("last fault", self._recovery.last)
        self._twins.look(report)
        if self.warn.total:
            report.value("warnings", self.warn.total)
            report.value("last warning", self.warn.last)
        self._diagnostics.publish(report)
