# SPDX-License-Identifier: Apache-2.0
"""RRT and RRT*: checked edges, costs, shortest paths; pictures of the planar world."""

import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from barrier_scene import GOAL, START, WEIGHTS, barrier_checker, max_depth
from raised_errors import about

from motion_nodes.core.planning import rrt
from motion_nodes.core.planning.planar_world import PlanarWorld, Wall, maze
from motion_nodes.core.planning.planners import DirectMotion
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest, PlanStatus
from motion_nodes.core.planning.rrt import Rrt, RrtSettings, RrtStar, RrtStarSettings
from motion_nodes.core.planning.rrt_connect import RrtConnect, RrtConnectSettings
from motion_nodes.core.planning.tree_search import TreeSearch
from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.search.rrt import Costs

PLANAR = RrtSettings(step_size=0.5, max_iterations=20_000)


def test_maze_is_solved_with_ends_exact_and_edges_free():
    world = maze()
    start, goal = np.array([0.5, 0.5]), np.array([9.5, 0.5])
    planner = Rrt(PLANAR)
    result = planner.plan(world.request(start, goal))
    assert result.status is PlanStatus.SOLVED
    assert result.path is not None
    assert (result.path[0] == start).all()
    assert (result.path[-1] == goal).all()
    assert np.linalg.norm(np.diff(result.path, axis=0), axis=1).max() <= 0.5 + 1e-9
    assert max_depth(result.path, world.checker) < 1e-3
    assert result.cost == pytest.approx(np.linalg.norm(np.diff(result.path, axis=0), axis=1).sum())
    tree = planner.tree()
    assert tree is not None
    assert len(tree.nodes) == result.tree_sizes[0]
    assert (tree.parents[1:] < np.arange(1, len(tree.parents))).all()


def test_wall_thinner_than_a_step_is_not_jumped_over():
    # The wall spans the square: no path exists, and start and goal are less than a step apart.
    world = PlanarWorld([Wall((5.0, 5.0), (0.02, 10.0))], radius=0.02, resolution=0.01)
    planner = Rrt(RrtSettings(step_size=1.0, max_iterations=3000))
    result = planner.plan(world.request((4.8, 5.0), (5.2, 5.0), timeout=30.0))
    assert result.status is PlanStatus.ITERATION_LIMIT
    assert "3000 iterations" in result.reason
    tree = planner.tree()
    assert tree is not None
    assert (tree.nodes[:, 0] < 5.0).all()


def test_equal_seeds_give_equal_paths_and_others_do_not():
    world = maze()
    request = world.request((0.5, 0.5), (9.5, 0.5))
    first, again = (Rrt(PLANAR).plan(request).path for _ in range(2))
    other = Rrt(PLANAR).plan(replace(request, random_seed=7)).path
    assert first is not None
    assert other is not None
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()


def test_start_and_goal_in_a_wall_are_told():
    world = maze()
    inside = Rrt(PLANAR).plan(world.request((2.5, 3.0), (9.5, 0.5)))
    assert inside.status is PlanStatus.START_IN_COLLISION
    assert "wall_1" in inside.reason
    blocked = Rrt(PLANAR).plan(world.request((0.5, 0.5), (5.0, 6.0)))
    assert blocked.status is PlanStatus.GOAL_IN_COLLISION
    assert "wall_2" in blocked.reason


def test_start_that_is_the_goal_needs_no_search():
    result = Rrt(PLANAR).plan(maze().request((0.5, 0.5), (0.5, 0.5)))
    assert result.success
    assert result.iterations == 0
    assert result.path is not None
    np.testing.assert_array_equal(result.path, [[0.5, 0.5], [0.5, 0.5]])


