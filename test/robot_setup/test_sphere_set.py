# SPDX-License-Identifier: Apache-2.0
"""Sets of spheres: fitted ones cover the geometry, edits return new sets, files round-trip."""

from pathlib import Path

import numpy as np
import pytest
from raised_errors import about
from scipy.spatial import cKDTree

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import Box, Cylinder, Shape, Sphere
from motion_nodes.core.scene.link_geometry import LinkGeometry, dense_points
from motion_nodes.core.scene.sphere_set import (
    SphereSet,
    fit_count,
    fit_spheres,
    measure,
    outside,
)
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription, UnknownFrame
from motion_nodes.extras.robot_setup.link_shapes import fit_spheres as spheres_of_links


def no_mesh(filename: str) -> Path:
    raise AssertionError(filename)


def geometry_of(*solids: object) -> LinkGeometry:
    X = np.eye(4)
    X[:3, :3] = [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    X[:3, 3] = (0.1, -0.2, 0.3)
    geometry = LinkGeometry.of_shapes([Shape(s, X) for s in solids], no_mesh)  # type: ignore[arg-type]
    assert geometry is not None
    return geometry


CASES = [
    (Box((0.2, 0.1, 0.16)), 0.2 * 0.1 * 0.16),
    (Cylinder(0.06, 0.4), np.pi * 0.06**2 * 0.4),
    (Sphere(0.1), 4.0 / 3.0 * np.pi * 0.1**3),
]


@pytest.mark.parametrize(("solid", "volume"), CASES)
def test_a_solid_has_its_volume(solid: object, volume: float) -> None:
    assert geometry_of(solid).volume == pytest.approx(volume, rel=0.15)


@pytest.mark.parametrize("solid", [case[0] for case in CASES])
@pytest.mark.parametrize("accuracy", [0.025, 0.04])
def test_fitted_spheres_hold_a_solid_and_reach_little_beyond_it(
    solid: object, accuracy: float
) -> None:
    geometry = geometry_of(solid)
    spheres = fit_spheres(geometry, accuracy)
    # Checked at points that the fit did not use.
    points = dense_points(geometry.corners[::5], 0.004)
    assert (outside(spheres, points) <= 1e-4).mean() > 0.995
    assert outside(spheres, points).max() < 0.1 * accuracy
    found = measure(spheres, geometry.finer(accuracy / 3.0))
    assert found.volume > 0.95
    assert found.reach <= 1.1 * accuracy


def test_geometry_of_spheres_is_used_as_it_is() -> None:
    links = {
        "balls": geometry_of(Sphere(0.1), Sphere(0.05)),
        "mixed": geometry_of(Sphere(0.1), Box(0.1, 0.1, 0.3)),
    }
    assert links["mixed"].balls is None
    spheres, coverage = spheres_of_links(links, None, lambda step: None)
    assert spheres.of("balls") == pytest.approx(
        np.array([[0.1, -0.2, 0.3, 0.102], [0.1, -0.2, 0.3, 0.052]])
    )
    assert coverage["balls"].gap == 0.0


def test_points_of_any_triangle_are_dense() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, b = rng.normal(size=(2, 3))
        c = a + (b - a) * rng.uniform(-0.2, 1.2) + rng.normal(size=3) * 10 ** rng.uniform(-4, 0)
        corners = np.array([a, b, c])[rng.permutation(3)]
        edge = 10 ** rng.uniform(-1.5, 0)
        inside = rng.dirichlet((0.5, 0.5, 0.5), 100) @ corners
        distances, _ = cKDTree(dense_points(corners[None], edge)).query(inside)
        assert distances.max() <= edge / np.sqrt(3) + 1e-12


def test_slivers_take_few_points() -> None:
    """CAD meshes have thousands of them; sampling by squared length took ten minutes."""
    sliver = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.4, 1e-4, 0.0]]])
    assert len(dense_points(sliver, 1e-3)) < 5000


def test_finer_spheres_are_more_and_reach_less() -> None:
    geometry = geometry_of(Box((0.2, 0.12, 0.08)))
    coarse, fine = (measure(fit_spheres(geometry, a), geometry) for a in (0.04, 0.02))
    assert fine.count > coarse.count
    assert fine.reach < coarse.reach
    assert fine.excess_volume < coarse.excess_volume


def test_a_sphere_is_one_sphere() -> None:
    (sphere,) = fit_spheres(geometry_of(Sphere(0.1)), 0.02)
    np.testing.assert_allclose(sphere[:3], (0.1, -0.2, 0.3), atol=0.005)
    assert 0.1 <= sphere[3] < 0.115


def test_measured_figures_are_those_of_a_ball_around_a_ball() -> None:
    geometry = geometry_of(Sphere(0.1))
    found = measure(np.array([[0.1, -0.2, 0.3, 0.12]]), geometry)
    assert found.surface == found.volume == 1.0
    assert found.excess_volume == pytest.approx(1.2**3 - 1.0, rel=0.1)
    assert found.reach == pytest.approx(0.02, abs=0.003)
    half = measure(np.array([[0.1, -0.2, 0.4, 0.1]]), geometry)
    # Two equal balls a radius apart overlap in two caps of half a radius, 5/16 of a ball.
    assert half.volume == pytest.approx(5.0 / 16.0, abs=0.04)
    assert half.gap == pytest.approx(0.1, abs=0.005)


