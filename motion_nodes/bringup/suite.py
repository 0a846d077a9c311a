# SPDX-License-Identifier: Apache-2.0
"""Runs a supervised suite until it is stopped: behind ``motion up`` and the launch file.

``python -m motion_nodes.bringup.suite NAME:=VALUE...`` takes the arguments of the launch file.

Monitors the startup of a suite until every node is ready, and prints the progress.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from motion_nodes.bringup.forked_call import forked_call
from motion_nodes.bringup.node_specs import NodeSpec, commands_for, processes_for, with_arguments
from motion_nodes.bringup.process_template import ProcessTemplate
from motion_nodes.bringup.supervisor import Supervision, Supervisor
from motion_nodes.errors import InvalidConfig, InvalidDescription, MotionError
from motion_nodes.extras import check_cell, check_policy
from motion_nodes.kernels.cache import MESHES, in_progress
from motion_nodes.kernels.parent_death import die_with_parent_if_set
from motion_nodes.ros import signals
from motion_nodes.ros.instance_lock import SecondInstance, owner_of
from motion_nodes.ros.names import POLICY_CONTROLLER, under
from motion_nodes.ros.process_reports import ASLEEP, FAILED, FAULT, READY, News
from motion_nodes.ros.startup_memory import release_memory

if TYPE_CHECKING:
    from motion_nodes.bringup.bringup_config import BringupConfig
    from motion_nodes.core.robot.placement import Placement

REMIND = (10.0, 60.0)
"""[s] Time after which nodes that are not ready are listed, and period of repetition."""
DECOMPOSING = " (collision meshes are decomposed into convex parts, once per machine)"
"""Added while processes do so."""
PERIOD, PERIOD_STARTING = 0.2, 0.02
"""[s] Period of the supervision, after all nodes are ready and before."""


class Startup:
    """Startup state of the nodes: ready or not, with the reason.

    Without autostart a node counts as up once it can be configured.
    """

    def __init__(
        self,
        nodes: Iterable[str],
        print_line: Callable[[str], None],
        then: Callable[[], str] = lambda: "",
        omitted: Iterable[str] = (),
    ) -> None:
        """Start the monitoring.

        Args:
            nodes: full names.
            print_line: prints one line.
            then: returns the next step for the user, as text.
            omitted: what is not started, and why, for the summary.
        """
        self._omitted = list(omitted)
        self.failed_robots: dict[str, str] = {}
        """Namespaces of robots of which a node cannot start, each with node and reason."""
        self._states: dict[str, News | None] = {name: None for name in nodes}
        self._print_line = print_line
        self._then = then
        self._began = time.monotonic()
        self._remind_at = self._began + REMIND[0]
        self.complete = False
        """Whether all nodes have been up."""

    @property
    def seconds(self) -> float:
        """Time since the start [s]."""
        return time.monotonic() - self._began

    @property
    def missing(self) -> dict[str, str]:
        """Names of the nodes that are not up, each with the reason if known."""
        return {
            name: "still starting" if news is None else news.text or news.state
            for name, news in self._states.items()
            if news is None or news.state not in (READY, ASLEEP)
        }

    def came_up(self, names: Iterable[str]) -> bool:
        """Return whether all of these nodes reported a state other than FAILED."""
        known = (self._states.get(name) for name in names)
        return all(news is not None and news.state != FAILED for news in known)

    def leave_out(self, robots: Mapping[str, str]) -> None:
        """Go on without robots that cannot start; nodes of their processes start again.

        Args:
            robots: namespaces, each with the reason.
        """
        for name, news in list(self._states.items()):
            if _namespace(name) in robots:
                del self._states[name]
            elif news is not None and news.state == FAILED:
                self._states[name] = None
        for robot, why in robots.items():
            self.failed_robots.pop(robot, None)
            self._omitted.append(f"{robot} ({why})")
            self._print_line(f"{robot} is left out: {why}; the others start")
        self._check_complete()

    def report(self, news: News, process: Iterable[str] = ()) -> None:
        """Process the report of a node.

        Args:
            news: its state.
            process: full names of all nodes of its process.
        """
        if news.state == FAILED:
            # If one node cannot start, all nodes of its process end.
            for name in process:
                self._states[name] = News(FAILED, name)
            where = news.node or next(iter(process), "a process")
            text = f"{where.strip('/')} cannot start: {news.text}"
            spaces = {_namespace(name) for name in ([news.node] if news.node else process)}
            if len(spaces) == 1:
                self.failed_robots[spaces.pop()] = text
            self._print_line(text)
            return
        if news.node not in self._states:
            return
        self._states[news.node] = news
        name = news.node.strip("/")
        if news.state == READY:
            note = f"; {news.text}" if news.text else ""
            self._print_line(f"{name} is ready ({max(0.0, news.at - self._began):.1f} s){note}")
        elif news.state == FAULT:
            self._print_line(f"{name} has a fault: {news.text}")
        elif news.state == ASLEEP:
            self._print_line(f"{name} is {news.text} and waits to be configured and activated")
        self._check_complete()

    def _check_complete(self) -> None:
        if not self.complete and not self.missing:
            self.complete = True
            self._print_line(self._summary())

    def remind(self) -> None:
        """Print the nodes that are not up, if due."""
        if self.complete or time.monotonic() < self._remind_at:
            return
        self._remind_at = time.monotonic() + REMIND[1]
        cause = DECOMPOSING if in_progress(MESHES) else ""
        self._print_line(f"not ready after {self.seconds:.0f} s: {self.missing_text()}{cause}")

    def missing_text(self) -> str:
        """Return the nodes that are not up, grouped by the reason."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self.missing.items():
            by_reason.setdefault(why, []).append(name.strip("/"))
        return "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items())

    def _summary(self) -> str:
        known = {name: news for name, news in self._states.items() if news is not None}
        asleep = [name for name, news in known.items() if news.state == ASLEEP]
        if asleep:
            return f"all up after {self.seconds:.1f} s; {len(asleep)} nodes wait to be activated"
        summary = f"READY after {self.seconds:.1f} s, {len(known)} nodes"
        if self._omitted:
            summary += f"; not started: {'; '.join(self._omitted)}"
        next_steps = self._then()
        return f"{summary}. {next_steps}" if next_steps else summary


