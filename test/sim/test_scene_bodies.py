# SPDX-License-Identifier: Apache-2.0
"""Objects of a planning scene as bodies of the simulation; free objects and forces."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
import trimesh

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.mesh_distance import mesh_distance
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.scene.scenery import floor_of
from motion_nodes.core.scene.shapes import Capsule, Cone, HalfSpace, TriangleMesh, triangle_mesh
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import parse_free_body
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.free_bodies import mass_properties
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mjcf_shapes import Obstacle
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.scene_bodies import MAX_BODIES, ContactLog, bodies_of
from motion_nodes.extras.sim.surface_gripper import UnknownObject

AWAY = (-1.0, -1.0, 0.5)
CUBE = [(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)]
CUBE_FACES = [
    (0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1),
    (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3),
]  # fmt: skip


def torus(major: float, minor: float) -> TriangleMesh:
    """Return a torus of 1024 triangles in the x-y plane of its frame; radii [m]."""
    made = trimesh.creation.torus(major, minor, major_sections=32, minor_sections=16)
    return triangle_mesh(made.vertices, made.faces)


def top_at(start: np.ndarray, corners: np.ndarray) -> float:
    """Return the height of the highest triangle below a point [m]; -inf: none."""
    a, b, c = (corners[:, k, :2] - start[:2] for k in range(3))
    areas = np.array([u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0] for u, v in ((b, c), (c, a), (a, b))])
    total = areas.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = areas / total
    inside = (weights >= 0.0).all(axis=0) & (total != 0.0)
    heights = (weights.T[inside] * corners[inside, :, 2]).sum(axis=1)
    return float(heights.max(initial=-np.inf))


@pytest.fixture(scope="module")
def franka():
    return load_robot("franka")


class Cell:
    """A simulated Franka with its planning scene."""

    def __init__(self, robot: Robot, X_WR: np.ndarray | None = None) -> None:
        self.placement = RobotPlacement(robot, "f", np.eye(4) if X_WR is None else X_WR)
        self.physics = MujocoWorld([self.placement])
        self.world = World()

    def update(self) -> None:
        self.physics.set_bodies(bodies_of(self.world.scene, self.placement))

    def add(self, *items) -> None:
        self.world.add(*items)
        self.update()

    def go(self, q: np.ndarray, seconds: float) -> ContactLog:
        """Command joint positions for a duration [s]; return the contacts meanwhile."""
        log = ContactLog()
        self.physics.command("f", JointTargets(q))
        for _ in range(round(seconds / self.physics.time_step)):
            self.physics.step()
            log.add(self.physics.time, self.physics.contacts())
        return log

    def lower(self, seconds: float = 1.0) -> ContactLog:
        """Lower the hand by the shoulder to below the height of the table; return the contacts."""
        q = self.placement.robot.home.copy()
        q[1] += 0.8
        return self.go(q, seconds)

    def ray(self, start: np.ndarray, direction: np.ndarray) -> float:
        """Return the height at which a ray hits a body [m]; 0 or less: the floor, or no hit."""
        model, data = self.physics.model, self.physics.data
        distance = mujoco.mj_ray(model, data, start, direction, None, 1, -1, np.zeros(1, np.int32))
        return float(start[2] - distance) if distance >= 0.0 else 0.0

    @property
    def hand_height(self) -> float:
        return float(self.physics.data.body("f/panda_hand").xpos[2])


@pytest.fixture
def cell(franka):
    return Cell(franka)


def table(top: float):
    return world_object("table", Box((0.8, 1.6, 0.1)), from_xyz_rpy((0.7, 0.0, top - 0.05)))


def turned(robot: Robot) -> np.ndarray:
    """Return a goal that is far enough from home to keep the joints moving."""
    q = robot.home.copy()
    q[0] += 1.0
    q[3] += 0.4
    return q


def test_bodies_that_nobody_touches_change_nothing_of_the_motion(franka):
    """The state is kept bit by bit when bodies of any shape are added, moved and removed."""
    shapes = [
        Box((0.1, 0.2, 0.3)), Sphere(0.1), Cylinder(0.1, 0.2), Capsule(0.1, 0.2), Cone(0.1, 0.2),
        triangle_mesh(CUBE, CUBE_FACES),
    ]  # fmt: skip
    states = []
    for changed in (False, True):
        cell = Cell(franka)
        cell.physics.command("f", JointTargets(turned(franka)))
        for step in range(150):
            if changed and step == 30:
                items = [
                    world_object(f"o{i}", shape, from_xyz_rpy((-1.0, i, 0.5)))
                    for i, shape in enumerate(shapes)
                ]
                low = world_object("plane", HalfSpace(), from_xyz_rpy((0.0, 0.0, -1.0)))
                cell.add(*items, low)
                assert len(cell.physics.bodies) == len(shapes) + 1
            if changed and step == 60:
                cell.world.move({"o1": from_xyz_rpy((-1.5, 0.0, 0.5))})
                cell.update()
            if changed and step == 90:
                cell.world.clear()
                cell.update()
            cell.physics.step()
        assert cell.physics.body_faults == {}
        states.append(np.concatenate((cell.physics.data.qpos, cell.physics.data.qvel)))
    np.testing.assert_array_equal(states[0], states[1])


def test_an_arm_meets_a_body_and_passes_where_it_was(franka):
    heights, touched = {}, {}
    for case in ("none", "there", "moved away", "removed"):
        cell = Cell(franka)
        if case != "none":
            cell.add(table(0.35))
        if case == "moved away":
            cell.world.move({"table": from_xyz_rpy(AWAY)})
        if case == "removed":
            cell.world.remove("table")
        cell.update()
        touched[case] = {pair for pair in cell.lower().records if "scene:table" in pair}
        heights[case] = cell.hand_height
    assert heights["there"] > 0.4
    assert touched["there"]
    for case in ("none", "moved away", "removed"):
        assert heights[case] < 0.32
        assert not touched[case]


def test_depth_and_force_of_a_contact_are_those_of_statics(franka):
    """The sum over the points equals that of MuJoCo's forces; the arm rests on the table."""
    cell = Cell(franka)
    cell.add(table(0.35))
    cell.lower(2.0)
    contacts = [c for c in cell.physics.contacts() if c.pair[1] == "scene:table"]
    data = cell.physics.data
    forces = np.zeros(6)
    total = 0.0
    for i in range(data.ncon):
        mujoco.mj_contactForce(cell.physics.model, data, i, forces)
        names = {
            cell.physics.model.body(int(cell.physics.model.geom_bodyid[g])).name
            for g in data.contact.geom[i]
        }
        total += forces[0] if "scene:table" in names else 0.0
    assert contacts
    assert sum(c.force for c in contacts) == pytest.approx(total)
    assert total > 10.0
    assert all(0.0 < c.depth < 5e-3 and not c.expected for c in contacts)


