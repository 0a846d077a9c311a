# SPDX-License-Identifier: Apache-2.0
"""Geometry of a robot's links, and spheres that cover it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.model.tree import KinematicTree
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.notes import Notes, listed
from motion_nodes.robot_setup.package_search import PackageSearch
from motion_nodes.robot_setup.sphere_measure import Coverage
from motion_nodes.robot_setup.sphere_set import SphereSet
from motion_nodes.scene.robot_spheres import rigid_links

Progress = Callable[[str], None]


def link_geometries(
    tree: KinematicTree, search: PackageSearch, findings: Notes
) -> dict[str, LinkGeometry]:
    """Return the geometry of each link with shapes.

    A body whose links have no collision geometry at all is represented by what is seen of it.
    """
    links, rigid = tree.links.values(), rigid_links(tree)
    chosen = {link.name: link.collisions for link in links if link.collisions}
    solid = {rigid[name] for name in chosen}
    seen = {
        link.name: link.visuals for link in links if link.visuals and rigid[link.name] not in solid
    }
    if seen:
        which = listed(seen) if solid else "all links"
        text = f"{which}: fitted to what is seen, without collision geometry in the file"
        findings.add("guessed", "spheres.yaml", text)
    chosen |= seen
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


def _accuracies(geometries: Mapping[str, LinkGeometry], given: float | None) -> dict[str, float]:
    """Return the accuracy of each link's spheres [m].

    A sixth of its width, 6 to 40 mm; limited for small parts if one value is given for all.
    """
    chosen = {}
    for link, geometry in geometries.items():
        extents = np.sort(np.ptp(geometry.bounds, axis=0))
        if given is None:
            chosen[link] = float(np.clip(extents[1] / 6.0, 0.006, 0.04))
        else:
            chosen[link] = min(given, max(0.2 * float(extents[2]), 0.5 * given))
        # Not beyond the size of tiny parts, whose grids would otherwise be huge.
        chosen[link] = max(min(chosen[link], float(extents[2])), 1e-4)
    return chosen


def fit_spheres(
    geometries: Mapping[str, LinkGeometry], given: float | None, say: Progress
) -> tuple[SphereSet, dict[str, Coverage]]:
    """Return spheres of all links, and how they cover them.

    Args:
        geometries: of the links.
        given: max excess of spheres beyond the geometry [m]; None: depends on each link's width.
        say: called with the name of each step.
    """
    spheres = SphereSet()
    coverage: dict[str, Coverage] = {}
    accuracies = _accuracies(geometries, given)
    first: dict[bytes, str] = {}  # of identical links, such as wheels and fingers
    for k, (link, geometry) in enumerate(geometries.items()):
        say(f"fitting spheres to {link} ({k + 1} of {len(geometries)})")
        like = first.setdefault(geometry.corners.tobytes(), link)
        if like != link:
            spheres = spheres.with_link(link, spheres.of(like))
            coverage[link] = coverage[like]
            continue
        spheres = spheres.generate(link, geometry, accuracy=accuracies[link])
        coverage[link] = spheres.coverage(link, geometry)
    return spheres, coverage
