# SPDX-License-Identifier: Apache-2.0
"""Ways that the collision spheres close and the shapes leave open.

A thin plate on three slides passes a slot that is wider than the plate and narrower than its
spheres; whether it touches the walls is known in closed form.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scene.coal_robot import CoalRobot
from scene.slider_robot import sliding_robot

import motion_nodes as mn
from motion_nodes.core.planning.exact_search import ExactSearch
from motion_nodes.core.planning.pipeline import plan
from motion_nodes.core.planning.plan_run import PlanOptions
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.core.planning.rrt_connect import RrtConnectSettings
from motion_nodes.core.scene.checker import CollisionChecker

PLATE = np.array([0.3, 0.01, 0.3])
SLOT, WALL = 0.024, 0.1
START, GOAL = [-0.4, 0.25, 0.1], [0.4, -0.2, -0.1]


@pytest.fixture(scope="module")
def slides(tmp_path_factory):
    pytest.importorskip("motion_nodes.extras.robot_setup", reason="reads a URDF")
    size = " ".join(map(str, PLATE))
    plate = f"<collision><geometry><box size='{size}'/></geometry></collision>"
    links = ["<link name='base'/>"]
    for child, parent, axis in (("a", "base", "1 0 0"), ("b", "a", "0 1 0"), ("c", "b", "0 0 1")):
        links.append(
            f"<link name='{child}'>{plate if child == 'c' else ''}</link>"
            f"<joint name='slide_{child}' type='prismatic'><parent link='{parent}'/>"
            f"<child link='{child}'/><axis xyz='{axis}'/>"
            "<limit lower='-0.6' upper='0.6' velocity='1' effort='100'/></joint>"
        )
    path = tmp_path_factory.mktemp("slides") / "slides.urdf"
    path.write_text(f"<robot name='slides'>{''.join(links)}</robot>")
    model = mn.load_robot(str(path))
    return model.group(["slide_a", "slide_b", "slide_c"])


@pytest.fixture(scope="module")
def walls():
    world = mn.World()
    for side in (-1.0, 1.0):
        thick = 2.0
        X = mn.pose(xyz=(0.0, side * (0.5 * thick + 0.5 * SLOT), 0.0))
        world.add(f"wall {side}", mn.Box(WALL, thick, 4.0), X)
    return world


def touches(q: np.ndarray) -> np.ndarray:
    """Whether the plate touches a wall, with a thousandth of a millimetre to spare."""
    beside = np.abs(q[:, 0]) < 0.5 * (WALL + PLATE[0])
    return beside & (np.abs(q[:, 1]) > 0.5 * (SLOT - PLATE[1]) + 1e-6)


def straight(path: np.ndarray) -> np.ndarray:
    return np.concatenate([np.linspace(a, b, 500) for a, b in itertools.pairwise(path)])


@pytest.mark.parametrize("seed", range(5))
def test_the_plate_passes_the_slot(slides, walls, seed):
    assert not slides.checker(walls).is_free(np.zeros(3)), "its spheres do not"
    plan = slides.plan(START, GOAL, walls, seed=seed)
    assert plan.success, plan.reason
    assert any("exact shapes" in note for note in plan.notes)
    np.testing.assert_allclose(plan.path[[0, -1]], [START, GOAL], atol=1e-9)
    assert not touches(straight(plan.path)).any()
    assert not touches(np.array(plan.trajectory.positions)).any()


def test_in_the_slot_it_may_start_and_end(slides, walls):
    plan = slides.plan([0.0, 0.0, 0.1], GOAL, walls)
    assert plan.success, plan.reason
    assert not touches(straight(plan.path)).any()
    plan = slides.plan(GOAL, mn.pose(xyz=(0.0, 0.0, 0.1)), walls)
    assert plan.success, plan.reason
    assert not touches(straight(plan.path)).any()


def test_where_there_is_no_way_none_is_found(slides, walls):
    world = mn.World(walls.scene)
    world.add("door", mn.Box(0.01, 0.5, 4.0), mn.pose(xyz=(0.0, 0.0, 0.0)))
    plan = slides.plan(START, GOAL, world, timeout=1.0)
    assert not plan.success
    assert plan.reason == "no path in 1 s; more time may find one"


def test_a_bound_of_the_client_is_kept(slides, walls):
    options = PlanOptions(settings=RrtConnectSettings(max_iterations=100))
    plan = slides.plan(START, GOAL, walls, options=options)
    assert not plan.success
    assert plan.reason == "no path in 100 iterations; more may find one"


JOINTS = [("0 0 1", "0 0 0.12"), ("0 1 0", "0 0.09 0.12"), ("0 1 0", "0 -0.09 0.3"),
          ("0 0 1", "0 0 0.3"), ("0 1 0", "0 0 0.3"), ("0 0 1", "0 0 0.12")]  # fmt: skip
"""Axis and origin of the joints of an arm [m]."""
FOLDED = [-0.23, 1.45, -0.76, 1.8, 1.05, -1.92]
"""The arm behind the column that it is mounted at, where its spheres leave no way out."""


def cylinder(radius: float, length: float) -> str:
    shape = f"<geometry><cylinder radius='{radius}' length='{length}'/></geometry>"
    return f"<collision><origin xyz='0 0 {length / 2}'/>{shape}</collision>"


@pytest.fixture(scope="module")
def leaning(tmp_path_factory):
    """An arm that is mounted at the side of a column, leaning outwards."""
    pytest.importorskip("motion_nodes.extras.robot_setup", reason="reads a URDF")
    sizes = [(0.04, 0.25)] * 4 + [(0.03, 0.1), (0.03, 0.06)]
    text = [
        f"<link name='torso'>{cylinder(0.1, 0.5)}</link>"
        f"<link name='link0'>{cylinder(0.08, 0.1)}</link>"
        "<joint name='mount' type='fixed'><parent link='torso'/><child link='link0'/>"
        "<origin xyz='0 0.3 0.5' rpy='-0.8 0 0'/></joint>"
    ]
    for k, ((axis, place), size) in enumerate(zip(JOINTS, sizes, strict=True), 1):
        text.append(
            f"<link name='link{k}'>{cylinder(*size)}</link>"
            f"<joint name='joint{k}' type='revolute'><parent link='link{k - 1}'/>"
            f"<child link='link{k}'/><origin xyz='{place}'/><axis xyz='{axis}'/>"
            "<limit lower='-2.5' upper='2.5' velocity='2' effort='100'/></joint>"
        )
    path = tmp_path_factory.mktemp("leaning") / "leaning.urdf"
    path.write_text(f"<robot name='leaning'>{''.join(text)}</robot>")
    return mn.load_robot(str(path))["arm"]


def test_out_of_a_pocket_few_iterations_lead(leaning):
    checker = leaning.checker()
    oracle, iterations = CoalRobot(checker), 0
    for seed in range(3):
        goal = JointGoal([1.7, -2.41, -1.81, 0.15, 1.57, 0.07])
        found = ExactSearch(PlanRequest(checker, FOLDED, (goal,), 60.0, seed)).plan()
        assert found.path is not None, found.reason
        iterations += found.iterations
        assert not any(map(oracle.touches, straight(found.path)[::10]))
    assert iterations < 30_000, "edges of a thirteenth of the space took 50 000"


@pytest.fixture
def walled(tmp_path):
    """A block that slides around a wall of its own robot, whose spheres are not considered."""
    box = '<collision><origin xyz="{}"/><geometry><box size="{}"/></geometry></collision>'
    slide = '<joint name="{0}" type="prismatic"><parent link="{1}"/><child link="{2}"/>'
    slide += '<axis xyz="{3}"/><limit lower="-1" upper="1" velocity="1" effort="1"/></joint>'
    urdf = '<robot name="walled"><link name="wall">' + box.format("0 0 0", "0.2 1 0.1") + "</link>"
    urdf += '<link name="mid">' + box.format("0 0 3", "0.1 0.1 0.1") + "</link>"
    urdf += '<link name="block">' + box.format("0 0 0", "0.1 0.1 0.1") + "</link>"
    urdf += slide.format("x", "wall", "mid", "1 0 0") + slide.format("y", "mid", "block", "0 1 0")
    robot = sliding_robot(tmp_path, urdf + "</robot>", {"x": -0.8, "y": 0.0}, ("wall", "block"))
    collision = replace(robot.description.collision, ignore_spheres=(("wall", "block"),))
    robot = replace(robot, description=replace(robot.description, collision=collision))
    return CollisionChecker(robot, "point")


def beside_the_wall(q: np.ndarray) -> np.ndarray:
    """Whether the block is free of its robot's wall, for positions of shape (k, 2)."""
    return (np.abs(q[:, 0]) > 0.15) | (np.abs(q[:, 1]) > 0.55)


def test_spheres_and_the_pairs_beyond_them(walled):
    Q = np.random.default_rng(7).uniform(-1.0, 1.0, (500, 2))
    assert walled.are_free(Q).all()
    assert (walled.are_free_by_both(Q) == beside_the_wall(Q)).all()
    world = mn.World()
    world.add("pillar", mn.Box(0.2, 0.2, 0.1), mn.pose(xyz=(0.6, 0.6, 0.0)))
    walled.set_scene(world.scene)
    free = walled.are_free(Q)
    assert not free.all()
    assert (walled.are_free_by_both(Q) == (free & beside_the_wall(Q))).all()


def test_links_that_only_the_exact_checks_consider_are_driven_around(walled):
    goal = JointGoal(np.array([0.8, 0.1]))
    made = plan(PlanRequest(walled, np.array([-0.8, 0.0]), (goal,), 5.0))
    assert made.success, made.reason
    assert beside_the_wall(made.trajectory.positions).all()
    searches = [stage.words for stage in made.stages if stage.name == "path"]
    assert len(searches) == 2  # by other spheres once only