def test_a_body_pushed_into_a_robot_moves_it_and_one_that_jumps_into_it_does_not(cell):
    hand = cell.physics.data.body("f/panda_hand").xpos.copy()
    start = hand + np.array((0.0, 0.25, 0.0))
    cell.add(world_object("ball", Sphere(0.08), from_xyz_rpy(start)))
    for step in range(60):
        cell.world.move({"ball": from_xyz_rpy(start - np.array((0.0, 0.004 * step, 0.0)))})
        cell.update()
        cell.physics.step(5)
    pushed = cell.physics.data.body("f/panda_hand").xpos[1] - hand[1]
    assert pushed < -0.01
    assert not cell.physics.body_faults
    cell.physics.step(500)
    cell.world.move({"ball": from_xyz_rpy(cell.physics.data.body("f/panda_link4").xpos)})
    cell.update()
    assert "penetrates" in cell.physics.body_faults["scene:ball"]
    before = cell.physics.data.qpos.copy()
    cell.physics.step(5)
    assert not any("scene:ball" in contact.pair for contact in cell.physics.contacts())
    np.testing.assert_allclose(cell.physics.data.qpos, before, atol=0.02)


def test_a_body_inside_a_robot_gets_its_contacts_once_it_is_left(cell, franka):
    hand = cell.physics.data.body("f/panda_hand").xpos.copy()
    cell.add(world_object("box", Box((0.1, 0.1, 0.1)), from_xyz_rpy(hand)))
    assert "scene:box" in cell.physics.body_faults
    assert not cell.go(turned(franka), 1.5).records
    cell.physics.revive_bodies()
    assert cell.physics.body_faults == {}
    pairs = cell.go(franka.home, 1.5).records
    assert any("scene:box" in pair for pair in pairs)


