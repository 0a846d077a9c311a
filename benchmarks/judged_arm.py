# SPDX-License-Identifier: Apache-2.0
"""An arm in MuJoCo that follows a policy in lockstep, judged by MuJoCo's contacts.

The robot has the collision shapes of its URDF, meshes as their convex hulls, and its PD drives with
their effort limits; objects of the scene are bodies that move as the scene says. Contacts are read
after each physics step, clearances by ``mj_geomDistance`` after each period of the policy. The
floor is far below the base.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np
from harness import Cell

from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.follower_settings import RobotMotion
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.target_follower import Follower
from motion_nodes.scene.scene import Scene
from motion_nodes.sim.cell_contacts import ContactLog
from motion_nodes.sim.drive_targets import JointTargets
from motion_nodes.sim.mjcf_shapes import quat_wxyz
from motion_nodes.sim.mujoco_world import MujocoWorld
from motion_nodes.sim.placement import RobotPlacement
from motion_nodes.sim.scene_bodies import PREFIX, bodies_of

FRAME = 0.01
"""Period of the policy [s]."""
JUDGED = ("touched", "links touched", "deepest [mm]", "least [mm]", "lag [mm]", "CPU [µs]",
          "99 % [µs]")  # fmt: skip
_NAME = "arm"
_ABOVE = from_xyz_rpy((0.0, 0.0, 3.0))


@dataclass
class Verdict:
    """What MuJoCo says of one run."""

    contacts: ContactLog = field(default_factory=ContactLog)
    clearance: float = np.inf
    """Least distance of links that move from objects [m]; negative: penetration."""
    lags: list[float] = field(default_factory=list)
    """Distance of the tool from its reference after each period [m]."""
    cpu: list[float] = field(default_factory=list)
    """Processor time of the policy in each period, its scene included [s]."""

    def touched(self, *, links: bool = False) -> bool:
        """Return whether a link touched an object, or with ``links`` another link."""
        return any(pair[1].startswith(_NAME) == links for pair in self.contacts.records)

    @property
    def depth(self) -> float:
        """Max penetration [m]; 0 without a contact."""
        return max((each.depth for each in self.contacts.records.values()), default=0.0)


class JudgedArm:
    """A simulated arm, commanded by a follower."""

    def __init__(self, policy: RmpflowPolicy) -> None:
        """Build the simulation."""
        self.policy, robot = policy, policy.robot
        self._placement = RobotPlacement(robot, _NAME, _ABOVE)
        self._world = MujocoWorld([self._placement])
        self._active = robot.indices(policy.active_joints)
        self._watched = robot.indices(policy.watched_joints)
        self._geoms = (np.empty(0, int), np.empty(0, int))
        """Indices of the geoms of links that move, and of objects."""
        self._scene, self._mocap = Scene(), dict[str, int]()
        self._sent = robot.home[self._active]
        self.verdict = Verdict()

    def start(self, q: Array, scene: Scene) -> None:
        """Begin a run at rest, with the fingers at home."""
        self.verdict = Verdict()
        self._world.reset()
        self.place(q, scene)

    def place(self, q: Array, scene: Scene) -> None:
        """Put the joints and the objects somewhere, at rest."""
        world = self._world
        self._set_scene(Scene())  # the new objects may be where the arm stands now
        self._command(q, np.zeros(len(q)))
        world.step()  # drives read their command
        for joint, angle in zip(self.policy.active_joints, q, strict=True):
            world.data.joint(f"{_NAME}/{joint}").qpos[:] = angle
        world.data.qvel[:] = 0.0
        self._set_scene(scene)
        assert not world.body_faults, world.body_faults
        mujoco.mj_forward(world.model, world.data)

    def follow(self, follower: Follower, scene: Scene, now: float) -> tuple[Array, Array]:
        """Let follower and physics do a period; return the joints' measured state, (n,) each."""
        q, qd = (np.asarray(each) for each in self._world.state(_NAME)[:2])
        motion = RobotMotion(q[self._active], qd[self._active], q[self._watched], qd[self._watched])
        began = time.thread_time()
        if scene is not self.policy.scene:
            self.policy.set_scene(scene, now)
        reference = follower.step(motion, FRAME, now)
        self.verdict.cpu.append(time.thread_time() - began)
        if reference is not None:
            self._command(*reference)
        self._set_scene(scene)
        for _ in range(round(FRAME / self._world.time_step)):
            self._world.step()
            self.verdict.contacts.add(self._world.time, self._world.contacts())
        self.verdict.clearance = self.clearance(self.verdict.clearance)
        state = tuple(np.asarray(each)[self._active] for each in self._world.state(_NAME)[:2])
        tools = [self.policy.tool_pose(q)[:3, 3].copy() for q in (state[0], self._sent)]
        self.verdict.lags.append(float(np.linalg.norm(tools[0] - tools[1])))
        return state[0], state[1]

    def clearance_at_rest(self, scene: Scene) -> float:
        """Return the distance of the arm, where it stands, from the objects of a scene [m]."""
        self._set_scene(scene)
        mujoco.mj_kinematics(self._world.model, self._world.data)
        return self.clearance(np.inf)

    def clearance(self, most: float) -> float:
        """Return the distance of links that move from objects, at most ``most`` [m]."""
        model, data = self._world.model, self._world.data
        links, objects = self._geoms
        p, r = data.geom_xpos, model.geom_rbound
        gaps = np.linalg.norm(p[links][:, None] - p[objects], axis=2)
        gaps -= r[links][:, None] + r[objects]
        for i, j in np.argwhere(gaps < most):
            a, b = int(links[i]), int(objects[j])
            reach = min(most, 10.0)
            most = min(most, mujoco.mj_geomDistance(model, data, a, b, reach, None))
        return most

    def _command(self, q: Array, qd: Array) -> None:
        targets = np.full((2, len(self.policy.robot.joint_names)), np.nan)
        targets[:, self._active] = q, qd
        self._world.command(_NAME, JointTargets(*targets))
        self._sent = q

    def _set_scene(self, scene: Scene) -> None:
        """Place the objects; other ones than before become bodies of the simulation."""
        world, before = self._world, self._scene.objects
        if scene is self._scene:
            return
        self._scene = scene
        model, data, X_WB = world.model, world.data, world.base_pose(_NAME)
        if {n: o.parts for n, o in scene.objects.items()} != {
            n: o.parts for n, o in before.items()
        }:
            world.set_bodies(bodies_of(scene, self._placement))
            model = world.model
            names = np.array([model.body(int(k)).name for k in model.geom_bodyid])
            objects = np.char.startswith(names, PREFIX)
            solid = (model.geom_contype | model.geom_conaffinity) != 0
            moves = (model.body_treeid[model.geom_bodyid] >= 0) & ~objects
            self._geoms = np.flatnonzero(moves & solid), np.flatnonzero(objects)
            self._mocap = {
                n: int(model.body_mocapid[model.body(PREFIX + n).id]) for n in scene.objects
            }
            return
        for name, item in scene.objects.items():
            if item is not before[name]:
                X = X_WB @ item.X_WO
                data.mocap_pos[self._mocap[name]] = X[:3, 3]
                data.mocap_quat[self._mocap[name]] = quat_wxyz(X[:3, :3])


def judged(found: Sequence[Verdict]) -> list[Cell]:
    """Return a row's cells about some runs, see ``JUDGED``; the lag is that of 99 % of periods."""
    lags, cpu = (np.concatenate(x) for x in ([v.lags for v in found], [v.cpu for v in found]))
    return [
        sum(v.touched() for v in found), sum(v.touched(links=True) for v in found),
        1e3 * max(v.depth for v in found), 1e3 * min(v.clearance for v in found),
        1e3 * float(np.percentile(lags, 99)), *(1e6 * np.percentile(cpu, (50, 99))).tolist(),
    ]  # fmt: skip
