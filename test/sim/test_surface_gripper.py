# SPDX-License-Identifier: Apache-2.0
"""Surface grippers: they grip objects within reach, and release at their force limits."""

import mujoco
import numpy as np
import pytest

from motion_nodes.core.robot.inverse_dynamics import InverseDynamics
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.scene import world_object
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.sim.backend import RobotPlacement, UnknownRobot
from motion_nodes.extras.sim.cell_words import FreeBody, parse_free_body
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.scene_bodies import SceneBody
from motion_nodes.extras.sim.surface_gripper import (
    RIM,
    GripState,
    SurfaceGripper,
    SurfaceGripperSettings,
    UnknownGripper,
    UnknownObject,
)

ROBOT = load_robot("ur10e")
Q = np.array([0.0, -1.2, 1.6, -1.97, -1.57, 0.0])
TOOL = Kinematics(ROBOT.tree, ROBOT.joint_names, base=ROBOT.base_frame).pose(Q, "tool0")
"""Configuration with the tool about 0.4 m above the floor, z axis downwards."""
LOAD = InverseDynamics(ROBOT.tree, armature=[d.armature for d in ROBOT.drives])
G = 9.80665
BOX = Box((0.1, 0.1, 0.05))


class Cell:
    """An arm at rest, and a box below its tool."""

    def __init__(self, mass=1.0, gap=0.005, points=((0.0, 0.0, 0.0),), boxes=1,
                 shape=BOX, aside=0.0, rpy=(0.0, 0.0, 0.0), **settings):  # fmt: skip
        at = TOOL[:3, 3] + TOOL[:3, 2] * (gap + 0.025) + (aside, 0.0, 0.0)
        items = [FreeBody("box0", shape, mass, from_xyz_rpy(at, rpy))]
        for k in range(1, boxes):
            place = at + np.array((0.12 * k, 0.0, 0.0))
            items.append(FreeBody(f"box{k}", Box((0.1, 0.1, 0.05)), mass, from_xyz_rpy(place)))
        cup = SurfaceGripper(
            "cup", "arm", "tool0", points, settings=SurfaceGripperSettings(**settings)
        )
        config = WorldConfig(objects=tuple(items), surface_grippers=(cup,))
        self.world = MujocoWorld([RobotPlacement(ROBOT, "arm")], config)
        self.gripper = self.world.grippers["cup"]
        at = [self.world.model.joint(f"arm/{name}").qposadr[0] for name in ROBOT.joint_names]
        self.world.data.qpos[at] = Q
        mujoco.mj_forward(self.world.model, self.world.data)
        self.world.command("arm", JointTargets(Q, None, LOAD.gravity(Q)))
        self.world._before[:] = self.world.data.ctrl  # there was no motion from the home state

    def close(self):
        self.world.act({"cup": 1.0})

    def pull(self, force):
        """Apply a force in the world frame to the box [N]."""
        self.world.data.body("object:box0").xfrc_applied[:3] = force

    @property
    def fallen(self):
        return self.world.object_pose("box0")[2, 3] < 0.1


@pytest.mark.parametrize("mass", [0.1, 5.0])
def test_it_holds_what_is_within_reach_until_it_opens(mass):
    cell = Cell(mass)
    assert cell.gripper.state is GripState.OPEN
    cell.close()
    assert cell.gripper.state is GripState.CLOSING
    cell.world.step(1)
    assert (cell.gripper.state, cell.gripper.gripped) == (GripState.CLOSED, ("box0",))
    cell.world.step(1500)
    assert cell.gripper.gripped == ("box0",)
    pull, shear = cell.gripper.forces(cell.world.model, cell.world.data)[0]
    assert pull == pytest.approx(mass * G, rel=0.02)
    assert shear < 0.02 * mass * G
    assert not [c for c in cell.world.contacts() if not c.expected]
    cell.world.act({"cup": 0.0})
    assert cell.gripper.gripped == ("box0",), "a command between the bounds changed the grip"
    cell.world.act({"cup": -1.0})
    assert (cell.gripper.state, cell.gripper.gripped) == (GripState.OPEN, ())
    cell.world.step(500)
    assert cell.fallen


def test_what_is_out_of_reach_is_not_gripped():
    cell = Cell(gap=0.02)
    cell.close()
    cell.world.step(1)
    assert cell.gripper.state is GripState.OPEN
    cell.world.step(500)
    assert cell.fallen
    cell.close()
    cell.world.step(1)
    assert cell.gripper.gripped == (), "it gripped the floor or the arm itself"


def test_it_grips_what_it_is_pressed_into():
    cell = Cell(gap=-0.001)
    cell.close()
    cell.world.step(1)
    assert cell.gripper.gripped == ("box0",)


