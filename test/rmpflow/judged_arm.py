# SPDX-License-Identifier: Apache-2.0
"""An arm in MuJoCo that follows a policy in lockstep, evaluated by MuJoCo's contacts.

The robot has the collision shapes of its URDF, meshes as their convex hulls, and its PD drives with
their effort limits; objects of the scene are bodies with the scene's poses. Contacts are read
after each physics step, clearances by ``mj_geomDistance`` after each period of the policy. The
floor is far below the base.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np
from sim.lockstep_robot import NAME, LockstepRobot

from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_state import RobotMotion
from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.scene.scene import Scene
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.mjcf_shapes import quat_wxyz
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.scene_bodies import PREFIX, ContactLog, bodies_of
from motion_nodes.typing import Array

FRAME = 0.01
"""Period of the policy [s]."""
_ABOVE = from_xyz_rpy((0.0, 0.0, 3.0))


@dataclass
class Verdict:
    """Contacts, clearance and lag of one run by MuJoCo."""

    contacts: ContactLog = field(default_factory=ContactLog)
    clearance: float = np.inf
    """Min distance of moving links from objects [m]; negative: penetration."""
    lags: list[float] = field(default_factory=list)
    """Distance of the tool from its reference after each period [m]."""
    cpu: list[float] = field(default_factory=list)
    """Processor time of the policy in each period, its scene included [s]."""

    def touched(self, *, links: bool = False) -> bool:
        """Return whether a link touched an object, or with ``links`` another link."""
        return any(pair[1].startswith(NAME) == links for pair in self.contacts.records)

    @property
    def depth(self) -> float:
        """Max penetration [m]; 0 without a contact."""
        return max((each.depth for each in self.contacts.records.values()), default=0.0)


class JudgedArm(LockstepRobot):
    """A simulated arm, commanded by a follower."""

    def __init__(self, policy: RmpflowPolicy, period: float = FRAME) -> None:
        self.placement = RobotPlacement(policy.robot, NAME, _ABOVE)
        super().__init__(policy.robot, MujocoWorld([self.placement]))
        self.policy, self.period = policy, period
        self.active = self.robot.indices(policy.active_joints)
        self._watched = self.robot.indices(policy.watched_joints)
        self._geoms = (np.empty(0, int), np.empty(0, int))
        """Indices of the geoms of moving links, and of objects."""
        self._scene, self._mocap = Scene(), dict[str, int]()
        self.sent = self.robot.home[self.active]
        """Newest reference of the drives [rad]."""
        self.verdict = Verdict()

    def start(self, q: Array, scene: Scene) -> None:
        """Start a run at rest, with the fingers at home."""
        self.verdict = Verdict()
        self.world.reset()
        self.place(q, scene)

    def place(self, q: Array, scene: Scene) -> None:
        """Set joint positions [rad], shape (n,), and objects, at rest."""
        world = self.world
        self._set_scene(Scene())  # the new objects may be where the arm stands now
        self._follow(q, np.zeros(len(q)))
        world.step()  # drives read their command
        for joint, angle in zip(self.policy.active_joints, q, strict=True):
            world.data.joint(f"{NAME}/{joint}").qpos[:] = angle
        world.data.qvel[:] = 0.0
        self._set_scene(scene)
        assert not world.body_faults, world.body_faults
        mujoco.mj_forward(world.model, world.data)

    def follow(
        self, follower: Follower, scene: Scene, now: float, known: Scene | None = None
    ) -> tuple[Array, Array]:
        """Advance follower and physics by a period; return measured positions and velocities, (n,).

        ``known`` is the scene that the policy receives; default: ``scene``.
        """
        q, qd = self.state(slice(None))
        active, watched = self.active, self._watched
        motion = RobotMotion(q[active], qd[active], q[watched], qd[watched])
        began = time.thread_time()
        known = scene if known is None else known
        if known is not self.policy.scene:
            self.policy.set_scene(known, now)
        reference = follower.step(motion, self.period, now)
        self.verdict.cpu.append(time.thread_time() - began)
        if reference is not None:
            self._follow(*reference)
        self._set_scene(scene)
        for _ in range(round(self.period / self.world.time_step)):
            self.world.step()
            self.verdict.contacts.add(self.world.time, self.world.contacts())
        self.verdict.clearance = self.clearance(self.verdict.clearance)
        state = self.state(active)
        tools = [self.policy.tool_pose(q)[:3, 3].copy() for q in (state[0], self.sent)]
        self.verdict.lags.append(float(np.linalg.norm(tools[0] - tools[1])))
        return state

    def clearance_at_rest(self, scene: Scene) -> float:
        """Return the distance of the arm in its present state from the objects of a scene [m]."""
        self._set_scene(scene)
        mujoco.mj_kinematics(self.world.model, self.world.data)
        return self.clearance(np.inf)

    def clearance(self, most: float) -> float:
        """Return the distance of moving links from objects, at most ``most`` [m]."""
        model, data = self.world.model, self.world.data
        links, objects = self._geoms
        p, r = data.geom_xpos, model.geom_rbound
        gaps = np.linalg.norm(p[links][:, None] - p[objects], axis=2)
        gaps -= r[links][:, None] + r[objects]
        for i, j in np.argwhere(gaps < most):
            a, b = int(links[i]), int(objects[j])
            reach = min(most, 10.0)
            most = min(most, mujoco.mj_geomDistance(model, data, a, b, reach, None))
        return most

    def _follow(self, q: Array, qd: Array) -> None:
        self.command(*(dict(zip(self.active, each, strict=True)) for each in (q, qd)))
        self.sent = q

    def _set_scene(self, scene: Scene) -> None:
        """Set the poses of the objects; other objects than before are added as bodies."""
        world, before = self.world, self._scene.objects
        if scene is self._scene:
            return
        self._scene = scene
        model, data, X_WB = world.model, world.data, world.base_pose(NAME)
        if {n: o.parts for n, o in scene.objects.items()} != {
            n: o.parts for n, o in before.items()
        }:
            world.set_bodies(bodies_of(scene, self.placement))
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


class FollowingArm(JudgedArm):
    """An arm that starts in its state "ready" and follows a position of its tool."""

    def __init__(self, policy: RmpflowPolicy, period: float, scene: Scene | None = None) -> None:
        """Start at rest; the target is where the tool is."""
        super().__init__(policy, period)
        self.follower, self.now = Follower(policy), 0.0
        ready = policy.robot.named_state("ready")[self.active]
        self._X = policy.tool_pose(ready).copy()
        self.begin = self._X[:3, 3].copy()
        """Position of the tool in that state [m]."""
        self.start(ready, scene or Scene())
        self.follower.follow_posture(ready, 0.0)

    def advance(self, target: Array | None, scene: Scene | None = None) -> Array:
        """Advance by a period; return the measured position of the tool [m], (3,).

        ``target``: new position [m], (3,); None: no new one is received.
        """
        if target is not None:
            self._X[:3, 3] = target
            self.follower.follow_pose(self._X.copy(), self.now)
        q, _ = self.follow(self.follower, scene or Scene(), self.now)
        self.now += self.period
        return self.policy.tool_pose(q)[:3, 3].copy()


def judged(found: Sequence[Verdict]) -> dict[str, float]:
    """Return the cells of a table row about some runs; the lag is the 99th percentile."""
    lags, cpu = (np.concatenate(x) for x in ([v.lags for v in found], [v.cpu for v in found]))
    return {
        "touched": sum(v.touched() for v in found),
        "links touched": sum(v.touched(links=True) for v in found),
        "deepest [mm]": 1e3 * max(v.depth for v in found),
        "least [mm]": 1e3 * min(v.clearance for v in found),
        "lag [mm]": 1e3 * float(np.percentile(lags, 99)),
        "CPU [µs]": 1e6 * float(np.median(cpu)), "99 % [µs]": 1e6 * float(np.percentile(cpu, 99)),
    }  # fmt: skip