def test_what_is_attached_moves_along_and_spares_its_touch_links(franka):
    cell = Cell(franka)
    at = cell.physics.data.body("f/panda_hand").xpos + np.array((0.0, 0.0, -0.13))
    cell.world.add(world_object("rod", Box((0.04, 0.04, 0.2)), from_xyz_rpy(at)), table(0.2))
    X_WL = np.eye(4)
    X_WL[:3, :3] = cell.physics.data.body("f/panda_hand").xmat.reshape(3, 3)
    X_WL[:3, 3] = cell.physics.data.body("f/panda_hand").xpos
    fingers = ("panda_leftfinger", "panda_rightfinger")
    cell.world.attach_object("rod", "panda_hand", X_WL, fingers)
    cell.update()
    assert not cell.physics.body_faults
    assert not cell.go(turned(franka), 1.0).records
    log = cell.lower()
    assert any(set(pair) == {"scene:rod", "scene:table"} for pair in log.records)
    assert not any(
        "scene:rod" in pair and f"f/{f}" in pair for pair in log.records for f in fingers
    )
    # When it is detached, it is a body of the world.
    cell.world.detach("rod", from_xyz_rpy((0.0, 2.0, 1.0)))
    cell.update()
    assert cell.physics.model.body("scene:rod").mocapid[0] >= 0


def test_bodies_stay_where_they_are_over_a_reset(cell):
    cell.add(world_object("box", Box((0.1, 0.1, 0.1)), from_xyz_rpy(AWAY)))
    cell.world.move({"box": from_xyz_rpy((-1.0, 1.0, 0.5))})
    cell.update()
    cell.physics.reset()
    np.testing.assert_allclose(cell.physics.data.body("scene:box").xpos, (-1.0, 1.0, 0.5))


def test_poses_are_those_of_the_robots_base(franka):
    X_WR = from_xyz_rpy((1.0, 2.0, 0.0), (0.0, 0.0, 0.7))
    cell = Cell(franka, X_WR)
    X_BO = from_xyz_rpy((0.4, 0.5, 0.6), (0.3, -0.2, 0.1))
    cell.add(world_object("box", Box((0.1, 0.1, 0.1)), X_BO))
    cell.physics.step()
    body = cell.physics.data.body("scene:box")
    np.testing.assert_allclose(body.xpos, (X_WR @ X_BO)[:3, 3], atol=1e-12)
    np.testing.assert_allclose(body.xmat.reshape(3, 3), (X_WR @ X_BO)[:3, :3], atol=1e-12)


def test_two_robots_have_their_own_objects_of_one_name(franka):
    placements = [
        RobotPlacement(franka, "a"),
        RobotPlacement(franka, "b", from_xyz_rpy((0.0, 3.0, 0.0))),
    ]
    physics = MujocoWorld(placements)
    item = world_object("box", Box((0.1, 0.1, 0.1)), from_xyz_rpy((0.6, 0.0, 0.2)))
    scene = Scene({"box": item})
    physics.set_bodies(bodies_of(scene, placements[0], "a") | bodies_of(scene, placements[1], "b"))
    physics.step()
    assert set(physics.bodies) == {"scene:a:box", "scene:b:box"}
    apart = physics.data.body("scene:b:box").xpos - physics.data.body("scene:a:box").xpos
    np.testing.assert_allclose(apart, (0.0, 3.0, 0.0), atol=1e-12)


def test_robots_may_have_the_names_that_the_simulation_uses(franka):
    """An object with the name of a link of a robot that is named as the objects' prefix."""
    placements = [
        RobotPlacement(franka, name, from_xyz_rpy((0.0, 3.0 * k, 0.0)))
        for k, name in enumerate(("scene", "object", "obstacle", "floor"))
    ]
    obstacle = Obstacle("panda_link0/collision0", Box((0.1, 0.1, 0.1)), from_xyz_rpy(AWAY))
    physics = MujocoWorld(placements, WorldConfig(obstacles=(obstacle,)))
    item = world_object("panda_link1", Box((0.1, 0.1, 0.1)), from_xyz_rpy((0.6, 0.0, 0.2)))
    physics.set_bodies(bodies_of(Scene({"panda_link1": item}), placements[0]))
    physics.step()
    assert set(physics.bodies) == {"scene:panda_link1"}
    assert not any("scene:panda_link1" in contact.pair for contact in physics.contacts())
    link = physics.data.body("scene/panda_link1").xpos
    assert np.linalg.norm(physics.data.body("scene:panda_link1").xpos - link) > 0.1


def test_scenery_and_what_the_whole_robot_may_touch_are_no_bodies(franka):
    placement = RobotPlacement(franka, "f")
    world = World(floor_of(franka).scene())
    world.add(
        world_object("ghost", Box((0.1, 0.1, 0.1))),
        replace(world_object("off", Box((0.1, 0.1, 0.1))), enabled=False),
        world_object("box", Box((0.1, 0.1, 0.1)), from_xyz_rpy(AWAY)),
    )
    links = [link for link in franka.tree.frame_names]
    world.allow([("ghost", link) for link in links])
    assert set(bodies_of(world.scene, placement)) == {"scene:box"}


