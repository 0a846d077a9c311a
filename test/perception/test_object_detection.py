# SPDX-License-Identifier: Apache-2.0
"""Objects in point clouds with ground truth, and in color images by description."""

from importlib.metadata import EntryPoint

import numpy as np
import pytest
from perception.boxes_seen import camera, looking, with_faults

from motion_nodes.core.robot.colors import NAMES, RGB, color_in, color_name
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.depth_camera import DepthProjection
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.perception import image_detection
from motion_nodes.extras.perception.image_detection import (
    ColorShapeDetector,
    ImageRegion,
    checked_regions,
    image_detector,
)
from motion_nodes.extras.perception.object_detection import (
    Detection,
    ObjectDetector,
    ObjectNames,
    Shape,
    clusters,
    extents,
    hidden,
    parse_models,
    support_plane,
)
from motion_nodes.extras.perception.settings import DetectorSettings

PINHOLE = camera(320, 240)
EYE = looking((1.1, 0.3, 0.8), (0.45, 0.0, 0.0))
Scene = list[tuple[Shape, np.ndarray]]
TABLE = (Box((1.2, 1.2, 0.02)), from_xyz_rpy((0.4, 0.0, -0.01)))
CUBE = Box((0.04, 0.04, 0.04))


def at(shape: Shape, x: float, y: float, yaw: float = 0.0, on: float = 0.0) -> tuple:
    return shape, from_xyz_rpy((x, y, on + 0.5 * extents(shape)[2]), (0.0, 0.0, yaw))


