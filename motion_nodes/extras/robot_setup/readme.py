# SPDX-License-Identifier: Apache-2.0
"""README of a new robot: measured and estimated data, and what to check.

Its picture of the robot and its collision spheres needs no GPU, display or library.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.link_geometry import LinkGeometry, dense_points
from motion_nodes.core.scene.sphere_set import Coverage
from motion_nodes.extras.robot_setup.link_shapes import SelfCollisions
from motion_nodes.extras.robot_setup.notes import Finding, Notes
from motion_nodes.extras.robot_setup.robot_yaml_text import URDF_FILE
from motion_nodes.typing import Array

PICTURE_FILE = "robot.png"
_SIZE = 520
"""Width and height of each of the two views [pixels]."""
_MARGIN = 0.05
"""Margin of a view, relative to its size."""
_FROM = np.array([1.0, -0.75, 0.6])
"""Direction of the viewer."""
_BODY, _SPHERE = np.array([0.78, 0.80, 0.83]), np.array([0.95, 0.55, 0.20])
_OPACITY = 0.6
"""Opacity of spheres in front of the robot."""
_AMBIENT = 0.35
Image = NDArray[np.uint8]
_FILES = {
    "robot.yaml": "groups, limits, named states, drives, pairs that are not checked",
    "robot.urdf": "the URDF, with the changes below; its meshes are in `meshes/`",
    "spheres.yaml": "collision spheres; edit them with `motion spheres`",
    "rmpflow.yaml": "settings of the reactive policy",
    "robot.png": "the robot at `home`, and its collision spheres",
}
_HEADINGS = {
    "guessed": ("Guesses", "Not stated in the source; check them before moving a robot."),
    "changed": ("What was changed in the URDF", ""),
    "missing": ("What is missing", ""),
    "measured": ("What was measured", ""),
}
_REASONS = {
    "always": "touch in all configurations",
    "often": "are second neighbours and touch in most configurations",
    "gripper": "are fingers of one gripper",
    "never": "never come closer than 1 cm",
    "spheres only": "spheres overlap, the geometry does not touch",
    "default": "touch in the home state",
}


def robot_picture(
    geometries: Mapping[str, LinkGeometry], spheres: Mapping[str, Array], X_BL: Mapping[str, Array]
) -> bytes:
    """Return a PNG with two views: the robot, and the robot with its spheres.

    Args:
        geometries: geometries of the links.
        spheres: spheres of the links in their frames, rows of x, y, z, radius [m], shape (k, 4).
        X_BL: poses of the links in the base frame.
    """
    corners = np.concatenate([g.corners @ X_BL[k][:3, :3].T + X_BL[k][:3, 3]
                              for k, g in geometries.items()])  # fmt: skip
    balls = np.concatenate([_moved(s, X_BL[k]) for k, s in spheres.items()] or [np.zeros((0, 4))])
    right, up, towards = _axes()
    R = np.stack((right, up, towards))
    corners, centres = corners @ R.T, balls[:, :3] @ R.T
    low = np.concatenate([corners.reshape(-1, 3), centres - balls[:, 3:]]).min(axis=0)
    high = np.concatenate([corners.reshape(-1, 3), centres + balls[:, 3:]]).max(axis=0)
    pixel = float((high - low)[:2].max()) / (_SIZE * (1.0 - 2.0 * _MARGIN))
    corner = 0.5 * (low + high) - 0.5 * pixel * _SIZE

    body = np.full((_SIZE, _SIZE), -np.inf)
    points = dense_points(corners, pixel)
    columns, rows = np.floor((points[:, :2] - corner[:2]) / pixel).astype(int).T
    np.maximum.at(body, (rows, columns), points[:, 2])
    covered = np.full_like(body, -np.inf)
    for centre, radius in zip(centres, balls[:, 3], strict=True):
        _add_ball(covered, (centre[:2] - corner[:2]) / pixel, centre[2], radius, pixel)

    image = np.ones((_SIZE, _SIZE, 3))
    _paint(image, body, pixel, _BODY, 1.0)
    with_spheres = image.copy()
    in_front = np.where(covered >= body, covered, -np.inf)
    _paint(with_spheres, in_front, pixel, _SPHERE, _OPACITY)
    both = np.concatenate((image, with_spheres), axis=1)[::-1]
    return png((255.0 * both + 0.5).astype(np.uint8))


def png(image: Image) -> bytes:
    """Return an image as a PNG.

    Args:
        image: red, green and blue, rows from the top, shape (h, w, 3).
    """
    height, width = image.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in image)

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _axes() -> tuple[Array, Array, Array]:
    towards = _FROM / np.linalg.norm(_FROM)
    right = np.cross([0.0, 0.0, 1.0], towards)
    right /= np.linalg.norm(right)
    return right, np.cross(towards, right), towards


def _moved(spheres: Array, X: Array) -> Array:
    spheres = np.asarray(spheres, dtype=float).reshape(-1, 4)
    return np.column_stack((spheres[:, :3] @ X[:3, :3].T + X[:3, 3], spheres[:, 3]))


def _add_ball(depth: Array, middle: Array, height: float, radius: float, pixel: float) -> None:
    """Add a sphere to a depth image; ``middle`` in pixels."""
    reach = radius / pixel
    (x0, y0), (x1, y1) = (
        np.clip(np.floor(middle + sign * (reach + 1.0)).astype(int), 0, _SIZE) for sign in (-1, 1)
    )
    x, y = np.arange(x0, x1) + 0.5 - middle[0], np.arange(y0, y1) + 0.5 - middle[1]
    inside = reach**2 - x[None, :] ** 2 - y[:, None] ** 2
    front = np.where(inside >= 0.0, height + pixel * np.sqrt(np.maximum(inside, 0.0)), -np.inf)
    part = depth[y0:y1, x0:x1]
    np.maximum(part, front, out=part)


def _paint(image: Array, depth: Array, pixel: float, colour: Array, opacity: float) -> None:
    """Draw a depth image, shaded by the slope of the surface."""
    seen = np.isfinite(depth)
    if not seen.any():
        return
    smooth = np.where(seen, depth, depth[seen].min())
    dy, dx = np.gradient(smooth, pixel)
    light = (1.0 + 0.4 * dx - 0.5 * dy) / np.sqrt(1.0 + dx**2 + dy**2) / 1.19
    shade = _AMBIENT + (1.0 - _AMBIENT) * np.clip(light, 0.0, 1.0)
    image[seen] = (1.0 - opacity) * image[seen] + opacity * shade[seen, None] * colour


def report(
    name: str,
    file: Path,
    robot: Robot,
    findings: Notes,
    files: Collection[str],
    sections: Sequence[str] = (),
) -> str:
    """Return the text of README.md.

    Args:
        name: name of the robot.
        file: the source file.
        robot: the robot.
        findings: all notes.
        files: names of the folder's files besides the URDF.
        sections: lines of further sections.
    """
    has = {URDF_FILE, *files}
    lines = [
        f"# {name}",
        "",
        f"Made from `{file.name}`: kind {robot.kind}, {len(robot.joint_names)} joints, base frame "
        f"`{robot.base_frame}`"
        + (f", tool frame `{robot.tool_frame}`." if robot.tool_frame else "."),
        "",
        "| file | what |",
        "|---|---|",
        *(f"| `{file_name}` | {what} |" for file_name, what in _FILES.items() if file_name in has),
        "",
    ]
    if PICTURE_FILE in has:
        lines += [f"![The robot and its collision spheres]({PICTURE_FILE})", ""]
    for kind, (heading, words) in _HEADINGS.items():
        items = [item for item in findings if item.kind == kind]
        if items or kind == "guessed":
            lines += [f"## {heading}", "", *([words, ""] if words else [])]
            lines += [_line(item) for item in items] + [""]
    return "\n".join([*lines, *sections]).rstrip() + "\n"


def collision_sections(
    coverage: Mapping[str, Coverage], found: SelfCollisions, free_share: float
) -> list[str]:
    """Return the lines about spheres and self-collisions; none without spheres.

    Args:
        coverage: coverage of the spheres, by link.
        found: result of the search for self-collisions.
        free_share: fraction of random configurations that are collision-free.
    """
    return [*_spheres(coverage), *_pairs(found, free_share)] if coverage else []


def _line(item: Finding) -> str:
    return f"- **{item.topic}**: {item.sentence}"


def _spheres(coverage: Mapping[str, Coverage]) -> list[str]:
    lines = [
        "## Collision spheres",
        "",
        "Fractions of the geometry's surface and volume inside the spheres; volume of the spheres "
        "outside it, relative to its volume; max excess of the spheres beyond it.",
        "",
        "| link | spheres | surface | volume | excess | reach [mm] |",
        "|---|---|---|---|---|---|",
    ]
    for link, c in coverage.items():
        lines.append(
            f"| {link} | {c.count} | {c.surface:.1%} | {c.volume:.1%} | {c.excess_volume:.0%} | "
            f"{1000.0 * c.reach:.0f} |"
        )
    return [*lines, f"| all | {sum(c.count for c in coverage.values())} | | | | |", ""]


def _pairs(found: SelfCollisions, free_share: float) -> list[str]:
    lines = [
        "## Self-collisions",
        "",
        f"From {found.samples} random configurations; adjacent links are never "
        f"checked. {len(found.checked)} pairs are checked. {free_share:.0%} of random "
        "configurations are free.",
        "",
        "| not checked: they | pairs |",
        "|---|---|",
    ]
    for reason, words in _REASONS.items():
        pairs = [pair for pair, why in found.ignored.items() if why == reason]
        if pairs:
            shown = "; ".join(f"{a} - {b}" for a, b in pairs[:12])
            rest = f"; and {len(pairs) - 12} more" if len(pairs) > 12 else ""
            lines.append(f"| {words} | {shown}{rest} |")
    return [*lines, ""]