def _namespace(node: str) -> str:
    """Return the namespace of a node's full name, without slashes at its ends."""
    return node.strip("/").rpartition("/")[0]


@dataclass(frozen=True)
class SuiteOptions:
    """Nodes of a suite, and how their processes run."""

    config: BringupConfig
    composed: bool = True
    """Whether nodes share processes."""
    respawn: bool = True
    """Whether lost processes are replaced."""
    ros_args: tuple[str, ...] = ()
    """ROS arguments of all nodes (:func:`~motion_nodes.bringup.node_specs.with_arguments`)."""


@dataclass(frozen=True)
class Composition:
    """Nodes of a suite, and the messages printed at its start."""

    specs: list[NodeSpec]
    next_steps: list[tuple[str, str]]
    """Commands to try when the suite is ready, with the namespaces of their robots."""
    omitted: list[str]
    """What is not started, and why."""
    composed: bool
    respawn: bool
    left_out: dict[str, str]
    """Namespaces of robots with an unusable description, each with the reason."""
    notes: tuple[str, ...] = ()
    """What of the user's parameter files is served otherwise, or has no effect."""


def print_line(text: str) -> None:
    """Print a line at once; where that fails, as on a full disk, the suite goes on."""
    with contextlib.suppress(OSError):
        print(f"motion: {text}", flush=True)


