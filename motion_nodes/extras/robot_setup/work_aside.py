# SPDX-License-Identifier: Apache-2.0
"""Work of a second processor while a robot's folder is made; results are found on the disk.

Convex parts of meshes and code of the robot are needed by the last checks, the trial and the first
start. Each takes seconds, and none depends on what is found meanwhile. The compiler works without
Python's global lock, so a thread is enough for a single call of it; the rest has another process.
"""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.tree import KinematicTree, Mesh
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.scene.convex_decomposition import convex_parts, fills_its_hull
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.extras.robot_setup.folder_files import copy_meshes
from motion_nodes.extras.robot_setup.package_search import PackageSearch
from motion_nodes.kernels.cache import in_turns
from motion_nodes.kernels.parent_death import die_with
from motion_nodes.kernels.robot_codegen import CodeGenerationError


def begin_aside(job: Callable[[], object]) -> None:
    """Begin a job in a fork of this process, which ends with it, finished or not.

    If this process has other threads, which a fork would lose, nothing is done.

    Args:
        job: stores its results on the disk; errors are left to those who compute them again.
    """
    if threading.active_count() > 1:
        return
    child = multiprocessing.get_context("fork").Process(
        target=_run, args=(job, os.getpid()), daemon=True
    )
    with warnings.catch_warnings():  # native threads of libraries, which the child does not need
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()


def _run(job: Callable[[], object], parent: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # not the parent's handlers
        signal.signal(number, signal.SIG_DFL)
    die_with(parent)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    with contextlib.suppress(Exception):
        job()


def decompose_meshes(root: Any, search: PackageSearch, folder: Path) -> None:
    """Store the convex parts of collision meshes, as they will be in the robot's folder.

    Args:
        root: the URDF's <robot>; it is not changed.
        search: locates mesh files.
        folder: for copies of the meshes.
    """
    own = copy.deepcopy(root)
    for link in own.findall("link"):
        for seen in link.findall("visual"):
            link.remove(seen)
    copy_meshes(own, search, folder)
    tree = read_urdf(etree.tostring(own, encoding="unicode"), "")
    shapes = [shape.geometry for link in tree.links.values() for shape in link.collisions]
    meshes = dict.fromkeys(shape for shape in shapes if isinstance(shape, Mesh))
    solids = [read_mesh(folder / mesh.filename, mesh.scale) for mesh in meshes]
    in_turns(partial(convex_parts, solid) for solid in solids if not fills_its_hull(solid))


def compile_poses(tree: KinematicTree, base: str) -> threading.Thread:
    """Begin to compile the poses of all links, which takes a second for many joints.

    Args:
        tree: the robot.
        base: frame of the poses.

    Returns:
        The thread.
    """

    def run() -> None:
        with contextlib.suppress(CodeGenerationError):  # raised again by the checks
            Kinematics(tree, base=base).warm_up(())

    thread = threading.Thread(target=run)
    thread.start()
    return thread
