# SPDX-License-Identifier: Apache-2.0
"""``motion spheres``: browser-based editor of a robot's collision spheres."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from motion_nodes.cli.options import RobotArgument


def spheres(
    robot: RobotArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Output file; default: spheres.yaml in the given robot folder, else "
            "./ROBOT_spheres.yaml.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="TCP port of the browser page.")] = 8080,
    host: Annotated[str, typer.Option(help="Listening address of the page.")] = "127.0.0.1",
    dark: Annotated[bool, typer.Option("--dark", help="Dark page.")] = False,
    shadows: Annotated[bool, typer.Option(help="Shadows and reflections.")] = True,
) -> None:
    """Edit a robot's collision spheres in the browser until Ctrl-C."""
    from motion_nodes.model.loader import ROBOT_FILE
    from motion_nodes.robot_setup.derived_robot import load_description
    from motion_nodes.robot_setup.sphere_set import SPHERES_FILE
    from motion_nodes.view.sphere_editor import SphereEditor
    from motion_nodes.view.sphere_session import SphereSession

    loaded = load_description(robot)
    file = output
    given = Path(robot).expanduser().resolve()
    # Not that of a name or a URDF: shipped robots and cache entries are not changed.
    if file is None and loaded.directory.resolve() == (
        given.parent if given.name == ROBOT_FILE else given
    ):
        file = loaded.directory / (loaded.description.collision.spheres or SPHERES_FILE)
    session = SphereSession(loaded, file or Path(f"{loaded.name}_{SPHERES_FILE}"))
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with SphereEditor(session, port, host=host, dark=dark, shadows=shadows) as editor:
        print(f"Open {editor.url} in a browser. Saves to {session.file}. Ctrl-C ends.", flush=True)
        stop.wait()
    if session.unsaved:
        print("Unsaved changes were discarded.")