def test_a_number_of_spheres_is_kept_to() -> None:
    geometry = geometry_of(Cylinder(0.05, 0.4))
    for count in (1, 5):
        spheres = fit_count(geometry, count)
        assert 1 <= len(spheres) <= count
        assert outside(spheres, geometry.surface).max() < 1e-3


def test_an_open_tube_counts_as_solid() -> None:
    closed = geometry_of(Cylinder(0.05, 0.3))
    middle = closed.corners.mean(axis=1)
    lid = middle[:, 2] > middle[:, 2].max() - 1e-9
    opened = LinkGeometry(closed.corners[~lid])
    assert opened.volume > 0.8 * closed.volume


def test_spheres_know_the_open_end_of_a_cover() -> None:
    """Spheres do not bulge out of an open side, where there is no surface."""
    closed = geometry_of(Box((0.3, 0.3, 0.15)))
    middle = closed.corners.mean(axis=1)
    opened = LinkGeometry(closed.corners[middle[:, 2] > middle[:, 2].min() + 1e-9])
    assert opened.volume > 0.8 * closed.volume
    spheres = fit_spheres(opened, 0.04)
    lowest = (spheres[:, 2] - spheres[:, 3]).min()
    assert lowest > closed.bounds[0, 2] - 1.2 * 0.04 - opened.spacing


def test_every_edit_returns_another_set() -> None:
    start = SphereSet({"a": np.array([[0.0, 0.0, 0.0, 0.1], [0.4, 0.0, 0.0, 0.3]])})
    more = start.add("a", (1.0, 0.0, 0.0), 0.2).add("b", (0.0, 0.0, 0.0), 0.5)
    assert (start.count, more.count) == (2, 4)
    assert more.move("a", 0, (0.0, 1.0, 0.0)).of("a")[0].tolist() == [0.0, 1.0, 0.0, 0.1]
    assert more.resize("a", 1, 0.7).of("a")[1, 3] == 0.7
    assert more.remove("a", [0, 2]).of("a").tolist() == [[0.4, 0.0, 0.0, 0.3]]
    assert "b" not in more.remove("b", 0).links
    row = start.connect("a", 0, 1, 3).of("a")[2:]
    np.testing.assert_allclose(row, [[0.1, 0, 0, 0.15], [0.2, 0, 0, 0.2], [0.3, 0, 0, 0.25]])
    assert more.scale(2.0, "b").of("b")[0, 3] == 1.0
    assert more.scale(2.0, "b").of("a")[0, 3] == 0.1
    assert start.of("a").tolist() == [[0.0, 0.0, 0.0, 0.1], [0.4, 0.0, 0.0, 0.3]]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda s: s.add("a", (0.0, 0.0, 0.0), -1.0), "a"),
        (lambda s: s.add("a", (0.0, float("nan"), 0.0), 1.0), "a"),
        (lambda s: s.move("a", 5, (0.0, 0.0, 0.0)), "a"),
        (lambda s: s.move("a", -1, (0.0, 0.0, 0.0)), "a"),
        (lambda s: s.remove("x", 0), "x"),
        (lambda s: s.connect("a", 0, 0, 2), "a"),
        (lambda s: s.connect("a", 0, 1, 0), "a"),
        (lambda s: s.scale(0.0), "factor"),
        (lambda s: s.generate("a", geometry_of(Sphere(0.1))), "a"),
    ],
)
def test_a_bad_edit_is_refused_in_words(edit: object, words: str) -> None:
    start = SphereSet({"a": np.array([[0.0, 0.0, 0.0, 0.1], [0.4, 0.0, 0.0, 0.3]])})
    with pytest.raises(InvalidCommand, check=about(words)):
        edit(start)  # type: ignore[operator]


def test_a_bad_accuracy_link_or_count_is_refused() -> None:
    geometry = geometry_of(Sphere(0.1))
    for accuracy in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidConfig):
            fit_spheres(geometry, accuracy)
    with pytest.raises(InvalidConfig):
        fit_count(geometry, 0)
    with pytest.raises(UnknownFrame):
        SphereSet({"a": np.ones((1, 4))}).scale(2.0, "b")


def test_files_come_back_equal_and_what_was_there_is_kept(tmp_path: Path) -> None:
    spheres = SphereSet.of_robot(load_robot("franka"))
    file = tmp_path / "spheres.yaml"
    assert spheres.write(file) is None
    assert SphereSet.read(tmp_path).text() == spheres.text()
    before = file.read_text()
    kept = spheres.add("panda_hand", (0.0, 0.0, 0.0), 0.05).write(file)
    assert kept == tmp_path / "spheres.yaml.1"
    assert kept.read_text() == before
    assert SphereSet.read(file).count == spheres.count + 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spheres.yaml", "spheres.yaml.1"]


def test_a_bad_file_names_file_and_link(tmp_path: Path) -> None:
    file = tmp_path / "spheres.yaml"
    file.write_text("hand:\n  - [0, 0, 0, 0]\n")
    with pytest.raises(InvalidDescription):
        SphereSet.read(file)
    with pytest.raises(InvalidDescription):
        SphereSet().write(tmp_path / "nowhere" / "spheres.yaml")
