# SPDX-License-Identifier: Apache-2.0
"""What is carried does not creep below the friction cone, and slips above it, for all shapes."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
import trimesh
from control.grasping_arm import PLACE, GraspingArm, Item
from sim.test_surface_gripper import BOX, LOAD, ROBOT, Cell, Q

from motion_nodes.core.control.gripper import GraspSettings, GripStatus
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import inverse
from motion_nodes.extras.sim.cell_words import FreeBody, parse_free_body
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mjcf_shapes import contact_reference
from motion_nodes.extras.sim.stiction import Stiction

STEP, EFFORT, FRICTION = 0.002, 30.0, 0.8
SIDE = (-1.0, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8)
OTHER = (1.0, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8)


def turntable(radius: float, friction: float, count: int = 1) -> mujoco.MjModel:
    """Return a table that turns about a vertical axis, with a pile on it, in bare MuJoCo."""
    spec = mujoco.MjSpec()
    option = spec.option
    option.timestep, option.integrator = STEP, mujoco.mjtIntegrator.mjINT_DISCRETE
    option.cone, option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 10.0
    table = spec.worldbody.add_body(name="table")
    table.mass, table.inertia, table.explicitinertial = 100.0, (100.0,) * 3, True
    table.add_joint(name="axis", type=mujoco.mjtJoint.mjJNT_HINGE, axis=(0.0, 0.0, 1.0))
    bodies = [(table, (1.0, 1.0, 0.01))]
    for k in range(count):
        cube = spec.worldbody.add_body(name=f"object:{k}", pos=(radius, 0.0, 0.02 * (k + 1)))
        cube.mass, cube.inertia, cube.explicitinertial = 0.1, (3e-5,) * 3, True
        cube.ipos = np.zeros(3)
        cube.add_freejoint(name=f"object:{k}")
        bodies.append((cube, (0.04, 0.04, 0.01)))
    for body, size in bodies:
        geom = body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=size, condim=4)
        geom.solref, geom.friction[0] = contact_reference(STEP), friction
    return spec.compile()


def slid(model: mujoco.MjModel, speed: float, seconds: float, stiction: Stiction | None) -> float:
    """Return the distance that the cube slides outwards on the turning table [m]."""
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=200)  # it rests
    data.qvel[0] = speed
    p = data.qpos[1:4]
    data.qvel[2] = speed * p[0]
    data.qvel[6] = speed
    radii = []
    for _ in range(round(seconds / STEP)):
        mujoco.mj_step(model, data)
        if stiction is not None:
            stiction.update(data)
        radii.append(float(np.hypot(p[0], p[1])))
    return radii[-1] - radii[len(radii) // 4]


@pytest.mark.parametrize("friction", [0.6, 5.0])
def test_why_carried_objects_creep_in_bare_mujoco(friction):
    """The drift follows from the missing change of the contact's frame, not from friction."""
    radius, speed, seconds = 0.4, 2.0, 1.0
    model = turntable(radius, friction)
    damping = 2.0 / (0.95 * contact_reference(STEP)[0])
    expected = speed**2 * radius * (1.0 / damping + 0.5 * STEP) * 0.75 * seconds
    assert slid(model, speed, seconds, None) == pytest.approx(expected, rel=0.15)
    assert abs(slid(model, speed, seconds, Stiction(model))) < 0.02 * expected


def test_what_lies_on_carried_objects_does_not_creep_either():
    """The velocity of an object's surface acts at all of its contacts."""
    model, speed, radius = turntable(0.4, 0.6, count=4), 2.5, 0.4
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=200)
    data.qvel[0] = speed
    for k in range(4):
        first = 1 + 6 * k
        data.qvel[first + 1], data.qvel[first + 5] = speed * data.qpos[1 + 7 * k], speed
    stiction = Stiction(model)
    for _ in range(750):
        mujoco.mj_step(model, data)
        stiction.update(data)
    away = [np.hypot(*data.qpos[1 + 7 * k : 3 + 7 * k]) - radius for k in range(4)]
    np.testing.assert_allclose(np.diff(away, prepend=0.0), 0.0, atol=5e-5)


@pytest.mark.parametrize("speed", [3.5, 6.0])
def test_a_fast_turntable_does_not_make_it_creep(speed):
    """It would drift with 24 and 77 mm per second."""
    model = turntable(0.4, 5.0)
    way = slid(model, speed, 1.0, Stiction(model))
    assert abs(way) < 5e-5


