# SPDX-License-Identifier: Apache-2.0
"""Ways that the collision spheres close and the shapes leave open.

A thin plate on three slides passes a slot that is wider than the plate and narrower than its
spheres; whether it touches the walls is known in closed form.
"""

import itertools

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.core.planning.plan_run import PlanOptions
from motion_nodes.core.planning.rrt_connect import RrtConnectSettings

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