@pytest.mark.parametrize(("case", "seals"), [
    ({"aside": 0.029}, True), ({"aside": 0.032}, False),
    # The distances along the rim differ by 2 r tan(angle).
    ({"rpy": (0.0, 0.07, 0.0)}, True), ({"rpy": (0.0, 0.08, 0.0)}, False),
    # Those on a lying cylinder differ by R - sqrt(R^2 - r^2).
    ({"shape": Cylinder(0.075, 0.3), "rpy": (0.0, np.pi / 2, 0.0), "gap": 0.055}, True),
    ({"shape": Cylinder(0.06, 0.3), "rpy": (0.0, np.pi / 2, 0.0), "gap": 0.04}, False),
    # The rim on a ball is a circle; a ball of the pad's radius is too small.
    ({"shape": Sphere(0.04), "gap": 0.016}, True), ({"shape": Sphere(0.019), "gap": 0.0}, False),
    ({"shape": Sphere(0.04), "gap": 0.016, "aside": 0.004}, False),
])  # fmt: skip
def test_a_pad_holds_only_where_its_whole_rim_lies_on_an_object(case, seals):
    cell = Cell(**case)
    cell.close()
    cell.world.step(1)
    assert bool(cell.gripper.gripped) == seals == (not cell.gripper.reason)
    point = Cell(**case, pad_radius=0.0)
    point.close()
    point.world.step(1)
    assert point.gripper.gripped


@pytest.mark.long
@pytest.mark.parametrize(("direction", "lever"), [
    ((0.0, 0.0, -1.0), 0.0), ((0.0, 0.0, -1.0), 0.04), ((1.0, 0.0, 0.0), 0.0),
    ((0.7, 0.0, -0.7), 0.01),
])  # fmt: skip
def test_a_pad_lets_go_at_the_limits_of_vacuum_rim_and_friction(direction, lever):
    """The max load is known in closed form: a force with a lever about the pad's centre."""
    r, mass, low = 0.02, 1.0, 0.025 + 0.005
    cell = Cell(mass, pad_radius=r, vacuum=4e4, pad_friction=0.6)
    cell.close()
    cell.world.step(800)
    F, unit = 4e4 * np.pi * r**2, np.array(direction)
    size = 0.0
    while cell.gripper.gripped and size < 100.0:
        size += 0.1
        # xfrc_applied acts at the centre of the box, which hangs `low` below the pad.
        cell.pull(size * unit)
        cell.world.data.body("object:box0").xfrc_applied[4] = -lever * size * unit[2]
        cell.world.step(40)
    pull, shear = mass * G - size * unit[2], size * unit[0]
    bend = abs(-low * shear - lever * size * unit[2])
    used = max(2.0 * bend / r / (F - pull), shear / (0.6 * (F - pull)), pull / F)
    assert used == pytest.approx(1.0, rel=0.03)
    assert cell.gripper.lost == 1
    assert "box0" in cell.gripper.reason


def test_several_pads_need_their_own_surface():
    cell = Cell(points=((0.0, 0.0, 0.0), (0.0, 0.045, 0.0)), pad_radius=0.01)
    cell.close()
    cell.world.step(1)
    assert cell.gripper.state is GripState.CLOSED
    assert f"of {RIM} points" in cell.gripper.reason
    assert np.count_nonzero(cell.gripper.forces(cell.world.model, cell.world.data)[:, 0]) < 2


def test_an_object_that_is_moved_away_is_lost():
    cell = Cell()
    cell.close()
    cell.world.step(100)
    cell.world.place_object("box0", from_xyz_rpy((2.0, 0.0, 0.5)))
    cell.world.step(100)
    assert (cell.gripper.gripped, cell.gripper.state) == ((), GripState.OPEN)
    np.testing.assert_allclose(cell.world.object_pose("box0")[:2, 3], (2.0, 0.0), atol=1e-3)
    np.testing.assert_allclose(cell.world.state("arm").position, Q, atol=0.02)


def test_it_tries_for_its_retry_interval():
    cell = Cell(gap=0.03, retry_interval=0.2)
    cell.close()
    cell.world.step(20)
    assert cell.gripper.state is GripState.CLOSING
    at = cell.world.model.joint("object:box0")
    cell.world.data.qpos[at.qposadr[0] : at.qposadr[0] + 3] = TOOL[:3, 3] + TOOL[:3, 2] * 0.03
    cell.world.data.qvel[at.dofadr[0] : at.dofadr[0] + 6] = 0.0
    mujoco.mj_forward(cell.world.model, cell.world.data)
    cell.world.step(2)
    assert cell.gripper.state is GripState.CLOSED
    late = Cell(gap=0.03, retry_interval=0.2)
    late.close()
    late.world.step(round(0.2 / late.world.time_step) + 2)
    assert late.gripper.state is GripState.OPEN


@pytest.mark.parametrize("name", ["coaxial_force_limit", "shear_force_limit"])
def test_it_lets_go_exactly_at_its_limits(name):
    cell = Cell(mass=1.0, pad_radius=0.0, **{name: 30.0})
    cell.close()
    cell.world.step(800)
    down, aside = TOOL[:3, 2], TOOL[:3, 0]
    direction, own = (down, G) if name.startswith("coaxial") else (aside, 0.0)
    force = 0.0
    while cell.gripper.gripped and force < 60.0:
        force += 0.25
        cell.pull(force * direction)
        cell.world.step(40)
    assert force + own == pytest.approx(30.0, rel=0.05)
    assert cell.gripper.lost == 1
    assert cell.gripper.state is GripState.OPEN