def depth_of(scene: Scene, X_WC: np.ndarray = EYE) -> np.ndarray:
    """Return the depth of the first shape along each pixel's ray [m], shape (h, w)."""
    rays = DepthProjection(PINHOLE).rays.astype(float)
    found = np.full(len(rays), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for shape, X_WO in scene:
            X_OC = inverse(X_WO) @ X_WC
            o, d = X_OC[:3, 3], rays @ X_OC[:3, :3].T
            half = 0.5 * extents(shape)
            if isinstance(shape, Sphere):
                a, b, c = (d * d).sum(1), d @ o, o @ o - shape.radius**2
                near = (-b - np.sqrt(b * b - a * c)) / a
                hit = b * b > a * c
            else:
                flat = slice(2, 3) if isinstance(shape, Cylinder) else slice(0, 3)
                one, two = (-half - o)[flat] / d[:, flat], (half - o)[flat] / d[:, flat]
                near = np.minimum(one, two).max(1)
                far = np.maximum(one, two).min(1)
                if isinstance(shape, Cylinder):
                    a, b = (d[:, :2] ** 2).sum(1), d[:, :2] @ o[:2]
                    root = np.sqrt(b * b - a * (o[:2] @ o[:2] - shape.radius**2))
                    near, far = np.fmax(near, (-b - root) / a), np.fmin(far, (-b + root) / a)
                    near[np.isnan(root)] = np.inf
                hit = (near <= far) & (near > 0.0)
            found[hit] = np.minimum(found[hit], near[hit])
    return found.reshape(PINHOLE.height, PINHOLE.width)


def cloud(depth: np.ndarray, X_WC: np.ndarray = EYE) -> np.ndarray:
    return DepthProjection(PINHOLE).points(depth) @ X_WC[:3, :3].T + X_WC[:3, 3]


def errors(found: Detection, truth: tuple[Shape, np.ndarray]) -> tuple[float, float]:
    """Return the distance of the centres and the max difference of the sizes [m], in any order."""
    shape, X_WO = truth
    assert type(found.shape) is type(shape), found.shape
    sizes = [np.sort(extents(each)[:2]) for each in (found.shape, shape)]
    high = abs(extents(found.shape)[2] - extents(shape)[2])
    away = float(np.linalg.norm(found.X_WO[:3, 3] - X_WO[:3, 3]))
    return away, max(float(np.abs(sizes[0] - sizes[1]).max()), float(high))


@pytest.mark.parametrize("yaw", [0.0, 0.3, 0.8, 1.3])
def test_boxes_cylinders_and_spheres_are_found_with_their_sizes(yaw):
    truth = [
        at(CUBE, 0.4, 0.2, yaw), at(Box((0.1, 0.05, 0.03)), 0.6, -0.1, yaw),
        at(Cylinder(0.03, 0.1), 0.35, -0.15), at(Sphere(0.035), 0.6, 0.2),
    ]  # fmt: skip
    found = ObjectDetector().detect(cloud(depth_of([TABLE, *truth])))
    assert len(found) == 4
    for each in truth:
        nearest = min(found, key=lambda f: np.linalg.norm(f.X_WO[:3, 3] - each[1][:3, 3]))
        away, size = errors(nearest, each)
        assert away < 0.005, each
        assert size < 0.008, each
        assert nearest.error < 0.004
    long = next(f for f in found if isinstance(f.shape, Box) and max(f.shape.size) > 0.08)
    axis = long.X_WO[:2, int(np.argmax(long.shape.size))]
    assert abs(axis @ (np.cos(yaw), np.sin(yaw))) > np.cos(np.radians(4.0))


def test_noise_holes_and_wrong_pixels_neither_hide_nor_invent_objects():
    rng = np.random.default_rng(1)
    truth = [at(CUBE, 0.4, 0.2, 0.4), at(Cylinder(0.03, 0.1), 0.35, -0.15)]
    depth = depth_of([TABLE, *truth])
    for _ in range(5):
        seen = with_faults(depth, rng, noise=0.002)
        found = ObjectDetector().detect(cloud(seen))
        assert len(found) == 2
        for each in truth:
            assert min(np.linalg.norm(f.X_WO[:3, 3] - each[1][:3, 3]) for f in found) < 0.008


def test_the_noise_of_a_wide_top_is_no_object_on_it():
    rng = np.random.default_rng(4)
    depth = depth_of([TABLE, at(Box((0.2, 0.2, 0.1)), 0.5, -0.1)])
    for _ in range(30):
        seen = depth + 0.0015 * rng.normal(size=depth.shape)
        assert len(ObjectDetector().detect(cloud(seen))) == 1


def test_what_stands_on_a_box_is_an_object_of_its_own():
    shelf = at(Box((0.2, 0.2, 0.1)), 0.5, 0.0, 0.2)
    truth = [shelf, at(CUBE, 0.5, 0.02, 0.5, on=0.1), at(CUBE, 0.3, 0.2)]
    found = ObjectDetector().detect(cloud(depth_of([TABLE, *truth])))
    assert len(found) == 3
    for each in truth:
        nearest = min(found, key=lambda f: np.linalg.norm(f.X_WO[:3, 3] - each[1][:3, 3]))
        assert max(errors(nearest, each)) < 0.012, each


def test_the_plane_is_that_of_least_squares_without_what_stands_on_it():
    rng = np.random.default_rng(2)
    x, y = rng.uniform(-0.5, 0.5, (2, 3000))
    plane = np.column_stack((x, y, 0.3 + 0.04 * x - 0.02 * y))
    things = rng.uniform((-0.5, -0.5, 0.35), (0.5, 0.5, 0.6), (1500, 3))
    X = support_plane(np.vstack((plane, things)), DetectorSettings())
    assert X is not None
    normal = np.array((-0.04, 0.02, 1.0)) / np.linalg.norm((-0.04, 0.02, 1.0))
    assert X[:3, 2] == pytest.approx(normal, abs=1e-3)
    assert (X[:3, 3] - (0.0, 0.0, 0.3)) @ normal == pytest.approx(0.0, abs=1e-3)
    assert X[:3, :3].T @ X[:3, :3] == pytest.approx(np.eye(3), abs=1e-12)
    # A wall is no support; a known height needs no points of the plane.
    wall = plane[:, [2, 0, 1]]
    assert support_plane(wall, DetectorSettings()) is None
    given = support_plane(wall, DetectorSettings(support_height=0.1))
    assert given is not None
    assert given[2, 3] == 0.1


def test_clusters_are_those_of_all_pairs_of_points():
    rng = np.random.default_rng(3)
    centres = np.array([(0, 0, 0), (0.12, 0, 0), (0, 0.12, 0.05), (0.3, 0.3, 0.0)])
    points = np.vstack([c + rng.uniform(-0.03, 0.03, (150, 3)) for c in centres])
    found = clusters(points, 0.03)
    labels = np.empty(len(points), int)
    for k, index in enumerate(found):
        labels[index] = k
    # Oracle: union of all near pairs, without a grid.
    near = np.linalg.norm(points[:, None] - points[None], axis=2) <= 0.03
    reached = np.linalg.matrix_power(near.astype(float), 32) > 0
    assert ((labels[:, None] == labels[None]) == reached).all()
    assert sum(map(len, found)) == len(points)
    assert [len(each) for each in found] == [150, 150, 150, 150]


CLOUDS = (
    np.full((5000, 3), np.nan), np.empty((0, 3)), np.full((500, 3), 1e30),
    np.full((500, 3), np.inf), np.zeros((500, 3)), np.random.default_rng(0).random((9, 3)),
)  # fmt: skip


@pytest.mark.parametrize("points", CLOUDS)
def test_clouds_without_objects(points):
    detector = ObjectDetector()
    assert detector.detect(points) == []
    assert detector.reason


@pytest.mark.parametrize("points", [np.zeros(3), np.zeros((4, 2)), np.zeros((2, 3, 3))])
def test_arrays_that_are_no_clouds(points):
    with pytest.raises(InvalidCommand):
        ObjectDetector().detect(points)
    with pytest.raises(InvalidCommand):
        ObjectDetector().detect(np.zeros((30, 3)), np.zeros((2, 3)))


def test_settings_that_are_refused():
    for wrong in ({"region_min": (1.0, 0.0, 0.0), "region_max": (0.5, 1.0, 1.0)},
                  {"region_min": (0.0, 0.0)}, {"cluster_distance": 0.0}):  # fmt: skip
        with pytest.raises(InvalidConfig):
            DetectorSettings(**wrong)


def test_points_of_the_robot_are_left_out_and_large_clouds_thinned():
    truth = [at(CUBE, 0.4, 0.2), at(CUBE, 0.6, -0.2)]
    points = np.repeat(cloud(depth_of([TABLE, *truth])), 4, axis=0)
    detector = ObjectDetector(DetectorSettings(max_points=60_000))
    assert len(detector.relevant(points)) <= 60_000
    (found,) = detector.detect(points, [(0.4, 0.2, 0.02, 0.06)])
    assert found.X_WO[:2, 3] == pytest.approx((0.6, -0.2), abs=0.006)


def test_objects_behind_or_beside_the_robot_are_hidden():
    X, eyes = from_xyz_rpy((0.5, 0.0, 0.02)), [np.array((1.5, 0.0, 0.02))]
    assert not hidden(CUBE, X, eyes, np.empty((0, 4)))
    assert hidden(CUBE, X, eyes, [(1.0, 0.0, 0.02, 0.05)])
    assert not hidden(CUBE, X, eyes, [(1.0, 0.3, 0.02, 0.05), (0.0, 0.0, 0.02, 0.1)])
    assert hidden(CUBE, X, eyes, [(0.5, 0.0, 0.1, 0.05)])
    # Another camera sees it.
    assert not hidden(CUBE, X, [*eyes, np.array((0.5, 1.0, 0.5))], [(1.0, 0.0, 0.02, 0.05)])


def seen(shape: Shape, x: float, y: float) -> Detection:
    return Detection(shape, at(shape, x, y)[1], 50, 1e-3)


def test_names_stay_with_objects():
    names = ObjectNames()
    a, b = seen(CUBE, 0.4, 0.0), seen(Cylinder(0.03, 0.1), 0.6, 0.0)
    assert names.named([a, b], 1.0) == {"object_1": a, "object_2": b}
    moved = seen(CUBE, 0.45, 0.02)
    assert names.named([b, moved], 2.0) == {"object_1": moved, "object_2": b}
    assert names.named([moved], 3.0) == {"object_1": moved}
    # A carried object keeps its name where it is put down; one that jumps is a new object.
    put = seen(CUBE, 0.1, 0.5)
    assert names.named([b], 4.0, {"object_1": put.X_WO}) == {"object_2": b}
    assert names.named([put, b], 5.0) == {"object_1": put, "object_2": b}
    assert set(names.named([seen(CUBE, 0.7, -0.5)], 6.0)) == {"object_3"}


def test_objects_of_known_size_have_their_names_and_sizes():
    models = parse_models(
        ["red_cube:=box:0.04,0.04,0.04", "brick:=box:0.1,0.05,0.03", "", "can:=cylinder:0.03,0.1"]
    )
    names = ObjectNames(models)
    truth = [at(CUBE, 0.4, 0.2, 0.3), at(Box((0.05, 0.03, 0.1)), 0.6, -0.1, 0.2),
             at(Cylinder(0.03, 0.1), 0.35, -0.15),
             at(Box((0.2, 0.2, 0.06)), 0.7, 0.25)]  # fmt: skip
    found = names.named(ObjectDetector().detect(cloud(depth_of([TABLE, *truth]))), 1.0)
    assert set(found) == {"red_cube", "brick", "can", "object_1"}
    brick = found["brick"]
    assert brick.shape == models[1].shape
    # It stands on its end: its first axis is upright.
    assert abs(brick.X_WO[2, 0]) == pytest.approx(1.0)
    assert np.linalg.det(brick.X_WO[:3, :3]) == pytest.approx(1.0)
    assert brick.X_WO[:3, 3] == pytest.approx(truth[1][1][:3, 3], abs=0.006)
    assert found["can"].shape == models[2].shape


@pytest.mark.parametrize("word", ["cube", "cube:=box:1,2", "cube:=ball:1", "cube:=sphere:x",
                                  "cube:=box:0.1,0.1,-1", "cube:=sphere:nan"])  # fmt: skip
def test_models_that_are_none(word):
    with pytest.raises(InvalidConfig):
        parse_models([word])
    with pytest.raises(InvalidConfig):
        parse_models(["cube:=sphere:0.1", "cube:=sphere:0.2"])


def picture(*items: tuple[str, str, int, int, int]) -> np.ndarray:
    """Return an image with colored squares and disks: color, shape, row, column, half size."""
    image = np.full((120, 160, 3), 210, np.uint8)
    rows, columns = np.mgrid[:120, :160]
    for color, shape, row, column, half in items:
        dr, dc = rows - row, columns - column
        inside = (
            np.hypot(dr, dc) <= half if shape == "disk" else np.maximum(abs(dr), abs(dc)) <= half
        )
        image[inside] = np.round(255 * np.array(RGB[color]))
    return image


SCENE = picture(
    ("red", "square", 60, 30, 8), ("red", "disk", 40, 120, 10), ("blue", "square", 90, 80, 12),
    ("blue", "square", 20, 70, 6),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("red cube", (60, 30)), ("the red ball", (40, 120)), ("left red thing", (60, 30)),
        ("right red thing", (40, 120)), ("big blue box", (90, 80)), ("small blue box", (20, 70)),
        ("the top blue block", (20, 70)), ("a round object", (40, 120)),
    ],
)  # fmt: skip
def test_the_best_region_is_the_described_one(text, at):
    best = ColorShapeDetector().detect(SCENE, text)[0]
    assert best.mask[at]
    assert np.array(np.nonzero(best.mask)).mean(axis=1) == pytest.approx(at, abs=1.0)
    assert 0.0 < best.score <= 1.0