def test_time_and_cancelling_end_the_search():
    world = PlanarWorld([Wall((5.0, 5.0), (0.5, 10.0))])
    endless = Rrt(RrtSettings(step_size=0.2, max_iterations=10_000_000 // 100))
    late = endless.plan(world.request((1, 1), (9, 9), timeout=0.05))
    assert late.status is PlanStatus.TIMED_OUT
    began = time.perf_counter()
    stopped = endless.plan(
        world.request((1, 1), (9, 9), cancelled=lambda: time.perf_counter() - began > 0.02)
    )
    assert stopped.status is PlanStatus.CANCELLED
    assert stopped.path is None


def test_arm_finds_its_way_between_barriers():
    checker = barrier_checker()
    settings = RrtSettings(step_size=1.0, distance_metric_weights=WEIGHTS)
    solved = 0
    for seed in range(5):
        request = PlanRequest(checker, START, (JointGoal(GOAL),), 20.0, random_seed=seed)
        result = Rrt(settings).plan(request)
        if result.path is not None:
            solved += 1
            assert (result.path[0] == START).all()
            assert (result.path[-1] == GOAL).all()
            # Max depth between two checked configurations.
            assert max_depth(result.path, checker) < 3e-3
    assert solved >= 4


def test_share_of_the_samples_is_drawn_near_goals():
    # The goal is walled in, so the trees show the distribution of the samples.
    walls = [
        Wall((8.0, 8.5), (1.1, 0.1)), Wall((8.0, 7.5), (1.1, 0.1)), Wall((8.5, 8.0), (0.1, 1.1)),
        Wall((7.5, 8.0), (0.1, 1.1)),
    ]  # fmt: skip
    request = PlanarWorld(walls, radius=0.05).request((1, 1), (8.0, 8.0), timeout=60.0)
    shares = []
    for near_bias in (0.0, 0.6):
        planner = Rrt(RrtSettings(step_size=0.5, near_bias=near_bias, max_iterations=300))
        assert planner.plan(request).status is PlanStatus.ITERATION_LIMIT
        tree = planner.tree()
        assert tree is not None
        shares.append(np.mean(np.linalg.norm(tree.nodes - [8.0, 8.0], axis=1) < 1.5))
    assert shares[1] > 1.5 * shares[0]


def test_one_of_several_goals_is_reached_and_named():
    world = PlanarWorld([Wall((7.0, 7.0), (2.0, 2.0))])
    request = replace(
        world.request((1, 1), (7, 7)), goals=(JointGoal((7.0, 7.0)), JointGoal((2.0, 3.0)))
    )
    result = Rrt(PLANAR).plan(request)
    assert result.success
    assert result.goal_index == 1


def test_settings_out_of_range_are_refused():
    for bad in (
        {"step_size": 0.0},
        {"goal_bias": 1.5},
        {"near_bias": -0.1},
        {"max_iterations": 0},
        {"step_size": np.nan},
    ):
        with pytest.raises(InvalidConfig, check=about(next(iter(bad)))):
            RrtSettings(**bad)  # type: ignore[arg-type]
    world = maze()
    with pytest.raises(InvalidConfig, check=about("weights")):
        Rrt(RrtSettings(distance_metric_weights=(1.0,))).plan(world.request((1, 1), (9, 9)))


def test_direct_motion_goes_straight_or_says_where_it_is_blocked():
    world = maze()
    straight = DirectMotion().plan(world.request((0.5, 0.5), (0.5, 9.0)))
    assert straight.success
    assert straight.path is not None
    assert len(straight.path) == 2
    blocked = DirectMotion().plan(world.request((0.5, 0.5), (9.5, 0.5)))
    assert blocked.status is PlanStatus.BLOCKED
    assert "wall_1" in blocked.reason
    assert "%" in blocked.reason


class Watched(RrtStar):
    """Keeps the state of a search at its end."""

    def search(self, search: TreeSearch) -> object:  # type: ignore[override]
        self.kept = search
        return super().search(search)


def settings(**values: object) -> RrtStarSettings:
    return RrtStarSettings(step_size=0.5, max_iterations=3000, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("neighbours", ["nearest", "radius"])
def test_path_never_gets_longer_and_is_valid(neighbours):
    world = maze()
    told: list[tuple[int, float]] = []
    planner = RrtStar(settings(neighbours=neighbours), lambda i, cost: told.append((i, cost)))
    result = planner.plan(world.request((0.5, 0.5), (9.5, 0.5), timeout=60.0))
    assert result.status is PlanStatus.SOLVED
    assert result.path is not None
    costs = [cost for _, cost in told]
    assert len(costs) > 3
    assert costs == sorted(costs, reverse=True)
    assert result.cost == pytest.approx(costs[-1], abs=1e-9)
    assert max_depth(result.path, world.checker) < 1e-3
    assert (result.path[0] == [0.5, 0.5]).all()
    assert (result.path[-1] == [9.5, 0.5]).all()


def test_first_path_is_that_of_rrt_connect_and_samples_are_those_that_can_shorten_it():
    world, start, goal = maze(), np.array([0.5, 0.5]), np.array([9.5, 0.5])
    told: list[float] = []
    planner = RrtStar(settings(), lambda _, cost: told.append(cost))
    request = world.request(start, goal, timeout=60.0)
    planner.plan(request)
    connect = RrtConnect(RrtConnectSettings(max_iterations=3000)).plan(request)
    assert told[0] <= connect.cost + 1e-9
    tree = planner.tree()
    assert tree is not None
    # All samples are in the ellipse, and so are all steps towards them, since it is convex.
    sums = np.linalg.norm(tree.nodes - start, axis=1) + np.linalg.norm(tree.nodes - goal, axis=1)
    assert (sums <= connect.cost + 1e-6).mean() > 0.99
    # The nodes are spread along and across the ellipse.
    assert len(np.unique(tree.nodes[:, 0].round())) >= 9
    assert (tree.nodes[:, 1] > 2.0).sum() > 100


def test_without_a_first_path_the_tree_begins_with_the_start_alone():
    request = maze().request((0.5, 0.5), (9.5, 0.5), timeout=60.0)
    told: list[int] = []
    result = RrtStar(settings(first_path=False), lambda i, _: told.append(i)).plan(request)
    assert result.success
    assert told[0] > 100
    with_it = RrtStar(settings(), lambda i, _: told.append(i)).plan(request)
    assert told[-1] >= told[0]
    assert with_it.cost < 1.1 * result.cost


@pytest.mark.parametrize("step", [0.01, 0.3, 100.0])
def test_first_branch_is_divided_into_steps(step):
    # No path is shorter than the straight line, so the branch does not change.
    world = PlanarWorld()
    planner = RrtStar(RrtStarSettings(step_size=step, max_iterations=300))
    result = planner.plan(world.request((2.0, 4.0), (8.0, 4.0), timeout=60.0))
    assert result.path is not None
    edges = np.linalg.norm(np.diff(result.path, axis=0), axis=1)
    # Very small steps are enlarged to bound the number of nodes.
    assert edges.max() <= max(step, result.cost / 100.0) + 1e-9
    assert result.cost == pytest.approx(edges.sum())
    assert max_depth(result.path, world.checker) < 1e-3


def test_costs_of_all_nodes_are_the_lengths_of_their_ways(monkeypatch):
    kept: list[Costs] = []

    def keep(*values: object) -> Costs:
        kept.append(Costs(*values))  # type: ignore[arg-type]
        return kept[-1]

    monkeypatch.setattr(rrt, "Costs", keep)
    planner = Watched(settings(neighbours="radius"))
    world = maze()
    result = planner.plan(world.request((0.5, 0.5), (9.5, 0.5), timeout=60.0))
    assert result.success
    tree, costs = planner.kept.tree, kept[-1]
    count = int(tree.count[0])
    moved = 0
    for node in range(1, count):
        parent = int(tree.parent[node])
        edge = np.linalg.norm(tree.nodes[node] - tree.nodes[parent])
        assert costs.cost[node] == pytest.approx(costs.cost[parent] + edge, abs=1e-9)
        moved += parent > node
    # Later nodes have become parents of earlier ones by rewiring.
    assert moved > 10
    # Children and siblings name each node once, below its own parent.
    seen = 0
    for node in range(count):
        child = int(costs.child[node])
        while child >= 0:
            assert tree.parent[child] == node
            seen += 1
            child = int(costs.sibling[child])
    assert seen == count - 1


def test_shortest_way_around_a_wall_is_come_near_to():
    # Around the end of one wall: two straight lines past its corner, one radius away.
    world = PlanarWorld([Wall((5.0, 3.0), (0.2, 6.0))], radius=0.05)
    start, goal = np.array([2.0, 4.0]), np.array([8.0, 4.0])
    corners = np.array([[4.9, 6.05], [5.1, 6.05]])
    shortest = np.linalg.norm(start - corners[0]) + 0.2 + np.linalg.norm(goal - corners[1])
    planner = RrtStar(RrtStarSettings(step_size=1.0, max_iterations=6000))
    result = planner.plan(world.request(start, goal, timeout=60.0))
    assert result.success
    assert shortest - 0.1 < result.cost < 1.02 * shortest


@pytest.mark.long
def test_paths_are_shorter_than_those_of_rrt_on_average():
    world = maze()
    plain, star = [], []
    for seed in range(6):
        request = replace(world.request((0.5, 0.5), (9.5, 0.5), timeout=30.0), random_seed=seed)
        plain.append(Rrt(RrtSettings(step_size=0.5, max_iterations=20_000)).plan(request).cost)
        star.append(RrtStar(settings()).plan(request).cost)
    assert np.isfinite(star).all()
    assert np.mean(star) < 0.9 * np.mean(plain)
    assert (np.array(star) <= np.array(plain)).all()


@pytest.mark.long
def test_equal_seeds_give_equal_paths():
    request = maze().request((0.5, 0.5), (9.5, 0.5), timeout=60.0)
    first, again = (RrtStar(settings()).plan(request).path for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_straight_way_ends_the_search_at_once():
    world = PlanarWorld()
    planner = RrtStar(RrtStarSettings(step_size=20.0, max_iterations=100_000, goal_bias=1.0))
    result = planner.plan(world.request((1, 1), (9, 9), timeout=60.0))
    assert result.cost == pytest.approx(8 * np.sqrt(2))
    assert result.iterations < 1000


@pytest.mark.long
def test_search_time_ends_an_arms_search_with_its_best_path():
    checker = barrier_checker()
    chosen = RrtStarSettings(step_size=1.5, search_time=1.0)
    request = PlanRequest(checker, START, (JointGoal(GOAL),), timeout=40.0)
    result = RrtStar(chosen).plan(request)
    assert result.status is PlanStatus.SOLVED
    assert result.path is not None
    assert max_depth(result.path, checker) < 3e-3
    assert (result.path[-1] == GOAL).all()


def test_no_way_at_all_is_told():
    world = PlanarWorld([Wall((5.0, 5.0), (0.1, 10.0))])
    result = RrtStar(settings()).plan(world.request((1, 1), (9, 9), timeout=60.0))
    assert result.status is PlanStatus.ITERATION_LIMIT
    assert result.path is None


def test_settings_out_of_range_are_refused_of_rrt_star():
    for bad in ({"neighbours": "all"}, {"rewire_radius": 0.0}, {"search_time": -1.0}):
        with pytest.raises(InvalidConfig, check=about(next(iter(bad)))):
            RrtStarSettings(**bad)  # type: ignore[arg-type]


SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    "planner",
    [
        Rrt(RrtSettings(step_size=0.5)),
        RrtStar(RrtStarSettings(step_size=0.5, max_iterations=1500)),
        RrtConnect(),
    ],
)
def test_tree_and_path_stand_in_the_picture(planner):
    world = maze()
    result = planner.plan(world.request((0.5, 0.5), (9.5, 0.5), timeout=60.0))
    tree = planner.tree()
    assert result.path is not None
    assert tree is not None
    root = ElementTree.fromstring(world.picture(result.path, [tree]))
    edges = root.find(f".//{SVG}path")
    line = root.find(f".//{SVG}polyline")
    assert edges is not None
    assert line is not None
    assert edges.attrib["d"].count("M") == int((tree.parents >= 0).sum())
    assert len(line.attrib["points"].split()) == len(result.path)
    obstacles = [e for e in root.iter() if e.attrib.get("fill") == "#808080"]
    assert len(obstacles) == len(world.obstacles)


def test_world_without_room_is_refused():
    with pytest.raises(InvalidConfig):
        PlanarWorld(low=(1.0, 1.0), high=(1.0, 2.0))
    with pytest.raises(InvalidConfig, check=about("radius")):
        PlanarWorld(radius=0.0)
