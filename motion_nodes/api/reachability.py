# SPDX-License-Identifier: Apache-2.0
"""Reachability maps: the fraction of approach directions that an arm reaches in a plane."""

from __future__ import annotations

import math
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.api.group_inputs import shape_of
from motion_nodes.core.ik.problem import IkSettings, IkTolerance
from motion_nodes.core.robot.poses import rigid_pose
from motion_nodes.core.robot.result_files import save_result
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.shapes import spiral_directions, triangle_mesh
from motion_nodes.core.scene.world import World
from motion_nodes.core.trajectory.figures import SvgFigure
from motion_nodes.core.trajectory.trajectory_plot import Axes, page, text
from motion_nodes.errors import InvalidCommand, did_you_mean
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.api.joint_group import JointGroup

PLANES = {"xy": (0, 1, 2), "xz": (0, 2, 1), "yz": (1, 2, 0)}
"""First axis, second axis and normal of each plane."""
MAX_POSES = 1_000_000
_SAMPLES = 4000
"""Number of random configurations from which the extent of the workspace is estimated."""
_SETTINGS = IkSettings(IkTolerance(1e-3, (0.01, 0.01, math.inf)), attempts=20)
"""Default tolerance: the rotation about the approach axis is free."""
_COLOURS = ((255, 255, 255), (253, 231, 37), (53, 183, 121), (49, 104, 142), (68, 1, 84))
"""Colours of the fractions 0 to 1 in equal steps, interpolated linearly."""
_LEVELS = 10
"""Number of colours on the page."""


@dataclass(frozen=True, eq=False, repr=False)
class ReachabilityMap:
    """Fraction of reachable orientations at the points of a plane."""

    plane: str
    """``xy``, ``xz`` or ``yz`` of the group's base."""
    offset: float
    """Position of the plane along its normal [m]."""
    first: Array
    """Coordinates along the first axis of the plane [m], shape (k,)."""
    second: Array
    """Coordinates along the second axis of the plane [m], shape (l,)."""
    share: Array
    """Fraction of reachable orientations, 0 to 1, shape (l, k)."""

    def __repr__(self) -> str:
        """Return plane, size and the share of points that are reached."""
        points = f"{len(self.first)} x {len(self.second)} points"
        reached = f"{100.0 * float((self.share > 0.0).mean()):.0f} % reached"
        return f"ReachabilityMap({self.plane} at {self.offset:g} m, {points}, {reached})"

    def plot(self, *, svg: bool | None = None) -> Any:
        """Return the map as a figure.

        Args:
            svg: is not used: the map is always drawn as SVG.

        Returns:
            An SVG picture, which notebooks display and ``savefig(path)`` writes.
        """
        del svg
        return SvgFigure(self.svg(repr(self)))

    def save(self, path: str | Path) -> None:
        """Write the map to a file, which ``motion_nodes.load`` reads.

        Args:
            path: ``.csv``, ``.json``, ``.npz`` or ``.mcap``.

        Raises:
            InvalidConfig: another suffix, or the file cannot be written.
        """
        x, y = np.meshgrid(self.first, self.second)
        columns = {"first": x.ravel(), "second": y.ravel(), "share": self.share.ravel()}
        save_result(path, "reachability", {"plane": self.plane, "offset": self.offset}, columns)

    def show(self, group: JointGroup, *, port: int = 8080) -> Any:
        """Show the map in the browser, as coloured cells beside the robot.

        Args:
            group: the group that it was computed for.
            port: first TCP port to try.

        Returns:
            The page; see ``RobotModel.show``.

        Raises:
            InvalidCommand: no point is reached.
        """
        levels = np.ceil(self.share * _LEVELS).astype(int)
        if not levels.any():
            raise InvalidCommand("no point of the map is reached.", field="share")
        a, b, _ = PLANES[self.plane]
        half = 0.5 * float(self.first[1] - self.first[0])
        square = half * np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])
        home = group.configuration(group.state("home"))
        X = home.pose(group.base) if group.base else np.eye(4)
        world = World()
        for level in range(1, _LEVELS + 1):
            rows, columns = np.nonzero(levels == level)
            if not len(rows):
                continue
            corners = np.full((len(rows), 4, 3), self.offset)  # of the normal
            corners[..., a] = self.first[columns, None] + square[:, 0]
            corners[..., b] = self.second[rows, None] + square[:, 1]
            faces = 4 * np.arange(len(rows))[:, None, None] + np.array([(0, 1, 2), (0, 2, 3)])
            share = level / _LEVELS
            red, green, blue = _mixed(share)
            name = f"up to {100.0 * share:.0f} % reached"
            cells = triangle_mesh(corners.reshape(-1, 3), faces.reshape(-1, 3))
            rgba = (red / 255.0, green / 255.0, blue / 255.0, 0.8)
            world.add(world_object(name, cells, X, static=True, rgba=rgba))
        return group.show("home", world=world, port=port)

    def svg(self, title: str = "") -> str:
        """Draw the map: reachable points, coloured by fraction.

        Args:
            title: title of the picture.

        Returns:
            An SVG document.
        """
        half = 0.5 * float(self.first[1] - self.first[0])
        x_range, y_range = (
            (float(x[0]) - half, float(x[-1]) + half) for x in (self.first, self.second)
        )
        width = 640.0
        height = 58.0 + (width - 72.0) * (y_range[1] - y_range[0]) / (x_range[1] - x_range[0])
        label = f"{self.plane[0]} [m], upwards {self.plane[1]} [m]"
        axes = Axes(0.0, 0.0, width, height, title, x_range, y_range, label)
        for y, row in zip(self.second.tolist(), self.share.tolist(), strict=True):
            for x, share in zip(self.first.tolist(), row, strict=True):
                if share > 0.0:
                    axes.cell((x - half, x + half), (y - half, y + half), _colour(share))
        return page(width, height + 34.0, [axes.svg(), *_legend(62.0, height + 6.0)])


