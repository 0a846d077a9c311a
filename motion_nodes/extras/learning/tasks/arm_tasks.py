# SPDX-License-Identifier: Apache-2.0
"""Tasks of arms: reach of any one, grasp and drawer of the Franka.

In *reach* the tool moves to a random point and stays there; in *grasp* the gripper picks a cube
from the floor and carries it to a target above.

In *drawer* it opens a drawer by its handle. Observation and action are those of Isaac Sim's example
policy of the Franka that opens a drawer: 31 and 8 numbers. The cabinet is a model of boxes.

The reward of grasping is the usual sum of terms, or a corrected form without exploits. The plain
sum rewards holding the object in every step, so that hovering yields more than placing; its torque
term dominates (75.69 per step for one joint at 87 N m); and its placing term is active before the
object is held. The corrected form rewards progress and events once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import mujoco
import numpy as np

from motion_nodes.core.robot.kinematics import GroupKinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.extras.learning.networks import Floats
from motion_nodes.extras.learning.tasks.robot_cell import (
    FINGERS,
    HARD,
    JITTER,
    ROBOT,
    ArmCell,
    ObservedQuantity,
    TaskState,
)
from motion_nodes.extras.sim.cell_words import FreeBody
from motion_nodes.extras.sim.free_bodies import PREFIX, RANGE, add_drawer, handle_in_drawer
from motion_nodes.settings import check_settings, setting

_DEFAULT = (0.0, -0.3, 0.0, -2.2, 0.0, 1.9, 0.785)
"""Tool pointing down in front of the robot [rad]."""
_LOWER, _UPPER = np.array([0.35, -0.3, 0.2]), np.array([0.65, 0.3, 0.6])
"""Region of targets in the base [m]."""
_AROUND, _FLOOR, _TRIES = 0.6, 0.05, 20
"""Deviation of joints from ``ready`` at targets of other robots [rad], min height of these targets
[m], and number of draws for one above it."""
_NEAR = 0.02
"""Distance that counts as success [m]."""
_DRAWER_DEFAULT = (0.0, -0.3, 0.0, -2.3, 0.0, 3.571, 2.356)
"""Tool pointing forward at (0.58, 0, 0.66) m, fingers above each other [rad]."""
_HANDLE = (0.72, 0.0, 0.62)
"""Centre of the handle of the closed drawer [m]."""
_DRAWER_SIZE, _MASS = (0.4, 0.4, 0.2), 1.5
"""Depth, width and height of the drawer [m], and its mass [kg]."""
_BEFORE = 0.1
"""Max distance of the tool from the handle in assisted episodes [m]."""
_OPEN = 0.2
"""Opening that counts as success [m]."""
_GRASP_DEFAULT = (0.0, 0.046, 0.0, -2.376, 0.0, 2.422, 0.785)
"""Tool pointing down at (0.5, 0, 0.2) m [rad]."""
_SIZE = 0.05
"""Edge of the cube [m]."""
_CENTRE, _SPREAD, _YAW = np.array([0.5, 0.0]), np.array([0.08, 0.12]), 0.25
"""Position of the cube on the floor [m], deviations from it [m], and max rotation [rad]."""
_TARGET = np.array([0.5, 0.0, 0.25])
"""Target position of the cube [m]."""
_ABOVE = 0.12
"""Max height of the tool above the cube in assisted episodes [m]."""
_HELD, _PLACED, _LOST = 0.04, 0.05, 0.4
"""Distance of a held cube from the tool, of a placed one from its target, and horizontal distance
of a lost one [m]."""
_REWARDED = 0.025
"""Distance from the target that earns the bonus of placing [m]. The bonus is paid once, so policies
end at this distance; at that of a success, every other episode would end just outside."""


class Reach(ArmCell):
    """Reach a random point; of the Franka, with the 23 observations of the classic exercise.

    Targets of other robots are where the tool is at random positions around the state ``ready``.
    """

    episode_steps = 50

    def __init__(self, robot_name: str = ROBOT) -> None:
        """Build the world.

        Args:
            robot_name: a robot with a group ``arm``, a state ``ready`` and a tool.
        """
        robot = load_robot(robot_name)
        arm = robot.group("arm").joints
        franka = robot_name == ROBOT
        default = _DEFAULT if franka else robot.named_state("ready", "arm").tolist()
        super().__init__(default, (0.5,) * len(arm), robot_name)
        self.name = "reach" if franka else f"reach/{robot_name}"
        self.arguments = (robot_name,)
        self._kinematics = None if franka else GroupKinematics(robot, arm, robot.home)
        n, self._tool_frame = self.moved, robot.tool_frame or ""
        self.observation_terms = (
            ObservedQuantity("joint_pos", n, "positions of the arm's joints [rad]"),
            ObservedQuantity("joint_vel", n, "velocities of the arm's joints [rad/s]"),
            ObservedQuantity("target_position", 3, "target in the base [m]"),
            ObservedQuantity("tool_position", 3, "tool in the base [m]"),
            ObservedQuantity("tool_velocity", 3, "velocity of the tool in the base [m/s]"),
        )

    def new_memory(self, n: int) -> dict[str, Floats]:
        """Return the memory of n environments: their targets."""
        return {"target": np.zeros((n, 3))}

    def start(
        self, rng: np.random.Generator, n: int, assisted: float
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return n initial positions and random targets; this task needs no assistance."""
        return self.start_positions(rng, n, JITTER), {"target": self._targets(rng, n)}

    def _targets(self, rng: np.random.Generator, n: int) -> Floats:
        """Return n random targets [m], shape (n, 3)."""
        if self._kinematics is None:
            return rng.uniform(_LOWER, _UPPER, (n, 3))
        arm = self.moved
        low = np.maximum(self.default[:arm] - _AROUND, self.lower[:arm])
        high = np.minimum(self.default[:arm] + _AROUND, self.upper[:arm])
        found = np.empty((n, 3))
        for k in range(n):
            for _ in range(_TRIES):
                q = rng.uniform(low, high)
                found[k] = self._kinematics.pose(q, self._tool_frame)[:3, 3]
                if found[k, 2] > _FLOOR:
                    break
        return found

    def observe(self, state: TaskState) -> Floats:
        """Return observations, shape (n, observation_size)."""
        return np.hstack(
            (
                self.positions(state)[:, : self.moved],
                self.velocities(state)[:, : self.moved],
                state.memory["target"],
                self.tool(state),
                state.sensors[:, self.sensor("tool.FRAMELINVEL")],
            )
        )

    def assess(self, before: TaskState, after: TaskState) -> tuple[Floats, Floats, Floats]:
        """Return reward, whether a terminal state is reached, and success, each of shape (n,)."""
        distance = np.linalg.norm(self.tool(after) - after.memory["target"], axis=1)
        change = np.square(after.actions - before.actions).sum(axis=1)
        effort = np.square(self.efforts(after) / self.max_effort).sum(axis=1)
        near = np.exp(-np.square(distance / (2.0 * _NEAR)))
        reward = -distance + 0.2 * near - 1e-3 * change - 2e-3 * effort
        return reward, np.zeros(len(distance), bool), distance < _NEAR