@pytest.mark.parametrize(
    "mesh",
    [
        pytest.param(torus(0.3, 0.1), id="ring"),
        pytest.param(
            triangle_mesh(
                CUBE + [(x + 0.2, y, z + 0.2) for x, y, z in CUBE],
                CUBE_FACES + [tuple(i + 8 for i in face) for face in CUBE_FACES],
            ),
            id="two cubes",
        ),
        pytest.param(triangle_mesh([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [(0, 1, 2)]), id="flat"),
    ],
)
def test_a_mesh_in_physics_is_where_its_surface_is(cell, mesh):
    """Rays from above hit it at the height of the mesh, and pass through its hole."""
    X_WO = from_xyz_rpy((-2.0, 0.0, 1.0), (0.0, 0.0, 0.4))
    cell.add(world_object("item", mesh, X_WO))
    assert cell.physics.body_faults == {}
    cell.physics.step()
    corners = (mesh.vertices @ X_WO[:3, :3].T + X_WO[:3, 3])[mesh.triangles]
    low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
    rng, down = np.random.default_rng(0), np.array([0.0, 0.0, -1.0])
    starts = np.column_stack((rng.uniform(low[:2], high[:2], (300, 2)), np.full(300, 3.0)))
    tops = np.array([top_at(start, corners) for start in starts])
    seen = np.array([cell.ray(start, down) for start in starts])
    hit = np.isfinite(tops)
    assert (seen[hit] >= tops[hit] - 1e-4).all()
    # The hulls contain the mesh, and exceed it by 1 % of its size.
    points = np.column_stack((starts[:, :2], seen))[seen > 0.0]
    away = mesh_distance(triangle_mesh(corners, np.arange(corners.size // 3)), points)[0]
    assert np.abs(away).max(initial=0.0) < 0.012 * np.ptp(mesh.vertices, axis=0).max()
    assert (seen > 0.0).mean() < hit.mean() + 0.05


def test_there_is_a_bound_on_the_number_of_bodies(cell):
    solid = Box((0.05, 0.05, 0.05))
    cell.add(
        *(
            world_object(f"o{i}", solid, from_xyz_rpy((-2.0, 0.1 * i, 0.5)))
            for i in range(MAX_BODIES + 2)
        )
    )
    assert len(cell.physics.bodies) == MAX_BODIES
    assert len(cell.physics.body_faults) == 2


def test_a_grasp_and_what_the_scene_allows_are_expected(franka):
    for allowed in (False, True):
        cell = Cell(franka)
        opened = franka.home.copy()
        opened[-2:] = 0.04
        cell.go(opened, 1.0)
        left, right = (
            cell.physics.data.body(f"f/panda_{side}finger") for side in ("left", "right")
        )
        hand = cell.physics.data.body("f/panda_hand")
        at = hand.xpos + 0.09 * hand.xmat.reshape(3, 3)[:, 2]
        width = 0.05 if not allowed else 0.02
        shift = 0.0 if not allowed else 0.025
        along = (left.xpos - right.xpos) / np.linalg.norm(left.xpos - right.xpos)
        X = np.eye(4)
        X[:3, :3], X[:3, 3] = hand.xmat.reshape(3, 3), at + shift * along
        cell.world.add(world_object("part", Box((0.03, width, 0.03)), X))
        if allowed:
            cell.world.allow([("part", "panda_leftfinger"), ("part", "panda_rightfinger")])
        cell.update()
        closed = opened.copy()
        closed[-2:] = 0.0
        log = cell.go(closed, 1.0)
        touching = [c for c in cell.physics.contacts() if c.pair[1] == "scene:part"]
        assert touching
        assert all(c.expected for c in touching), "an unexpected contact"
        if allowed:
            assert not log.records


@pytest.mark.parametrize("name", ["jetbot", "kaya", "nova_carter", "leatherback"])
def test_a_base_that_drives_has_no_unexpected_contact(name):
    robot = load_robot(name)
    physics = MujocoWorld([RobotPlacement(robot, "r")])
    log = ContactLog()
    speeds = np.full(len(robot.joint_names), np.nan)
    for wheel in robot.base.wheel_names:
        speeds[robot.joint_names.index(wheel)] = 3.0
    for _ in range(100):
        physics.command("r", JointTargets(velocity=speeds))
        physics.step(3)
        log.add(physics.time, physics.contacts())
    assert not log.records


def test_an_arm_that_is_sent_into_the_floor_is_seen_there(cell, franka):
    low = franka.home.copy()
    low[1], low[3] = 1.7, -0.1
    log = cell.go(low, 2.0)
    pairs = {pair for pair in log.records if pair[1] == "floor"}
    assert pairs
    assert all(pair[0].startswith("f/panda_") for pair in pairs)
    worst = max(record.force for pair, record in log.records.items() if pair in pairs)
    assert worst > 20.0


def test_the_floor_has_the_height_that_is_wanted(franka):
    """The floor's height does not change the placements of robots."""
    physics = MujocoWorld([RobotPlacement(franka, "f")], WorldConfig(floor_height=-0.4))
    assert physics.model.geom("floor").pos[2] == -0.4
    low = franka.home.copy()
    low[1], low[3] = 1.7, -0.1
    physics.command("f", JointTargets(low))
    log = ContactLog()
    for _ in range(1000):
        physics.step()
        log.add(physics.time, physics.contacts())
    assert not log.records


def world_of(*words: str) -> MujocoWorld:
    objects = tuple(parse_free_body(word) for word in words)
    return MujocoWorld([RobotPlacement(load_robot("jetbot"), "r")], WorldConfig(objects=objects))


@pytest.fixture
def ring(tmp_path):
    """Return a mesh file of a ring in millimetres, off the origin."""
    made = trimesh.creation.torus(30.0, 10.0, major_sections=32, minor_sections=16)
    made.apply_transform(from_xyz_rpy((50.0, 20.0, 10.0), (0.3, 0.0, 0.0)))
    made.export(tmp_path / "ring.stl")
    return tmp_path / "ring.stl"


def test_mass_properties_are_those_of_trimesh(ring):
    mesh = trimesh.load(ring, force="mesh")
    mesh.density = 0.2 / mesh.volume
    centre, inertia = mass_properties(np.asarray(mesh.triangles), 0.2)
    np.testing.assert_allclose(centre, mesh.center_mass, rtol=1e-6)
    np.testing.assert_allclose(inertia, mesh.moment_inertia, rtol=1e-6, atol=1e-6)


def test_a_mesh_rests_on_its_lower_side_and_has_a_hole(ring):
    """The ring falls flat; a ball falls through its hole."""
    at = "1.5,0,0.02"
    world = world_of(f"ring:=mesh:{ring},0.001:0.2@{at}", "ball:=sphere:0.012:0.05@3,0,0.012")
    body, mesh = world.model.body("object:ring"), trimesh.load(ring, force="mesh")
    np.testing.assert_allclose(body.ipos, 1e-3 * mesh.center_mass, atol=1e-6)
    world.step(1000)
    X = world.object_pose("ring")
    centre = X[:3, :3] @ (1e-3 * mesh.center_mass) + X[:3, 3]
    assert centre[2] == pytest.approx(0.01, abs=1e-3)
    world.place_object("ball", from_xyz_rpy((centre[0], centre[1], 0.1)))
    world.step(1000)
    ball = world.object_pose("ball")[:3, 3]
    assert ball[2] == pytest.approx(0.012, abs=1e-3)
    assert np.hypot(*(ball - centre)[:2]) < 0.012
    assert world.free_body("ring").solid is world.free_body("ring").solid


def test_a_force_accelerates_an_object_for_its_time(ring):
    world = world_of("puck:=box:0.1,0.1,0.02:0.5@1.5,0,5")
    gravity = world.model.opt.gravity
    world.push_object("puck", np.array((2.0, 0.0, 0.5 * 9.81, 0.0, 0.0, 0.0)), 0.1)
    for _ in range(200):
        world.step()
    # Number of physics steps that begin before the end.
    time = world.time_step * np.ceil(0.1 / world.time_step - 1e-9)
    speed = world.data.joint("object:puck").qvel[:3]
    np.testing.assert_allclose(speed[0], 2.0 / 0.5 * time, rtol=1e-6)
    np.testing.assert_allclose(speed[2], gravity[2] * (world.time - time), rtol=1e-2)


def test_forces_and_meshes_that_are_refused(tmp_path):
    world = world_of("puck:=box:0.1,0.1,0.02:0.5@1.5,0,0.01")
    with pytest.raises(UnknownObject, match="'puk'"):
        world.push_object("puk", np.zeros(6), 0.1)
    for bad in (np.full(6, np.nan), np.full(6, 1e6), np.zeros(3)):
        with pytest.raises(InvalidCommand):
            world.push_object("puck", bad, 0.1)
    with pytest.raises(InvalidConfig):
        parse_free_body(f"cup:=mesh:{tmp_path}/cup.stl:0.1@0,0,0")
    sheet = tmp_path / "sheet.stl"
    trimesh.Trimesh(np.eye(3), [(0, 1, 2)]).export(sheet)
    with pytest.raises(InvalidConfig):
        world_of(f"sheet:=mesh:{sheet}:0.1@1,0,0")
