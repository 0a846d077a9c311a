# SPDX-License-Identifier: Apache-2.0
"""Show "bring": a Franka on a Nova Carter brings a cube from a shelf to a table, and back.

The robot is mounted from both robots on first use. Each round is one sentence to the task server:
drive, pick, drive, place. The result is checked by true poses of the simulation.
"""

from __future__ import annotations

import numpy as np
from visualization_msgs.msg import MarkerArray

from motion_nodes.nodes.demo.client import DemoFindings
from motion_nodes.nodes.demo.routines import RoutineClient
from motion_nodes.nodes.demo.task_commands import TaskCommands
from motion_nodes.robot_setup.derived_robot import mounted_folder
from motion_nodes.ros import qos
from motion_nodes.ros.names import BASE_NAVIGATOR, JOINT_CONTROLLER, PLANNER, TASK_SERVER
from motion_nodes.typing import Array

ROBOT = "carter"
"""Namespace of the robot."""
CUBE, HEIGHT = 0.05, 0.5
"""Edge of the cube, and height of the furniture [m]."""
PLACES = {"shelf": (1.3, 0.4), "table": (-0.2, -1.4)}
"""Centres of the furniture in the world: x, y [m]."""
SIZES = {"shelf": 0.32, "table": 0.4}
"""Edges of their square tops [m]."""
OBJECTS = (
    f"red_cube:=box:{CUBE},{CUBE},{CUBE}:0.1@1.3,0.4,{HEIGHT + 0.5 * CUBE}",
    *(
        f"{name}:=box:{SIZES[name]},{SIZES[name]},{HEIGHT}:30@{x},{y},{0.5 * HEIGHT}"
        for name, (x, y) in PLACES.items()
    ),
)
CHECKS = ("the robot brought", "the cube lies on", "stand where they stood", "contact")
"""Checks of a round, see :meth:`DemoFindings.conclude`."""
LEVEL, MOVED = 5e-3, 0.01
"""Max errors: height of the placed cube; displacement of the furniture [m]."""
TIMEOUT = 900.0
"""Max real time of a round [s]."""


def robots() -> tuple[str, ...]:
    """Return the robot, mounted on first use."""
    return (f"{ROBOT}:={mounted_folder('nova_carter', 'franka', (0.0, 0.0, 0.422))}",)


class BringClient(RoutineClient):
    """Endpoints of the robot and of the objects."""

    def __init__(self) -> None:
        """Create the client."""
        nodes = (JOINT_CONTROLLER, PLANNER, TASK_SERVER, BASE_NAVIGATOR)
        super().__init__([f"{ROBOT}/{name}" for name in nodes])
        self.tasks = TaskCommands(self, ROBOT)
        self.objects: dict[str, Array] = {}
        """True positions of the objects in the world [m], shape (3,) each."""
        self.subscribe(MarkerArray, "/mujoco_sim/objects", self._on_objects, qos.STREAM)

    @property
    def ready(self) -> bool:
        """Whether all nodes are ready, and the task server has reported all objects."""
        names = {"red_cube", *PLACES}
        return super().ready and names <= set(self.tasks.objects) and names <= set(self.objects)

    @property
    def destination(self) -> str:
        """The piece of furniture that the cube is farther from."""
        at = self.objects["red_cube"][:2]
        return max(PLACES, key=lambda name: float(np.linalg.norm(at - PLACES[name])))

    def _on_objects(self, message: MarkerArray) -> None:
        for marker in message.markers:
            p = marker.pose.position
            self.objects[marker.ns] = np.array([p.x, p.y, p.z])


def show_bringing(client: BringClient, findings: DemoFindings) -> None:
    """Bring the cube to the other piece of furniture, and check where everything is."""
    if client.tasks.replaced:
        client.release("robot")
        return
    place, contacts = client.destination, client.contacts
    before = {name: client.objects[name] for name in PLACES}
    task = f"bring the red cube to the {place}"
    print(f"  task: {task}", flush=True)
    failure = client.run({ROBOT: client.tasks.execute(task)}, TIMEOUT)[ROBOT]
    if failure == "stopped":
        return
    if client.tasks.replaced:
        client.release("robot")
        return
    retried = len(client.tasks.failed_attempts)
    done = f"the robot brought the cube to the {place}; {retried} failed attempts so far"
    findings.check(not failure, failure or done)
    client.spin(0.5)
    off = client.objects["red_cube"] - (*PLACES[place], HEIGHT + 0.5 * CUBE)
    lies = bool(np.abs(off[:2]).max() < 0.5 * SIZES[place]) and abs(off[2]) < LEVEL
    findings.check(
        lies, f"the cube lies on the {place}: {1e3 * np.linalg.norm(off[:2]):.0f} mm off its "
        f"centre, {1e3 * off[2]:+.0f} mm from its height",
    )  # fmt: skip
    moved = max(float(np.linalg.norm(client.objects[name] - before[name])) for name in PLACES)
    findings.check(
        moved < MOVED, f"shelf and table stand where they stood, within {1e3 * moved:.0f} mm"
    )
    client.check_contacts(findings, contacts)