def reachability_map(
    group: JointGroup,
    plane: str = "xz",
    offset: float = 0.0,
    *,
    step: float = 0.1,
    directions: int = 20,
    orientation: ArrayLike | None = None,
    world: World | None = None,
    executor: Executor | None = None,
) -> ReachabilityMap:
    """Return the fraction of approach directions that an arm reaches at the points of a plane.

    Args:
        group: an arm; poses are those of its tip in its base.
        plane: ``xy``, ``xz`` or ``yz``.
        offset: position of the plane along its normal [m].
        step: grid spacing [m].
        directions: number of directions of the tip's z axis, spread evenly over the sphere; the
            rotation about it is free.
        orientation: a single orientation of the tip instead: rotation matrix in the group's base,
            shape (3, 3).
        world: obstacles; if given, configurations must be collision-free.
        executor: solves parts, e.g. Dask's; None: threads of this process.

    Returns:
        The map; ``.svg()`` is a picture of it.

    Raises:
        InvalidCommand: an unknown plane, numbers out of range, not a rotation, or too many poses.
        InvalidConfig: the group is not a chain.
    """
    if plane not in PLANES:
        raise InvalidCommand(
            f"plane is '{plane}'; allowed: {', '.join(PLANES)}.{did_you_mean(plane, PLANES)}",
            field="plane",
        )
    if not (math.isfinite(offset) and math.isfinite(step) and step > 0.0 and directions >= 1):
        raise InvalidCommand(
            f"offset is {offset} m, step {step} m, directions {directions}; they must be finite, "
            "step above 0 and directions at least 1."
        )
    a, b, across = PLANES[plane]
    places = group.fk_batch(group.random(_SAMPLES, seed=0))[:, :3, 3]
    directions = directions if orientation is None else 1
    width, height = np.ptp(places[:, (a, b)], axis=0).tolist()
    count = directions * (width / step + 1.0) * (height / step + 1.0)
    if count > MAX_POSES:  # before arrays of this size are created
        raise InvalidCommand(
            f"step {step} m and {directions} directions make {count:.3g} poses; allowed are "
            f"{MAX_POSES}: use a larger step or fewer directions.",
            field="step",
        )
    first, second = (_grid(places[:, k], step) for k in (a, b))
    rotations, settings = _rotations(directions, orientation)
    poses = np.zeros((len(second), len(first), len(rotations), 4, 4))
    poses[..., :3, :3], poses[..., 3, 3] = rotations, 1.0
    poses[..., a, 3], poses[..., b, 3] = first[None, :, None], second[:, None, None]
    poses[..., across, 3] = offset
    found = group.ik_batch(
        poses.reshape(-1, 4, 4), world=world, settings=settings, executor=executor
    )
    share = found.solved.reshape(poses.shape[:3]).mean(axis=2)
    return ReachabilityMap(plane, offset, first, second, share)


def _grid(values: Array, step: float) -> Array:
    """Return multiples of a step that contain all values, at least two."""
    low, high = math.floor(values.min() / step), math.ceil(values.max() / step)
    return step * np.arange(low, max(high, low + 1) + 1)


def _rotations(directions: int, orientation: ArrayLike | None) -> tuple[Array, IkSettings]:
    """Return the orientations of the tip, shape (k, 3, 3), and the settings of the solver."""
    if orientation is None:
        return _directions(directions), _SETTINGS
    if shape_of(orientation) != (3, 3):
        raise InvalidCommand("orientation must be a matrix of shape (3, 3).", field="orientation")
    X = np.eye(4)
    X[:3, :3] = orientation
    return rigid_pose(X, "orientation")[None, :3, :3], IkSettings(attempts=20)


def _directions(count: int) -> Array:
    """Return rotations whose z axes are spread evenly, on a spiral, shape (count, 3, 3)."""
    axes = spiral_directions(count)
    helper = np.where(np.abs(axes[:, :1]) < 0.9, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    x = np.cross(helper, axes)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.stack([x, np.cross(axes, x), axes], axis=2)


def _mixed(share: float) -> tuple[int, int, int]:
    """Return the colour of a fraction, 0 to 255 each."""
    place = share * (len(_COLOURS) - 1)
    k = min(int(place), len(_COLOURS) - 2)
    low, high = _COLOURS[k : k + 2]
    red, green, blue = (round(a + (b - a) * (place - k)) for a, b in zip(low, high, strict=True))
    return red, green, blue


def _colour(share: float) -> str:
    return "#{:02x}{:02x}{:02x}".format(*_mixed(share))


def _legend(x: float, y: float) -> list[str]:
    """Return SVG elements that explain the colours."""
    parts = []
    for k in range(11):
        parts.append(
            f'<rect x="{x + 24.0 * k:.0f}" y="{y:.0f}" width="24" height="10" '
            f'fill="{_colour(0.1 * k)}" stroke="#9aa4b0" stroke-width="0.3"/>'
        )
    words = "reached: 0 to 100 % of the orientations"
    return [*parts, text(x + 274.0, y + 9.0, words, size=11)]