def run_suite(
    configure: Callable[[], SuiteOptions], template: ProcessTemplate | None = None
) -> int:
    """Run the suite until a signal is received or no process is running.

    Args:
        configure: returns the options; called in another process (:func:`forked_call`), because
            robots and their libraries are only needed to compose the suite.
        template: forks the processes; None: each is started by its command line.

    Returns:
        The exit code: 1 if a process failed and was not replaced, or a robot was left out.

    Raises:
        MotionError: the suite cannot be started.
    """
    made = forked_call(lambda: composition(configure()))
    specs, composed, respawn = made.specs, made.composed, made.respawn
    names = [spec.full_name for spec in specs]
    signals.stop_quietly()
    signals.nodes_exist()
    for note in made.notes:
        print_line(note)
    print_line(f"starting {', '.join(names)}; Ctrl-C stops")
    left_out = dict(made.left_out)

    def next_step() -> str:
        moves = [move for space, move in made.next_steps if space not in left_out]
        return f"In a second terminal: {moves[0]}" if moves else ""

    startup = Startup(names, print_line, next_step, made.omitted)
    supervisor = Supervisor(
        processes_for(specs, composed=composed),
        commands_for(specs, composed=composed),
        print_line,
        Supervision(respawn=respawn),
        on_report=lambda process, news: startup.report(news, supervisor.nodes_of(process)),
        template=template,
    )
    with supervisor.group:
        release_memory()
        while not signals.STOP.wait(PERIOD if startup.complete else PERIOD_STARTING):
            if not supervisor.watch(settled=startup.complete):
                break
            startup.remind()
            missing = _did_not_come_up(supervisor, startup, respawn=respawn)
            failed = {} if not missing else _leave_out(supervisor, startup, specs, left_out)
            left_out |= failed
            if missing and not failed:
                print_line(f"stopping all nodes; failed to start: {', '.join(missing)}")
                break
        if signals.STOP.is_set():
            print_line("stopping all nodes")
        return 1 if any(supervisor.failed.values()) or left_out else 0


def _leave_out(
    supervisor: Supervisor, startup: Startup, specs: Sequence[NodeSpec], gone: Mapping[str, str]
) -> dict[str, str]:
    """Go on without the robots that cannot start; return them, or none if no other remains."""
    robots = {spec.namespace for spec in specs if spec.executable == "robot_state"} - gone.keys()
    failed = dict(startup.failed_robots)
    if not failed or not failed.keys() < robots:
        return {}
    supervisor.leave_out(failed)
    startup.leave_out(failed)
    return failed


def composition(options: SuiteOptions) -> Composition:
    """Return the nodes of a suite.

    Raises:
        MotionError: the suite cannot be started.
    """
    from motion_nodes.bringup.bringup_config import check_libraries, prefixed
    from motion_nodes.bringup.compose import omissions, suite_of
    from motion_nodes.core.robot.loader import load_description

    config, left_out = _usable(options.config)
    check_libraries(config)
    if config.backend == "mujoco" and (config.objects or config.cameras):
        cameras = [prefixed(config.namespace, word) for word in config.cameras]
        places = config.within_namespace if cameras else ()
        check_cell(
            config.objects, cameras, {p.namespace: load_description(p.robot) for p in places}
        )
    specs, notes = suite_of(config)
    specs = with_arguments(specs, options.ros_args)
    _check_alone([spec.full_name for spec in specs])
    omitted = [f"{name} ({why})" for name, why in left_out.items()]
    places = config.within_namespace
    moves = [(place.namespace, move) for place in places if (move := _a_move(config, place))]
    return Composition(
        specs, moves, [*omitted, *omissions(config)],
        options.composed, options.respawn, left_out, tuple(notes),
    )  # fmt: skip


def _check_alone(names: Sequence[str]) -> None:
    """Check that no node of these full names runs on this machine in this ROS domain."""
    running = {name: owner for name in names if (owner := owner_of(name))}
    if running:
        listed = ", ".join(f"{name} (process {owner})" for name, owner in list(running.items())[:3])
        more = f" and {len(running) - 3} more" if len(running) > 3 else ""
        domain = os.environ.get("ROS_DOMAIN_ID", "0") or "0"
        raise SecondInstance(
            f"another suite runs in ROS domain {domain}: {listed}{more}. Nothing was started. Stop "
            "that one (Ctrl-C in its terminal), set another ROS_DOMAIN_ID, "
            f"{_beside(names, running)}."
        )


def _beside(names: Iterable[str], running: Iterable[str]) -> str:
    """Return how a suite can run beside another one, as text.

    Args:
        names: full names of this suite's nodes.
        running: those of them that the other one runs.
    """
    simulates = any(name.rpartition("/")[2] in ("mujoco_sim", "mock_sim") for name in names)
    if simulates and owner_of("/clock"):
        return (
            "or start all robots by one motion up (motion up NAME:=ROBOT NAME:=ROBOT), since a "
            "domain has one simulation and its /clock"
        )
    if list(running) == ["/browser_viewer"]:
        return "or start this one without a page (--viewer none)"
    return "or give the robots namespaces (motion up NAME:=ROBOT)"