def test_what_is_not_there_is_not_found():
    assert not ColorShapeDetector().detect(SCENE, "green cup")
    assert not ColorShapeDetector().detect(picture(), "red cube")


@pytest.mark.parametrize(
    "image", [np.zeros((10, 10)), np.zeros((10, 10, 4), np.uint8), np.zeros((10, 10, 3)), None]
)
def test_invalid_images_are_refused(image):
    with pytest.raises(InvalidCommand):
        ColorShapeDetector().detect(image, "red cube")


@pytest.mark.parametrize("text", ["", "  ", "x" * 1001])
def test_invalid_texts_are_refused(text):
    with pytest.raises(InvalidCommand):
        ColorShapeDetector().detect(SCENE, text)


@pytest.mark.parametrize("name", NAMES)
def test_colors_keep_their_name_in_light_and_shadow(name):
    low, high = (0.85, 1.05) if name in ("white", "brown", "orange", "gray") else (0.6, 1.1)
    for light in np.linspace(low, high, 5):
        assert color_name(np.clip(light * np.array(RGB[name]), 0.0, 1.0)) == name
    assert color_in(f"{name}_cube") == pytest.approx(RGB[name])


def test_names_without_a_color_have_none():
    assert color_in("cube") is None
    assert color_in("bored_cube") is None
    assert color_name(np.empty((0, 3))) == ""