class Drawer(ArmCell):
    """Open a drawer."""

    name = "drawer"
    relative, gripper = True, True
    episode_steps = 100
    observation_terms = (
        ObservedQuantity("joint_pos_rel", 9, "positions of the joints minus default [rad, m]"),
        ObservedQuantity("joint_vel", 9, "velocities of the joints [rad/s, m/s]"),
        ObservedQuantity("drawer_position", 1, "opening of the drawer [m]"),
        ObservedQuantity("drawer_velocity", 1, "velocity of the drawer [m/s]"),
        ObservedQuantity("handle_from_tool", 3, "centre of the handle minus tool, in the base [m]"),
        ObservedQuantity("last_action", 8, "previous raw action"),
    )

    def __init__(self) -> None:
        super().__init__(_DRAWER_DEFAULT, (0.1,) * 7)
        joint = self.model.joint("drawer")
        self._drawer_q, self._drawer_v = int(joint.qposadr[0]), int(joint.dofadr[0])

    def add_scenery(self, spec: mujoco.MjSpec) -> None:
        """Add a cabinet with a drawer that slides towards the robot."""
        super().add_scenery(spec)
        body = add_drawer(spec, "drawer", from_xyz_rpy(_HANDLE), _DRAWER_SIZE, _MASS, HARD)
        at = handle_in_drawer(_DRAWER_SIZE[0])[:3, 3]
        body.add_site(name="handle", pos=at)
        self.add_sensor(spec, "handle", "FRAMEPOS", mujoco.mjtObj.mjOBJ_SITE, "handle")

    def new_memory(self, n: int) -> dict[str, Floats]:
        """Return the memory of n environments: none."""
        return {}

    def start(
        self, rng: np.random.Generator, n: int, assisted: float
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return n initial positions, with a closed drawer.

        Assisted episodes begin with the open gripper around the handle or before it.
        """
        q = self.start_positions(rng, n, JITTER)
        rows = np.flatnonzero(rng.random(n) < assisted)
        places = np.tile(self.default_pose, (len(rows), 1, 1))
        places[:, :3, 3] = _HANDLE
        places[:, 0, 3] -= rng.uniform(0.0, _BEFORE, len(rows))
        self.put_tool(q, rows, places)
        return q, {}

    def opening(self, state: TaskState) -> Floats:
        """Return the opening of the drawer [m], shape (n,)."""
        return state.q[:, self._drawer_q]

    def handle_from_tool(self, state: TaskState) -> Floats:
        """Return the handle minus the tool in the base [m], shape (n, 3)."""
        offset: Floats = state.sensors[:, self.sensor("handle")] - self.tool(state)
        return offset

    def observe(self, state: TaskState) -> Floats:
        """Return observations, shape (n, 31)."""
        return np.hstack(
            (
                self.positions(state) - self.default,
                self.velocities(state),
                self.opening(state)[:, None],
                state.v[:, self._drawer_v, None],
                self.handle_from_tool(state),
                self.last_action(state),
            )
        )

    def assess(self, before: TaskState, after: TaskState) -> tuple[Floats, Floats, Floats]:
        """Return reward, whether a terminal state is reached, and success, each of shape (n,)."""
        progress = self._potential(after) - self._potential(before)
        change = np.square(after.actions[:, :7] - before.actions[:, :7]).sum(axis=1)
        opening = self.opening(after)
        near = np.exp(-np.square(np.linalg.norm(self.handle_from_tool(after), axis=1) / 0.05))
        reward = progress + 0.05 * near + 0.2 * opening / RANGE - 5e-4 * change
        return reward, np.zeros(len(reward), bool), opening > _OPEN

    def _potential(self, state: TaskState) -> Floats:
        """Return a potential: near the handle, and the drawer open."""
        distance = np.linalg.norm(self.handle_from_tool(state), axis=1)
        potential: Floats = 40.0 * self.opening(state) - 12.0 * distance
        return potential


@dataclass(frozen=True)
class PickState:
    """State that the rewards depend on, for m environments."""

    gripper: Floats
    """Positions of the gripper [m], shape (m, 3)."""
    item: Floats
    """Positions of the object [m], shape (m, 3)."""
    target: Floats
    """Target positions of the object [m], shape (m, 3)."""
    grasped: Floats
    """Whether it is held, shape (m,)."""
    placed: Floats
    """Whether it is at the target, shape (m,)."""


def plain_pick_reward(state: PickState, torques: Floats) -> Floats:
    """Return ``-|g - o| + 10 grasped - |o - t| + 50 placed - 0.01 sum tau^2``, shape (m,).

    For reference only; it rewards hovering with the object (see the module docstring).

    Args:
        state: the state after the step.
        torques: of the joints [N m], shape (m, n).
    """
    total: Floats = (
        -_distance(state.gripper, state.item)
        + 10.0 * state.grasped
        - _distance(state.item, state.target)
        + 50.0 * state.placed
        - 0.01 * (torques**2).sum(axis=-1)
    )
    return total


@dataclass(frozen=True, kw_only=True)
class PickReward:
    """Corrected reward: potential-based shaping, one-shot bonuses, relative torques.

    ``gamma Phi(s') - Phi(s)`` with ``Phi = -distance (|g - o| + p)``, where ``p`` is ``|o - t|``
    while the object is held, else ``reach``. Over an episode it sums up to the difference of two
    potentials, and leaves the optimal policy unchanged
    (Ng, Harada and Russell 1999).

    Raises:
        InvalidConfig: a value out of range.
    """

    gamma: float = setting(
        0.99,
        doc="Discount factor of the learner; 1: differences of the potential, which pay nothing "
        "for staying away from the goal.", ge=0.0, le=1.0,
    )  # fmt: skip
    distance: float = setting(1.0, doc="Weight of distances.", unit="1/m", ge=0.0)
    grasp: float = setting(10.0, doc="Bonus of the first grasp.", ge=0.0)
    place: float = setting(50.0, doc="Bonus of the first placing.", ge=0.0)
    torque: float = setting(0.01, doc="Weight of squared torques, relative to limits.", ge=0.0)
    reach: float = setting(
        1.0, doc="Placing distance that counts while the object is not held.", unit="m", gt=0.0
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def potential(self, state: PickState) -> Floats:
        """Return ``Phi``, shape (m,).

        While the object is not held, the largest placing distance counts instead of the current
        one: pushing it towards the target is not rewarded, and grasping is not penalized.
        """
        place = np.minimum(_distance(state.item, state.target), self.reach)
        remaining = np.where(state.grasped, place, self.reach)
        potential: Floats = _distance(state.gripper, state.item) + remaining
        return -self.distance * potential

    def __call__(
        self,
        before: PickState,
        after: PickState,
        torques: Floats,
        torque_limits: Floats,
        grasp_due: Floats,
        place_due: Floats,
    ) -> Floats:
        """Return the reward of a step, shape (m,).

        Args:
            before: state before the step.
            after: state after it.
            torques: of the joints [N m], shape (m, n).
            torque_limits: shape (n,).
            grasp_due: whether the grasp bonus is still due in this episode, shape (m,).
            place_due: likewise for placing.
        """
        shaping = self.gamma * self.potential(after) - self.potential(before)
        bonus = self.grasp * (after.grasped & grasp_due) + self.place * (after.placed & place_due)
        effort = ((torques / torque_limits) ** 2).sum(axis=-1)
        total: Floats = shaping + bonus - self.torque * effort
        return total


def _distance(a: Floats, b: Floats) -> Floats:
    distances: Floats = np.linalg.norm(a - b, axis=-1)
    return distances


class Grasp(ArmCell):
    """Pick a cube and carry it."""

    name = "grasp"
    relative, gripper = True, True
    objects = (FreeBody("cube", Box((_SIZE,) * 3), 0.1, friction=1.0),)
    episode_steps = 75
    observation_terms = (
        ObservedQuantity("joint_pos_rel", 9, "positions of the joints minus default [rad, m]"),
        ObservedQuantity("joint_vel", 9, "velocities of the joints [rad/s, m/s]"),
        ObservedQuantity("object_from_tool", 3, "centre of the cube minus tool, in the base [m]"),
        ObservedQuantity("object_position", 3, "centre of the cube in the base [m]"),
        ObservedQuantity("object_yaw", 2, "cosine and sine of four times the cube's yaw"),
        ObservedQuantity("last_action", 8, "previous raw action"),
    )

    def __init__(self) -> None:
        super().__init__(_GRASP_DEFAULT, (0.1,) * 7)
        self._cube_q = int(self.model.joint(f"{PREFIX}cube").qposadr[0])
        self._contacts = [self.sensor(f"contact{i}").start for i in range(2)]
        self._reward = PickReward(
            gamma=1.0, distance=12.0, grasp=3.0, place=6.0, torque=0.001, reach=0.32
        )

    def add_scenery(self, spec: mujoco.MjSpec) -> None:
        """Add contact sensors between the fingers and the cube, and harden its contacts."""
        super().add_scenery(spec)
        for geom in spec.body(f"{PREFIX}cube").geoms:
            # Above the priority of the fingers, whose own parameters would soften the pair.
            geom.solref, geom.priority = HARD, 2
        for i, finger in enumerate(FINGERS):
            spec.add_sensor(
                name=f"contact{i}",
                type=mujoco.mjtSensor.mjSENS_CONTACT,
                objtype=mujoco.mjtObj.mjOBJ_BODY,
                objname=finger,
                reftype=mujoco.mjtObj.mjOBJ_BODY,
                refname=f"{PREFIX}cube",
                # Data: number of contacts; no reduction; one slot.
                intprm=[1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND), 0, 1],
            )

    def new_memory(self, n: int) -> dict[str, Floats]:
        """Return the memory of n environments: whether the cube is held, which bonuses are due."""
        return {
            "held": np.zeros(n, bool),
            "grasp_due": np.ones(n, bool),
            "place_due": np.ones(n, bool),
        }

    def start(
        self, rng: np.random.Generator, n: int, assisted: float
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return n initial positions and memories, with the cube at a random place.

        Half of the assisted episodes begin with the cube between the fingers, on the way to the
        target, the others with the open gripper around the cube or above it.
        """
        q, at = self.start_positions(rng, n, JITTER), self._cube_q
        q[:, at : at + 2] = _CENTRE + rng.uniform(-_SPREAD, _SPREAD, (n, 2))
        q[:, at + 2] = 0.5 * _SIZE
        half = 0.5 * rng.uniform(-_YAW, _YAW, n)
        q[:, at + 3], q[:, at + 6] = np.cos(half), np.sin(half)
        self._assist(q, np.flatnonzero(rng.random(n) < assisted), rng)
        return q, self.new_memory(n)

    def _assist(self, q: Floats, rows: Floats, rng: np.random.Generator) -> None:
        """Change initial positions to those of assisted episodes."""
        cube = slice(self._cube_q, self._cube_q + 3)
        between = rng.random(len(rows)) < 0.5
        held = rows[between]
        way = rng.random((len(held), 1))
        q[held, cube] += way * (_TARGET - q[held, cube])
        q[held, cube.stop : cube.stop + 4] = (1.0, 0.0, 0.0, 0.0)
        q[np.ix_(held, self.joint_q[7:])] = 0.5 * _SIZE + 5e-4
        places = np.tile(self.default_pose, (len(rows), 1, 1))
        places[:, :3, 3] = q[rows, cube]
        places[~between, 2, 3] += rng.uniform(0.0, _ABOVE, len(rows) - len(held))
        self.put_tool(q, rows, places)

    def cube(self, state: TaskState) -> Floats:
        """Return the centre of the cube in the base [m], shape (n, 3)."""
        return state.q[:, self._cube_q : self._cube_q + 3]

    def observe(self, state: TaskState) -> Floats:
        """Return observations, shape (n, 34)."""
        cube = self.cube(state)
        w, x, y, z = state.q[:, self._cube_q + 3 : self._cube_q + 7].T
        # A square is symmetric under quarter turns.
        yaw = 4.0 * np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        return np.hstack(
            (
                self.positions(state) - self.default,
                self.velocities(state),
                cube - self.tool(state),
                cube,
                np.stack((np.cos(yaw), np.sin(yaw)), axis=1),
                self.last_action(state),
            )
        )

    def pick_state(self, state: TaskState) -> PickState:
        """Return the state of picking; a grasp is contact of both fingers at this instant."""
        cube, tool = self.cube(state), self.tool(state)
        target = np.broadcast_to(_TARGET, cube.shape)
        grasped = (state.sensors[:, self._contacts] > 0).all(axis=1) & _between(cube, tool)
        placed = grasped & (np.linalg.norm(cube - target, axis=1) < _PLACED)
        return PickState(tool, cube, target, grasped, placed)

    def _still_held(self, state: TaskState, pick: PickState, held: Floats) -> Floats:
        """Return whether the cube is held: from a grasp until no finger touches it, shape (n,).

        While the cube is carried, one finger loses contact in some percent of the instants. A
        reward of the instant would take back and return all that lifting earns each time, which
        no observation predicts: several times the reward of moving.
        """
        touched = (state.sensors[:, self._contacts] > 0).any(axis=1)
        still: Floats = pick.grasped | (held & touched & _between(pick.item, pick.gripper))
        return still

    def assess(self, before: TaskState, after: TaskState) -> tuple[Floats, Floats, Floats]:
        """Return reward, whether a terminal state is reached, and success, each of shape (n,)."""
        now, memory = self.pick_state(after), after.memory
        held = self._still_held(after, now, memory["held"])
        close = held & (np.linalg.norm(now.item - now.target, axis=1) < _REWARDED)
        reward = self._reward(
            replace(self.pick_state(before), grasped=memory["held"]),
            replace(now, grasped=held, placed=close),
            self.efforts(after),
            self.max_effort,
            memory["grasp_due"],
            memory["place_due"],
        )
        memory["held"] = held
        memory["grasp_due"] &= ~held
        memory["place_due"] &= ~close
        change = np.square(after.actions[:, :7] - before.actions[:, :7]).sum(axis=1)
        # Penalize alternating gripper commands, which wear the gripper.
        turned = (after.actions[:, 7] >= 0.0) != (before.actions[:, 7] >= 0.0)
        lost = np.linalg.norm(now.item[:, :2] - _CENTRE, axis=1) > _LOST
        return reward - 5e-4 * change - 0.03 * turned, lost, now.placed


def _between(cube: Floats, tool: Floats) -> Floats:
    """Return whether cubes are between the fingers, shape (n,)."""
    near: Floats = np.linalg.norm(cube - tool, axis=1) < _HELD
    return near
