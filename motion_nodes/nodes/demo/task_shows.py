# SPDX-License-Identifier: Apache-2.0
"""Shows of tasks: "factory" and "bring".

In "factory" four Frankas pass a cube and stack four in a shared zone, without contact. Each arm has
its own planner, task server and planning scene. A fence in each scene separates them; it opens to
the shared zone for one arm at a time, in a fixed order. Meanwhile the others work in their own
zones. Contacts are reported by MuJoCo, the stack is checked by true poses.

Each arm of the factory plans within a fence: the wedge in front of its base, which is its own, and
the zone in the centre while it has the turn. The wedges do not overlap and the zone has one owner,
so that plans within the fences cannot collide. All numbers are in the base frame of an arm; the
cell is the same in each base frame.

In "bring" a Franka on a Nova Carter brings a cube from a shelf to a table, and back. The robot is
mounted from both robots on first use. Each round is one sentence to the task server: drive, pick,
drive, place. The result is checked by true poses of the simulation.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from geometry_msgs.msg import TransformStamped
from moveit_msgs.srv import ApplyPlanningScene
from sensor_msgs.msg import JointState
from visualization_msgs.msg import MarkerArray

from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.scene import WorldObject, world_object
from motion_nodes.extras.robot_setup.derived_robot import mounted_folder
from motion_nodes.extras.tasks.task_codes import SkillFailed
from motion_nodes.nodes.demo.arm import DemoFindings
from motion_nodes.nodes.demo.routines import RoutineClient, TaskCommands, Travel
from motion_nodes.nodes.task.remote_work import RemoteService, Work
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.rotations import quaternion_of
from motion_nodes.ros.names import BASE_NAVIGATOR, JOINT_CONTROLLER, PLANNER, TASK_SERVER
from motion_nodes.ros.scene.collision_objects import object_message, removed_message
from motion_nodes.typing import Array

CENTRE = 0.68
"""Distance of the centre from each base [m]."""
ZONE = 0.21
"""Half side of the zone [m]."""
CUBE = 0.05
"""Side of a cube [m]."""
FENCES = ("closed_fence", "open_fence")
"""Names of the fence in planning scenes; the second one leaves the zone open."""
_HEIGHT, _THICKNESS, _LENGTH = 1.5, 0.02, 1.6
"""Dimensions of a wall [m]; arms reach neither over nor around it."""
LEFT, RIGHT = (0.38, 0.1), (0.38, -0.1)
"""Places for cubes in front of an arm, in its own wedge [m]."""
MIDDLE = (CENTRE, 0.0)
"""The centre of the zone [m]."""
CUBES = {
    "red_cube": ("west", LEFT),
    "blue_cube": ("west", RIGHT),
    "green_cube": ("south", LEFT),
    "yellow_cube": ("north", LEFT),
}
"""Owner and place of each cube at the beginning."""
STACK = ("green_cube", "yellow_cube", "blue_cube", "red_cube")
"""The stack, from below."""
LEVEL, OFF_CENTRE = 0.01, 0.02
"""Max errors of a stacked cube: height, and distance from the centre [m]."""
TIMEOUT = 900.0
"""Max real time of the show [s]."""
_MASS = 0.08
HOME = ("home",)
ROBOT = "carter"
"""Namespace of the robot."""
BRING_CUBE, HEIGHT = 0.05, 0.5
"""Edge of the cube, and height of the furniture [m]."""
PLACES = {"shelf": (1.3, 0.4), "table": (-0.2, -1.4)}
"""Centres of the furniture in the world: x, y [m]."""
SIZES = {"shelf": 0.32, "table": 0.4}
"""Edges of their square tops [m]."""
BRING_CHECKS = ("the robot brought", "the cube lies on", "stand where they stood", "contact")
"""Checks of a round, see :meth:`DemoFindings.conclude`."""
BRING_LEVEL, MOVED = 5e-3, 0.01
"""Max errors: height of the placed cube; displacement of the furniture [m]."""
BRING_TIMEOUT = 900.0
"""Max real time of a round [s]."""


@dataclass(frozen=True)
class FactoryArm:
    """An arm of the cell."""

    name: str
    angle: float
    """Its heading in the world [rad]; it faces the centre, the origin."""

    @property
    def word(self) -> str:
        """Namespace, robot and placement, as for ``motion up``."""
        x, y = (-CENTRE * f(self.angle) for f in (math.cos, math.sin))
        return f"{self.name}:=franka@{x:.6f},{y:.6f},{self.angle:.6f}"

    @property
    def X_WB(self) -> Array:
        """Pose of its base in the world, shape (4, 4)."""
        x, y = (-CENTRE * f(self.angle) for f in (math.cos, math.sin))
        return from_xyz_rpy((x, y, 0.0), (0.0, 0.0, self.angle))

    def cube_at(self, place: tuple[float, float]) -> Array:
        """Return the pose of a cube on the floor in the world, shape (4, 4).

        Args:
            place: x, y in the base frame [m].
        """
        return self.X_WB @ from_xyz_rpy((*place, 0.5 * CUBE))


ARMS = tuple(
    FactoryArm(name, 0.5 * math.pi * k) for k, name in enumerate(("west", "south", "east", "north"))
)
"""The arms, named by the side on which they stand."""


def fence(*, open_zone: bool) -> WorldObject:
    """Return the fence of an arm in its base frame.

    Args:
        open_zone: whether the arm may enter the zone.
    """
    front, back = CENTRE - ZONE, CENTRE + ZONE
    walls = [
        # Between the wedges: from the corners of the zone outwards.
        *(_wall((front, side * ZONE), side * 0.75 * math.pi, _LENGTH) for side in (1.0, -1.0)),
        # The other sides of the zone.
        *(_wall((front, side * ZONE), 0.0, 2.0 * ZONE) for side in (1.0, -1.0)),
        _wall((back, -ZONE), 0.5 * math.pi, 2.0 * ZONE),
    ]
    if not open_zone:
        walls.append(_wall((front, -ZONE), 0.5 * math.pi, 2.0 * ZONE))
    solids = tuple(Box((length, _THICKNESS, _HEIGHT)) for length, _ in walls)
    return world_object(
        FENCES[open_zone],
        solids,
        np.eye(4),
        poses=tuple(pose for _, pose in walls),
        rgba=(0.3, 0.5, 0.9, 0.12),
    )


def _wall(begin: tuple[float, float], heading: float, length: float) -> tuple[float, Array]:
    """Return the length and the pose of a wall that begins at a point."""
    x, y = (
        start + 0.5 * length * f(heading)
        for start, f in zip(begin, (math.cos, math.sin), strict=True)
    )
    return length, from_xyz_rpy((x, y, 0.5 * _HEIGHT), (0.0, 0.0, heading))


ROBOTS = tuple(arm.word for arm in ARMS)
FACTORY_CHECKS = (
    *(f"{arm.name}: " for arm in ARMS),
    *(f"{cube} is number" for cube in STACK),
    "contact",
)
"""Checks of a round, see :meth:`DemoFindings.conclude`."""


class FactoryStep(NamedTuple):
    """Next action of an arm."""

    task: tuple[tuple[str, ...], ...]
    """Skills with their arguments."""
    turn: int | None = None
    """Number of the turn in the zone; None: in its own wedge."""


def pick(cube: str) -> tuple[str, ...]:
    """Return the skill that picks a cube."""
    return "pick", cube


def place(cube: str, where: str | tuple[float, float]) -> tuple[str, ...]:
    """Return the skill that places a cube on another one, or at a point [m]."""
    return "place", cube, where if isinstance(where, str) else f"{where[0]},{where[1]}"


STEPS: dict[str, tuple[FactoryStep, ...]] = {
    "west": (
        FactoryStep((pick("red_cube"),)),
        FactoryStep((place("red_cube", MIDDLE), HOME), turn=0),
        FactoryStep((pick("blue_cube"),)),
        FactoryStep((place("blue_cube", "yellow_cube"), HOME), turn=4),
    ),
    "east": (
        FactoryStep((pick("red_cube"), HOME), turn=1),
        FactoryStep((place("red_cube", LEFT), HOME)),
        FactoryStep((pick("red_cube"),)),
        FactoryStep((place("red_cube", "blue_cube"), HOME), turn=5),
    ),
    "south": (
        FactoryStep((pick("green_cube"),)),
        FactoryStep((place("green_cube", MIDDLE), HOME), turn=2),
    ),
    "north": (
        FactoryStep((pick("yellow_cube"),)),
        FactoryStep((place("yellow_cube", "green_cube"), HOME), turn=3),
    ),
}
"""Actions of each arm. The turns are the order in which arms enter the zone."""


def factory_objects() -> tuple[str, ...]:
    """Return the cubes as free objects of the simulation."""
    words = []
    for name, (owner, where) in CUBES.items():
        x, y, z = _arm(owner).cube_at(where)[:3, 3]
        yaw = _arm(owner).angle
        words.append(f"{name}:=box:{CUBE},{CUBE},{CUBE}:{_MASS}@{x:.4f},{y:.4f},{z:.4f},{yaw:.4f}")
    return tuple(words)


class ArmTasks:
    """Client of one arm: its task server, its planning scene, and its motion."""

    def __init__(self, client: RoutineClient, arm: FactoryArm) -> None:
        self.arm, self.travel = arm, Travel()
        self.tasks = TaskCommands(client, arm.name)
        client.subscribe(JointState, f"/{arm.name}/joint_states", self._on_state, qos.NEWEST)
        self._joints = load_description("franka").group("arm").joints
        self._scene = RemoteService(
            client.node, client.jobs, ApplyPlanningScene, f"/{arm.name}/apply_planning_scene"
        )

    @property
    def known(self) -> bool:
        """Whether the task server has reported all cubes."""
        return set(CUBES) <= set(self.tasks.objects)

    def execute(self, task: tuple[tuple[str, ...], ...]) -> Work:
        """Execute skills.

        Raises:
            SkillFailed: with the reason of the task server.
        """
        names = {"pick": ("object",), "place": ("object", "location"), "home": ()}
        plan = [
            {"skill": skill, "args": dict(zip(names[skill], args, strict=True))}
            for skill, *args in task
        ]
        yield from self.tasks.execute(json.dumps(plan))

    def set_fence(self, *, open_zone: bool) -> Work:
        """Replace the fence in the planning scene.

        Raises:
            SkillFailed: the planner did not accept it.
        """
        request = ApplyPlanningScene.Request()
        request.scene.is_diff = request.scene.robot_state.is_diff = True
        new, old = FENCES[open_zone], FENCES[not open_zone]
        items = [object_message(fence(open_zone=open_zone), "panda_link0")]
        if old in self.tasks.objects:
            items.append(removed_message(old, "panda_link0"))
        request.scene.world.collision_objects = items
        response = yield from self._scene.call(request, 30.0)
        if not response.success:
            raise SkillFailed("the planning scene did not accept the fence")
        while new not in self.tasks.objects or old in self.tasks.objects:
            yield

    def _on_state(self, message: JointState) -> None:
        positions = dict(zip(message.name, message.position, strict=False))
        q = np.array([positions.get(joint, math.nan) for joint in self._joints])
        if np.isfinite(q).all():
            self.travel.update(stamp_ns(message) * 1e-9, q)


class FactoryClient(RoutineClient):
    """Endpoints of all arms and of the cubes."""

    def __init__(self) -> None:
        names = (JOINT_CONTROLLER, PLANNER, TASK_SERVER)
        super().__init__([f"{arm.name}/{name}" for arm in ARMS for name in names])
        self.arms = {arm.name: ArmTasks(self, arm) for arm in ARMS}
        self.cubes: dict[str, Array] = {}
        """True positions of the cubes in the world [m], shape (3,) each."""
        self.turn = 0
        """The turn that may enter the zone."""
        self.failed = ""
        """The arm that has failed; the turns end then."""
        self.time = 0.0
        """Simulated time [s]."""
        self.subscribe(MarkerArray, "/mujoco_sim/objects", self._on_objects, qos.STREAM)
        self._placed = self.node.create_publisher(
            TransformStamped, "/mujoco_sim/move_object", qos.REQUESTS
        )

    @property
    def ready(self) -> bool:
        """Whether all nodes are ready and all task servers have reported the cubes."""
        return super().ready and all(arm.known for arm in self.arms.values())

    def put_back(self) -> None:
        """Put the cubes at their first places."""
        for name, (owner, where) in CUBES.items():
            X = _arm(owner).cube_at(where)
            message = TransformStamped(child_frame_id=name)
            move, turn = message.transform.translation, message.transform.rotation
            move.x, move.y, move.z = map(float, X[:3, 3])
            turn.x, turn.y, turn.z, turn.w = quaternion_of(X)
            self._placed.publish(message)

    def fenced(self, name: str) -> Work:
        """Close the fence of an arm."""
        yield from self.arms[name].set_fence(open_zone=False)

    def routine(self, name: str) -> Work:
        """Return the actions of an arm."""
        try:
            yield from self._steps(name)
        except SkillFailed:
            self.failed = self.failed or name
            raise

    def _steps(self, name: str) -> Work:
        arm = self.arms[name]
        for step in STEPS[name]:
            if step.turn is None:
                yield from arm.execute(step.task)
                continue
            while self.turn != step.turn:
                if self.failed:
                    raise SkillFailed(f"its turn {step.turn} is canceled: {self.failed} failed")
                yield
            print(f"  {name} enters the zone: {' '.join(step.task[0])}", flush=True)
            yield from arm.set_fence(open_zone=True)
            yield from arm.execute(step.task)
            # It is at home, behind its fence.
            yield from arm.set_fence(open_zone=False)
            self.turn += 1

    def _on_objects(self, message: MarkerArray) -> None:
        for marker in message.markers:
            p, self.time = marker.pose.position, 1e-9 * stamp_ns(marker)
            self.cubes[marker.ns] = np.array([p.x, p.y, p.z])


def show_factory(client: FactoryClient, findings: DemoFindings) -> None:
    """Pass and stack the cubes once, and check the stack and the contacts."""
    contacts, client.turn, client.failed = client.contacts, 0, ""
    client.put_back()
    failures = client.run({name: client.fenced(name) for name in client.arms}, TIMEOUT)
    for arm in client.arms.values():
        arm.travel = Travel()
    if not any(failures.values()):
        failures = client.run({name: client.routine(name) for name in client.arms}, TIMEOUT)
    if "stopped" in failures.values():
        return
    for name, arm in client.arms.items():
        length, failure = arm.travel.length, failures[name]
        done = f"did its {len(STEPS[name])} tasks; its joints moved {length:.1f} rad"
        findings.check(not failure and length > 1.0, f"{name}: {failure or done}")
    for text, ok in stack_checks(client.cubes):
        findings.check(ok, text)
    client.check_contacts(findings, contacts)


def stack_checks(cubes: dict[str, Array]) -> list[tuple[str, bool]]:
    """Return the text and the result of the checks of the stack.

    Args:
        cubes: positions of the cubes in the world [m], shape (3,) each.
    """
    found = []
    for k, name in enumerate(STACK):
        x, y, z = cubes[name]
        off, height = math.hypot(x, y), z - (k + 0.5) * CUBE
        ok = off <= OFF_CENTRE and abs(height) <= LEVEL
        found.append((
            f"{name} is number {k + 1} of the stack: {1e3 * off:.0f} mm off the centre, "
            f"{1e3 * height:+.0f} mm from its height", ok,
        ))  # fmt: skip
    return found


def _arm(name: str) -> FactoryArm:
    return next(arm for arm in ARMS if arm.name == name)


BRING_OBJECTS = (
    f"red_cube:=box:{BRING_CUBE},{BRING_CUBE},{BRING_CUBE}:0.1@1.3,0.4,{HEIGHT + 0.5 * BRING_CUBE}",
    *(
        f"{name}:=box:{SIZES[name]},{SIZES[name]},{HEIGHT}:30@{x},{y},{0.5 * HEIGHT}"
        for name, (x, y) in PLACES.items()
    ),
)


def bring_robots() -> tuple[str, ...]:
    """Return the robot, mounted on first use."""
    return (f"{ROBOT}:={mounted_folder('nova_carter', 'franka', (0.0, 0.0, 0.422))}",)


class BringClient(RoutineClient):
    """Endpoints of the robot and of the objects."""

    def __init__(self) -> None:
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
    failure = client.run({ROBOT: client.tasks.execute(task)}, BRING_TIMEOUT)[ROBOT]
    if failure == "stopped":
        return
    if client.tasks.replaced:
        client.release("robot")
        return
    retried = len(client.tasks.failed_attempts)
    done = f"the robot brought the cube to the {place}; {retried} failed attempts so far"
    findings.check(not failure, failure or done)
    client.spin(0.5)
    off = client.objects["red_cube"] - (*PLACES[place], HEIGHT + 0.5 * BRING_CUBE)
    lies = bool(np.abs(off[:2]).max() < 0.5 * SIZES[place]) and abs(off[2]) < BRING_LEVEL
    findings.check(
        lies, f"the cube lies on the {place}: {1e3 * np.linalg.norm(off[:2]):.0f} mm off its "
        f"centre, {1e3 * off[2]:+.0f} mm from its height",
    )  # fmt: skip
    moved = max(float(np.linalg.norm(client.objects[name] - before[name])) for name in PLACES)
    findings.check(
        moved < MOVED, f"shelf and table stand where they stood, within {1e3 * moved:.0f} mm"
    )
    client.check_contacts(findings, contacts)