def _register(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = EntryPoint("mine", value, image_detection.GROUP)
    monkeypatch.setattr(image_detection, "entry_points", lambda group: (entry,))


def test_detectors_of_other_packages_are_found_by_name(monkeypatch):
    _register(monkeypatch, "motion_nodes.extras.perception.image_detection:ColorShapeDetector")
    assert isinstance(image_detector("mine"), ColorShapeDetector)
    with pytest.raises(InvalidConfig, match="colors"):
        image_detector("color")


@pytest.mark.parametrize("value", ["no.such.module:x", "motion_nodes.errors:MotionError"])
def test_detectors_that_cannot_be_used_are_named(monkeypatch, value):
    _register(monkeypatch, value)
    with pytest.raises(InvalidConfig, match="mine"):
        image_detector("mine")


def test_results_of_other_detectors_are_checked():
    good = ImageRegion(np.zeros((4, 5), bool), "cup", 0.5)
    assert checked_regions([good], (4, 5), "mine")[0].label == "cup"
    for bad in (
        ImageRegion(np.zeros((5, 4), bool), "cup", 0.5),
        ImageRegion(np.zeros((4, 5)), "cup", 0.5),
        ImageRegion(np.zeros((4, 5), bool), "cup", float("nan")),
        object(),
    ):
        with pytest.raises(InvalidCommand, match="mine"):
            checked_regions([bad], (4, 5), "mine")
