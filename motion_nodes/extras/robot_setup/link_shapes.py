# SPDX-License-Identifier: Apache-2.0
"""Geometry of the links of a new robot, and spheres that cover it."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.core.scene.robot_spheres import rigid_links
from motion_nodes.core.scene.sphere_set import Coverage, SphereSet
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.notes import Notes, Progress, listed
from motion_nodes.extras.robot_setup.package_search import PackageSearch

_MOST_STATED, _STATED_MARGIN = 100, 0.002
"""Max number of spheres of a link's own geometry that are used, and what is added to their radii,
because edges are checked in steps [m]."""


def link_geometries(
    tree: KinematicTree, search: PackageSearch, findings: Notes
) -> dict[str, LinkGeometry]:
    """Return the geometry of each link with shapes.

    A body without any collision geometry is represented by its visual geometry.
    """
    chosen = {link.name: link.collisions for link in tree.links.values() if link.collisions}
    chosen |= {name: tree.links[name].visuals for name in without_collisions(tree)}
    if not chosen:
        findings.add("missing", "spheres.yaml", "no link has geometry; nothing can be checked")
    geometries = {}
    for name, shapes in chosen.items():
        try:
            geometry = LinkGeometry.of_shapes(shapes, search.find)
        except InvalidDescription as error:
            findings.add("missing", "spheres.yaml", f"{name} is not checked: {error}")
            continue
        if geometry is not None:
            geometries[name] = geometry
    return geometries


def without_collisions(tree: KinematicTree) -> list[str]:
    """Return the links with visual geometry in bodies that have no collision geometry."""
    links, rigid = tree.links.values(), rigid_links(tree)
    solid = {rigid[link.name] for link in links if link.collisions}
    return [link.name for link in links if link.visuals and rigid[link.name] not in solid]


def add_missing_collisions(
    root: Any, tree: KinematicTree, geometries: Mapping[str, LinkGeometry], findings: Notes
) -> bool:
    """Use the visual geometry of bodies without collision geometry as collision geometry.

    Otherwise they would pass through the floor in simulation.

    Args:
        root: the element ``<robot>``, which is changed.
        tree: the tree read from it.
        geometries: geometries of the links whose geometry can be read.
        findings: notes are added.

    Returns:
        Whether there were such bodies.
    """
    names = [name for name in without_collisions(tree) if name in geometries]
    if names:
        collide_as_seen(root, names)
        all_links = not any(link.collisions for link in tree.links.values())
        which = "all links" if all_links else listed(names)
        findings.add("guessed", "collision geometry", f"{which}: the visual geometry")
    return bool(names)


def collide_as_seen(root: Any, names: Collection[str]) -> None:
    """Replace the collision geometry of links by their visual geometry.

    Args:
        root: the element ``<robot>``, which is changed.
        names: names of the links.
    """
    for link in root.findall("link"):
        if link.get("name") not in names:
            continue
        for old in link.findall("collision"):
            link.remove(old)
        for visual in link.findall("visual"):
            collision = copy.deepcopy(visual)
            collision.tag = "collision"
            for material in collision.findall("material"):
                collision.remove(material)
            link.append(collision)


def _accuracies(geometries: Mapping[str, LinkGeometry], given: float | None) -> dict[str, float]:
    """Return the accuracy of each link's spheres [m].

    1/6 of its width, 6 to 40 mm, but at least 1/20 of it, as on cranes; limited for small parts if
    one value is given for all links.
    """
    chosen = {}
    for link, geometry in geometries.items():
        extents = np.sort(np.ptp(geometry.bounds, axis=0))
        if given is None:
            width = float(extents[1])
            chosen[link] = float(np.clip(width / 6.0, 0.006, max(0.04, width / 20.0)))
        else:
            chosen[link] = min(given, max(0.2 * float(extents[2]), 0.5 * given))
        # Bounded by the size of tiny parts, whose grids would otherwise be huge.
        chosen[link] = max(min(chosen[link], float(extents[2])), 1e-4)
    return chosen


def fit_spheres(
    geometries: Mapping[str, LinkGeometry], given: float | None, progress: Progress
) -> tuple[SphereSet, dict[str, Coverage]]:
    """Return spheres of all links, and their coverage.

    Geometry that consists of spheres is used as it is, with a small margin.

    Args:
        geometries: geometries of the links.
        given: max excess of spheres beyond the geometry [m]; None: depends on each link's width.
        progress: callback, called with the name of each step.
    """
    spheres = SphereSet()
    coverage: dict[str, Coverage] = {}
    accuracies = _accuracies(geometries, given)
    first: dict[bytes, str] = {}  # first of identical links, such as wheels and fingers
    for k, (link, geometry) in enumerate(geometries.items()):
        progress(f"fitting spheres to {link} ({k + 1} of {len(geometries)})")
        like = first.setdefault(geometry.corners.tobytes(), link)
        if like != link:
            spheres = spheres.with_link(link, spheres.of(like))
            coverage[link] = coverage[like]
            continue
        if geometry.balls is not None and len(geometry.balls) <= _MOST_STATED:
            larger = np.add(geometry.balls, (0.0, 0.0, 0.0, _STATED_MARGIN))
            spheres = spheres.with_link(link, larger)
        else:
            spheres = spheres.generate(link, geometry, accuracy=accuracies[link])
        coverage[link] = spheres.coverage(link, geometry)
    return spheres, coverage