def _usable(config: BringupConfig) -> tuple[BringupConfig, dict[str, str]]:
    """Return the configuration without robots whose description is unusable, and the reasons.

    The wheels of a base are checked, too: a simulation that all robots share would not start; and
    whether a learned policy fits its robot.

    Raises:
        InvalidDescription, InvalidConfig: there is no other robot.
        RobotNotFound: an unknown name.
    """
    from motion_nodes.core.bases.from_robot import base_of
    from motion_nodes.core.robot.loader import load_description

    kept: list[Placement] = []
    left_out: dict[str, str] = {}
    for place, given in zip(config.within_namespace, config.placements, strict=True):
        try:
            robot = load_description(place.robot)
            if robot.base is not None:
                base_of(robot)
            # With the user's parameters the policy may have another description than its own.
            if (policy := config.policy_of(place.namespace)) and not config.params_files:
                check_policy(policy, robot)
            kept.append(given)
        except (InvalidDescription, InvalidConfig) as error:
            if not place.namespace or len(config.placements) - len(left_out) == 1:
                raise
            left_out[place.namespace] = str(error)
            print_line(f"{place.namespace} is left out: {error}")
    if left_out:
        policies = tuple(
            word for word in config.policies if word.rpartition(":=")[0].strip("/") not in left_out
        )
        config = replace(config, placements=tuple(kept), policies=policies)
    return config, left_out


def _did_not_come_up(supervisor: Supervisor, startup: Startup, *, respawn: bool) -> list[str]:
    """Return the nodes of processes that ended during startup, which stops the suite.

    If processes are replaced, only nodes that report a configuration error.
    """
    lost = supervisor.failed_to_start if respawn else list(supervisor.failed)
    return [
        node.strip("/")
        for name in lost
        if name in supervisor.failed and not startup.came_up(supervisor.nodes_of(name))
        for node in supervisor.nodes_of(name)
    ]


def _a_move(config: BringupConfig, place: Placement) -> str:
    """Return a command that moves a robot; empty for one without joints to move."""
    from motion_nodes.core.robot.loader import load_description

    if config.policy_of(place.namespace):
        topic = "/" + under(place.namespace, f"{POLICY_CONTROLLER}/cmd_vel_unstamped")
        return f"ros2 topic pub -r 10 {topic} geometry_msgs/msg/Twist '{{linear: {{x: 0.5}}}}'"
    robot = load_description(place.robot)
    named = f"{place.namespace}:={place.robot}" if place.namespace else place.robot
    if robot.base is not None:
        return f"motion go {named} --to 0.5,0.2"
    if not any(group.tip is not None for group in robot.groups.values()):
        return ""
    state = next((name for name in ("ready", *robot.state_names) if name in robot.states), "home")
    return f"motion go {named} --to {state}"


def main(arguments: Sequence[str]) -> int:
    """Run the suite of some launch arguments; return the exit code.

    Args:
        arguments: NAME:=VALUE of the launch file; after ``--ros-args`` those of all nodes.
    """
    given = [*arguments, "--ros-args"]
    at = given.index("--ros-args")
    words, ros_args = given[:at], arguments[at + 1 :]
    die_with_parent_if_set()
    try:
        values = dict(pair(argument) for argument in words)
        with ProcessTemplate() as template:
            return run_suite(lambda: options_from(values, ros_args), template)
    except MotionError as error:
        print(f"motion: {error}", file=sys.stderr)
        return 2


def options_from(values: Mapping[str, str], ros_args: Sequence[str] = ()) -> SuiteOptions:
    """Return the suite of launch arguments and of ROS arguments for all nodes.

    Raises:
        InvalidConfig: an unknown argument or value.
    """
    from motion_nodes.bringup.bringup_config import config_from

    composed = values.get("use_composition", "true") == "true"
    return SuiteOptions(
        config_from(values),
        composed=composed,
        respawn=values.get("respawn") != "false",
        ros_args=tuple(ros_args),
    )


def pair(argument: str) -> tuple[str, str]:
    """Return name and value of a launch argument.

    Raises:
        InvalidConfig: not of the form NAME:=VALUE.
    """
    name, sign, value = argument.partition(":=")
    if not sign:
        raise InvalidConfig(f"argument '{argument}' is not of the form NAME:=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