@pytest.mark.long
def test_several_attachments_share_the_load_and_hold_several_objects():
    corners = tuple((x, y, 0.0) for x in (-0.03, 0.03) for y in (-0.03, 0.03))
    cell = Cell(2.0, points=corners, pad_radius=0.015)
    cell.close()
    cell.world.step(1500)
    pulls = cell.gripper.forces(cell.world.model, cell.world.data)[:, 0]
    assert len(pulls) == 4
    assert pulls.sum() == pytest.approx(2.0 * G, rel=0.02)
    two = Cell(0.5, points=((0.0, 0.0, 0.0), (0.0, 0.12, 0.0), (0.0, -0.12, 0.0)), boxes=2)
    two.close()
    two.world.step(5)
    assert two.gripper.gripped == ("box0", "box1")
    assert two.gripper.state is GripState.CLOSED, "a free point prevented the grip"


def test_a_planning_scene_that_changes_keeps_the_grip():
    cell = Cell(1.0)
    cell.close()
    cell.world.step(100)
    part = world_object("shelf", Box((0.1, 0.1, 0.1)), np.eye(4)).parts
    X_LO = from_xyz_rpy((0.0, 0.3, 0.3))
    cell.world.set_bodies({
        "scene:shelf": SceneBody("arm", part, from_xyz_rpy((-1.0, 0.0, 0.3))),
        "scene:held": SceneBody("arm", part, X_LO, "forearm_link", frozenset({"forearm_link"})),
    })  # fmt: skip
    cell.world.step(500)
    assert cell.gripper.gripped == ("box0",)
    assert not cell.fallen
    cell.world.reset()
    assert cell.gripper.state is GripState.OPEN


def test_names_and_numbers_out_of_range_are_refused():
    cell = Cell()
    with pytest.raises(UnknownGripper):
        cell.world.act({"cup": 1.0, "hook": 1.0})
    assert cell.gripper.state is GripState.OPEN
    with pytest.raises(UnknownObject):
        cell.world.object_pose("ball")
    config = WorldConfig(surface_grippers=(SurfaceGripper("cup", "leg", "tool0"),))
    with pytest.raises(UnknownRobot):
        MujocoWorld([RobotPlacement(ROBOT, "arm")], config)
    for values in ({"max_grip_distance": 0.0}, {"retry_interval": -1.0},
                   {"shear_force_limit": float("nan")}, {"vacuum": 2e5}, {"pad_radius": -0.01},
                   {"pad_friction": float("inf")}):  # fmt: skip
        with pytest.raises(InvalidConfig):
            SurfaceGripperSettings(**values)
    with pytest.raises(InvalidConfig):
        SurfaceGripper("cup", "arm", "tool0", points=())
    with pytest.raises(InvalidConfig):
        SurfaceGripper("cup", "arm", "tool0", axis="w")


def test_objects_rest_where_they_stand():
    words = ("a:=box:0.1,0.1,0.1:1.5@0.9,0.2,0.05", "b:=cylinder:0.05,0.2:1@-0.9,0.2,0.1",
             "c:=box:0.1,0.1,0.1:0.5@0.9,0.2,0.15")  # fmt: skip
    config = WorldConfig(objects=tuple(map(parse_free_body, words)))
    world = MujocoWorld([RobotPlacement(ROBOT, "arm")], config)
    world.command("arm", JointTargets(ROBOT.home))
    before = [world.object_pose(name) for name in world.objects]
    world.step(1500)
    for name, X in zip(world.objects, before, strict=True):
        np.testing.assert_allclose(world.object_pose(name), X, atol=3e-3)


def test_objects_are_read_from_words():
    cube = parse_free_body("cube:=box:0.05,0.06,0.07:0.2@0.5,0,0.025,1.5")
    assert (cube.name, cube.geometry, cube.mass) == ("cube", Box((0.05, 0.06, 0.07)), 0.2)
    np.testing.assert_allclose(cube.X_WO, from_xyz_rpy((0.5, 0.0, 0.025), (0.0, 0.0, 1.5)))
    assert parse_free_body("b:=sphere:0.05:1@0,0,1").geometry == Sphere(0.05)
    assert parse_free_body("c:=cylinder:0.05,0.1:1@0,0,1").geometry == Cylinder(0.05, 0.1)
    for word in ("cube", "cube:=box:1,2:1@0,0,0", "c:=cone:1:1@0,0,0", "c:=sphere:1:x@0,0,0",
                 "c:=sphere:1:1@0,0", "c:=sphere:-1:1@0,0,0", "c:=sphere:1:0@0,0,0",
                 "c:=sphere:1e300:1@0,0,0", "c:=sphere:1:1@nan,0,0"):  # fmt: skip
        with pytest.raises(InvalidConfig):
            parse_free_body(word)
