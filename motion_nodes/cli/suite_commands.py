# SPDX-License-Identifier: Apache-2.0
"""Commands to a running suite, such as ``motion go`` and ``motion stop``.

``motion go``: move a robot of a running suite; ``motion stop`` and ``motion resume``: the latched
stop of all robots of a running suite; ``motion recover``: move an arm of a running suite out of a
shallow collision; ``motion wait``: wait until the nodes of a running suite are ready, for scripts;
``motion record``: record topics of a running suite to a file; ``motion task``: execute a task in
words with a running suite; ``motion mcp``: MCP server through which a language model commands a
robot of a suite.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from motion_nodes.cli.options import (
    Commands,
    DegreesOption,
    GroupOption,
    RobotArgument,
    ToPositionOption,
    ToQuatOption,
    ToRpyOption,
)
from motion_nodes.cli.output import print_line, print_table
from motion_nodes.errors import InvalidCommand, InvalidConfig, RobotNotFound, did_you_mean

if TYPE_CHECKING:
    from motion_nodes.cli.values import PoseWords
    from motion_nodes.core.robot.placement import Placement
    from motion_nodes.core.robot.robot import Robot
    from motion_nodes.nodes.clients.commands import GoalRequest

Timeout = Annotated[float, typer.Option(help="Max time to wait for the nodes [s].")]


def go(
    robot: Annotated[
        str, typer.Argument(help="Robot, as given to `motion up`: [NAMESPACE:=]ROBOT.")
    ],
    to: Annotated[
        str | None,
        typer.Option(
            help="Arm: named state or joint positions. Base: x,y or x,y,yaw [m, rad] in odom. "
            "Mobile manipulator: numbers are for the base, unless --group is given."
        ),
    ] = None,
    to_position: ToPositionOption = None,
    to_rpy: ToRpyOption = None,
    to_quat: ToQuatOption = None,
    group: GroupOption = None,
    velocity: Annotated[
        float, typer.Option(help="Velocity scaling factor of an arm, in (0, 1].")
    ] = 1.0,
    acceleration: Annotated[
        float, typer.Option(help="Acceleration scaling factor of an arm, in (0, 1].")
    ] = 1.0,
    planner: Annotated[
        str,
        typer.Option(help="Planner of an arm, of `motion plan`, or PTP or LIN."),
    ] = "",
    timeout: Annotated[
        float, typer.Option(help="Max time to wait for a suite that is starting [s].")
    ] = 60.0,
    degrees: DegreesOption = False,
) -> None:
    """Move a robot of a running suite: an arm around obstacles, a base to a pose.

    Waits for a suite that is starting, and for the end of the motion. Ctrl-C stops the motion. Exit
    code 1: the target was not reached; the reason is printed.
    """
    import time

    from motion_nodes.cli.plan_commands import known_planner
    from motion_nodes.cli.values import NO_SOLUTION, PoseWords, checked_timeout
    from motion_nodes.core.robot.loader import load_description
    from motion_nodes.core.robot.placement import parse_placement
    from motion_nodes.nodes.clients.commands import execute

    for name, factor in (("velocity", velocity), ("acceleration", acceleration)):
        if not 0.0 < factor <= 1.0:
            raise InvalidCommand(f"--{name} is {factor:g}; it must be above 0 and at most 1.")
    checked_timeout(timeout)
    place = parse_placement(robot)
    pose = PoseWords(to_position, to_rpy, to_quat)
    try:
        known = load_description(place.robot)
    except RobotNotFound as error:
        if to is not None or pose.given:
            raise
        raise InvalidCommand(f"{error} Goals follow it: motion go ROBOT --to {robot}.") from None
    if known.base is not None and group is None and not _for_its_arm(known, to, pose):
        if pose.given or planner or (velocity, acceleration) != (1.0, 1.0):
            raise InvalidCommand(
                f"'{known.name}' is a mobile base; its only target option is --to x,y or x,y,yaw."
            )
        request = _base_request(place, known, to, degrees)
    else:
        request = _arm_request(place, group, to, pose, degrees)
        if planner:
            straight = planner in ("PTP", "LIN")
            request.goal.request.planner_id = planner if straight else known_planner(planner)
        request.goal.request.max_velocity_scaling_factor = velocity
        request.goal.request.max_acceleration_scaling_factor = acceleration
    begin = time.monotonic()
    failure = execute(request, timeout, print_line)
    if failure:
        end = "" if failure.endswith((".", "?")) else "."
        print_line(f"target not reached: {failure}{end}")
        if time.monotonic() - begin > timeout:
            print_line(
                "Is `motion up` running, with this robot and the same ROS_DOMAIN_ID and namespace?"
            )
        raise typer.Exit(NO_SOLUTION)
    print_line(f"target reached after {time.monotonic() - begin:.1f} s.")


def _for_its_arm(robot: Robot, to: str | None, pose: PoseWords) -> bool:
    """Return whether a target of a mobile base is one of the arm on it."""
    has_arm = any(group.tip for group in robot.groups.values())
    return has_arm and (
        pose.given or (to is not None and re.search(r"[^-+\d.,e\s]", to) is not None)
    )


def _arm_request(
    place: Placement, group: str | None, to: str | None, pose: PoseWords, degrees: bool
) -> GoalRequest:
    """Return the request for an arm."""
    from motion_nodes.cli.values import Subject, TipPose
    from motion_nodes.nodes.clients.commands import arm_to_joints, arm_to_pose
    from motion_nodes.ros.names import under

    subject = Subject.of(place.robot, group, degrees)
    target = subject.destination(to, pose)
    prefix, name = f"/{place.namespace}" if place.namespace else "", subject.group.name
    if isinstance(target, TipPose):
        frame = under(place.namespace, subject.robot.base_frame)
        return arm_to_pose(prefix, name, target.tip, frame, target.X_BT, oriented=target.oriented)
    joints = dict(zip(subject.group.joints, map(float, target), strict=True))
    return arm_to_joints(prefix, name, joints)


def _base_request(place: Placement, robot: Robot, to: str | None, degrees: bool) -> GoalRequest:
    """Return the request for a mobile base."""
    import math

    from motion_nodes.cli.values import numbers
    from motion_nodes.core.navigation.planar_geometry import Pose2
    from motion_nodes.nodes.clients.commands import base_to_pose
    from motion_nodes.ros.names import under

    if to is None:
        raise InvalidCommand("give a target: --to x,y or --to x,y,yaw [m, rad].")
    x, y, *yaw = map(float, numbers(to, (2, 3), "--to", "x,y or x,y,yaw"))
    angle = yaw[0] if yaw else 0.0
    prefix = f"/{place.namespace}" if place.namespace else ""
    frame = under(place.namespace, robot.description.frames.odom)
    return base_to_pose(prefix, frame, Pose2(x, y, math.radians(angle) if degrees else angle))


def stop(timeout: Timeout = 10.0) -> None:
    """Stop all robots; they reject commands until `motion resume`.

    A software stop, which depends on this computer and the network: not an emergency stop. Prints
    each robot's time to rest. Exit code 1: a robot is not confirmed to be at rest.
    """
    from motion_nodes.cli.values import NO_SOLUTION, checked_timeout
    from motion_nodes.nodes.clients.commands import stop as call

    if not call(checked_timeout(timeout), print_line):
        raise typer.Exit(NO_SOLUTION)


def resume(timeout: Timeout = 10.0) -> None:
    """Accept commands again after a stop; interrupted motions are not resumed.

    Exit code 1: a node is still stopped.
    """
    from motion_nodes.cli.values import NO_SOLUTION, checked_timeout
    from motion_nodes.nodes.clients.commands import resume as call

    if not call(checked_timeout(timeout), print_line):
        raise typer.Exit(NO_SOLUTION)


def recover(
    robot: Annotated[
        str, typer.Argument(help="Robot, as given to `motion up`: [NAMESPACE:=]ROBOT.")
    ] = "franka",
    timeout: Annotated[
        float, typer.Option(help="Max time to wait for a suite that is starting [s].")
    ] = 60.0,
) -> None:
    """Move an arm slowly out of a shallow collision, or back inside its joint limits.

    No penetration depth increases along the path. Exit code 1: rejected or not completed; the
    reason is printed.
    """
    from motion_nodes.cli.values import NO_SOLUTION, checked_timeout
    from motion_nodes.core.robot.loader import load_description
    from motion_nodes.core.robot.placement import parse_placement
    from motion_nodes.nodes.clients.commands import recover as call

    checked_timeout(timeout)
    place = parse_placement(robot)
    known = load_description(place.robot)
    if all(group.tip is None for group in known.groups.values()):
        raise InvalidCommand(f"'{known.name}' has no arm to recover.")
    prefix = f"/{place.namespace}" if place.namespace else ""
    success, message = call(prefix, timeout, print_line)
    print_line(f"{message.rstrip('.')}.")
    if not success:
        raise typer.Exit(NO_SOLUTION)


def wait(
    robots: Annotated[
        list[str],
        typer.Argument(
            help="Robots, as given to `motion up`: [NAMESPACE:=]ROBOT.", metavar="ROBOT..."
        ),
    ],
    namespace: Annotated[str, typer.Option(help="Prefix of all robots' namespaces.")] = "",
    timeout: Annotated[float, typer.Option(help="Max time to wait [s].")] = 60.0,
    node: Annotated[
        list[str] | None,
        typer.Option(help="Node to wait for, such as move_group; may be repeated. Default: all."),
    ] = None,
) -> None:
    """Wait until all nodes of some robots are ready. Exit code 1: timeout."""
    from motion_nodes.bringup.bringup_config import BringupConfig
    from motion_nodes.bringup.compose import nodes_for
    from motion_nodes.cli.values import NO_SOLUTION, checked_timeout
    from motion_nodes.core.robot.placement import parse_placements
    from motion_nodes.nodes.clients.wait import wait_and_report

    checked_timeout(timeout)
    # The robots' own nodes; simulation and page only where they run.
    config = BringupConfig(
        placements=parse_placements(robots), backend="hardware", viewer="none", namespace=namespace
    )
    specs = nodes_for(config)
    others = () if node else ("/mujoco_sim", "/mock_sim", "/browser_viewer")
    for word in node or ():
        if word not in {spec.name for spec in specs}:
            raise InvalidCommand(
                f"'{word}' is not one of the nodes."
                f"{did_you_mean(word, [spec.name for spec in specs])}"
            )
    names = [spec.full_name for spec in specs if not node or spec.name in node]
    if not wait_and_report(names, timeout, print_line, others=others):
        print_line("Is `motion up` running, with the same ROS_DOMAIN_ID?")
        raise typer.Exit(NO_SOLUTION)


def record(
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="Output file: .mcap (messages as received, for Foxglove and ros2 bag), .jsonl or "
            ".csv (numbers).",
        ),
    ] = "recording.mcap",
    seconds: Annotated[
        float, typer.Option(help="Duration from the first message [s]; 0: until Ctrl-C.")
    ] = 0.0,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            help="Topic to record, * matches anything; may be repeated. Default: joint states, "
            "commands, odometry, poses and plans."
        ),
    ] = None,
    images: Annotated[
        bool, typer.Option("--images", help="Also images of cameras, without those of depth.")
    ] = False,
) -> None:
    """Record topics of a running suite. Exit code 1: no messages received."""
    import math
    import sys
    from pathlib import Path

    from motion_nodes.cli.values import NO_SOLUTION
    from motion_nodes.nodes.clients.commands import record as record_topics

    if not (math.isfinite(seconds) and seconds >= 0.0):
        raise InvalidCommand(f"--seconds is {seconds:g}; it must be 0 or above.")

    def progress(text: str) -> None:
        print(f"motion: recording {text}", file=sys.stderr, flush=True)

    counts = record_topics(Path(output), seconds, topic or [], progress, images)
    print_table(["topic", "messages"], sorted(counts.items()))
    if not sum(counts.values()):
        print_line("No messages received. Is a suite running, with the same ROS_DOMAIN_ID?")
        raise typer.Exit(NO_SOLUTION)
    print_line(f"{sum(counts.values())} messages in {output}.")


def play(
    file: Annotated[str, typer.Argument(help="Recording (.mcap).")],
    rate: Annotated[float, typer.Option(help="Factor of the speed.")] = 1.0,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="Topic to play, * matches anything; may be repeated. Default: all."),
    ] = None,
) -> None:
    """Publish a recording again. Commands in it move robots that run. Exit code 1: no messages."""
    import sys
    from pathlib import Path

    from motion_nodes.cli.values import NO_SOLUTION
    from motion_nodes.nodes.clients.commands import play as play_topics

    if not 1e-3 <= rate <= 1e3:
        raise InvalidCommand(f"--rate is {rate:g}; it must be 0.001 to 1000.")

    def progress(text: str) -> None:
        print(f"motion: playing {text}", file=sys.stderr, flush=True)

    patterns = [word if word.startswith(("/", "*")) else f"/{word}" for word in topic or ()]
    counts = play_topics(Path(file), rate, patterns, progress)
    print_table(["topic", "messages"], sorted(counts.items()))
    if not sum(counts.values()):
        print_line(f"No messages of these topics in {file}.")
        raise typer.Exit(NO_SOLUTION)


def task(
    words: Annotated[
        list[str],
        typer.Argument(
            help="The task, such as: put the red cube on the shelf; or a plan as JSON.",
            metavar="WORD...",
        ),
    ],
    namespace: Annotated[str, typer.Option(help="Namespace of the robot.")] = "",
    timeout: Annotated[
        float, typer.Option(help="Max time to wait for a suite that is starting [s].")
    ] = 60.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Plan and check the task without executing it.")
    ] = False,
) -> None:
    """Execute a task with an arm, and wait for its end (needs `motion up ROBOT --tasks`).

    English and Chinese sentences with the names of objects. Prints the plan and its steps; Ctrl-C
    cancels. Exit code 1: rejected or failed; the reason is printed.
    """
    from motion_nodes.cli.values import NO_SOLUTION, checked_timeout
    from motion_nodes.extras.tasks.task_plan import TaskOrder
    from motion_nodes.nodes.clients.commands import run_task

    checked_timeout(timeout)
    name = namespace.strip("/")
    order = TaskOrder(" ".join(words), dry_run)
    fault = run_task(f"/{name}" if name else "", order, timeout, print_line)
    if fault:
        print_line(f"not done: {fault}")
        raise typer.Exit(NO_SOLUTION)


def mcp(
    robot: Annotated[
        str, typer.Argument(help="Robot, as given to `motion up`: [NAMESPACE:=]ROBOT.")
    ],
    max_velocity: Annotated[
        float, typer.Option(help="Max scaling factor of velocities and accelerations, in (0, 1].")
    ] = 0.5,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Queries, cancel and stop only; nothing moves.")
    ] = False,
) -> None:
    """Serve functions for language models over MCP, on standard input and output.

    For MCP clients, which start this command themselves; it needs a running suite (`motion up`,
    with --tasks for tasks). Execution of a motion requires the token of its dry run.
    """
    import importlib.util

    from motion_nodes.core.robot.placement import parse_placement

    if importlib.util.find_spec("mcp") is None:
        raise InvalidConfig("mcp is not installed; run: pip install 'motion-nodes[mcp]'")
    from motion_nodes.api.robot_model import load_robot
    from motion_nodes.extras.agent_tools.agent_functions import AgentConfig, AgentFunctions, arm_of
    from motion_nodes.extras.agent_tools.mcp_server import serve
    from motion_nodes.nodes.clients.ros_robot_link import robot_link

    place = parse_placement(robot)
    model, config = load_robot(place.robot), AgentConfig(max_velocity, read_only)
    arm_of(model)
    with robot_link(place.namespace, model.description.base_frame) as link:
        serve(AgentFunctions(model, link, config))


hardware = Commands(help="Drivers of real robots.", no_args_is_help=True)


@hardware.command()
def drivers() -> None:
    """List the drivers."""
    from motion_nodes.extras.hardware.robot_driver import available_drivers

    for name in available_drivers():
        typer.echo(name)


@hardware.command()
def check(
    robot: RobotArgument,
    device: Annotated[
        str, typer.Option("--device", "--port", help="Serial port, host name or address.")
    ] = "",
    driver: Annotated[str, typer.Option(help="Driver; default: that of robot.yaml.")] = "",
    calibration: Annotated[str, typer.Option(help="Calibration file.")] = "",
    move: Annotated[
        bool,
        typer.Option("--move", help="Also show joints while you move them by hand, until Ctrl-C."),
    ] = False,
) -> None:
    """Check a real robot: link, permissions, drives, calibration. Nothing is enabled or moved."""
    from motion_nodes.core.robot.loader import load_description
    from motion_nodes.extras.hardware.robot_driver import check_robot, make_driver, show_motion

    described = load_description(robot)
    made = make_driver(described, driver, device=device, calibration=calibration)
    results = check_robot(made, described.limits)
    for result in results:
        typer.echo(f"{'ok  ' if result.ok else 'FAIL'}  {result.what}: {result.text}")
    good = all(result.ok for result in results)
    if move and results[0].ok:
        show_motion(made, typer.echo)
    made.close()
    raise typer.Exit(0 if good else 1)


def backend_and_driver(word: str, placements: Sequence[Placement]) -> tuple[str, str]:
    """Return the backend and the driver that ``--backend`` names.

    Raises:
        InvalidConfig: neither a backend, a driver, nor the robot that is brought up.
    """
    from motion_nodes.bringup.bringup_config import BACKENDS
    from motion_nodes.extras.hardware.robot_driver import available_drivers

    if word in BACKENDS:
        return word, ""
    if word in available_drivers():
        return "hardware", word
    if any(place.robot == word for place in placements):
        return "hardware", ""
    known = (*BACKENDS, *available_drivers())
    raise InvalidConfig(f"backend '{word}' is not known.{did_you_mean(word, known)}")


def page_and_device(port: str, device: str) -> tuple[int, str]:
    """Return the page's TCP port and the robot's device.

    Args:
        port: value of ``--port``: a number, or a path, which is the device.
        device: value of ``--device``.

    Raises:
        InvalidConfig: it is neither.
    """
    if port.isdecimal() and int(port) < 65536:
        return int(port), device
    if port.startswith("/") and not device:
        return 8080, port
    raise InvalidConfig(
        f"--port '{port}' is neither a TCP port (0 to 65535) nor the path of a device", field="port"
    )