def test_a_turntable_that_is_too_fast_throws_the_object_off():
    """The cone bounds the force: w^2 r = 1.05 mu g slides, 0.95 of it does not."""
    radius, friction = 0.4, 0.5
    model = turntable(radius, friction)
    for excess, slides in ((0.95, False), (1.05, True)):
        speed = float(np.sqrt(excess * friction * 9.81 / radius))
        way = slid(model, speed, 1.5, Stiction(model))
        assert way > 0.05 if slides else abs(way) < 3e-4, (excess, way)


# ---- between fingers


def held(shape: str, mass: float = 0.1, folder: Path | None = None) -> GraspingArm:
    """Return an arm that holds an object above its post with 30 N."""
    item = Item(0.04, 0.04, mass, FRICTION, round=shape == "cylinder")
    if shape in ("sphere", "mesh"):
        size = {"sphere": "0.02", "mesh": f"{folder}/part.stl"}[shape]
        if shape == "mesh":  # as wide as the others, with twelve sides
            trimesh.creation.cylinder(0.02 / np.cos(np.pi / 12), 0.04, sections=12).export(
                f"{folder}/part.stl"
            )
        at = f"{PLACE[0]},{PLACE[1]},{PLACE[2] + 0.02}"
        body = parse_free_body(f"item:=shape:{size}:{mass}@{at}".replace("shape", shape))
        body = FreeBody(body.name, body.geometry, mass, body.X_WO, FRICTION)
        item = type("Item", (), {**vars(item), "body": body})()
    hand = GraspingArm(item, GraspSettings(), EFFORT)
    assert hand.grip() is GripStatus.STALLED
    hand.go(hand.configuration(PLACE[2] + 0.15), 0.2)
    return hand


def in_hand(hand: GraspingArm) -> np.ndarray:
    return np.asarray(inverse(hand.arm.fk(hand.q[:7])) @ hand.world.object_pose("item"))


@pytest.mark.parametrize("shape", ["box", "cylinder", "sphere", "mesh"])
def test_what_is_carried_fast_stays_where_it_was_gripped(shape, tmp_path):
    hand = held(shape, folder=tmp_path)
    before = in_hand(hand)
    for goal in (SIDE, OTHER):
        hand.go(np.array(goal), 1.0)
    hand.run(lambda: False, 0.5)
    change = inverse(before) @ in_hand(hand)
    assert np.linalg.norm((in_hand(hand) - before)[:3, 3]) < 3e-4
    assert np.arccos(np.clip(0.5 * (np.trace(change[:3, :3]) - 1.0), -1.0, 1.0)) < 0.02


@pytest.mark.long
def test_it_slips_at_the_force_of_coulomb():
    hand = held("box")
    weight = 0.1 * 9.81
    bound = 2.0 * FRICTION * EFFORT
    for share, slips in ((0.95, False), (1.05, True)):
        before = in_hand(hand)
        pull = np.array((0.0, 0.0, weight - share * bound, 0.0, 0.0, 0.0))
        hand.world.push_object("item", pull, 0.3)
        hand.run(lambda: False, 0.25)
        way = float(np.linalg.norm((in_hand(hand) - before)[:3, 3]))
        assert way > 5e-3 if slips else way < 3e-4, (share, way)


def test_a_suction_pad_carries_without_creep():
    cell = Cell(1.0, shape=BOX, pad_radius=0.03)
    cell.close()
    cell.world.step(200)
    assert cell.gripper.gripped == ("box0",)
    kinematics = Kinematics(ROBOT.tree, ROBOT.joint_names, base=ROBOT.base_frame)

    def on_pad() -> np.ndarray:
        q = np.array(cell.world.state("arm").position)
        return inverse(kinematics.pose(q, "tool0")) @ cell.world.object_pose("box0")

    before = on_pad()
    for k in range(2500):
        turn = 2.0 * np.pi * min(k / 2000.0, 1.0)
        q = Q + np.array((0.25 * (1.0 - np.cos(turn)), 0.0, 0.0, 0.0, 0.0, 0.0))
        cell.world.command("arm", JointTargets(q, None, LOAD.gravity(q)))
        cell.world.step()
    assert cell.gripper.gripped == ("box0",)
    assert np.linalg.norm((on_pad() - before)[:3, 3]) < 5e-5
