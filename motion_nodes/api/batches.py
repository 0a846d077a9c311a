# SPDX-License-Identifier: Apache-2.0
"""Batches of a group, split into parts for threads, processes or other machines.

Parts are executed by any ``concurrent.futures`` executor: thread and process pools, and those of
Dask, Ray or MPI, whose workers only need this package. Workers cache robots, so only the first part
of a worker compiles or loads code.
"""

from __future__ import annotations

import functools
import io
import os
import pickle
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.api.group_inputs import shape_of
from motion_nodes.core.ik.problem import IkBatchResult, IkSettings
from motion_nodes.core.planning.pipeline import MotionPlan
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand
from motion_nodes.kernels.compute_clock import compute_time

if TYPE_CHECKING:
    from motion_nodes.api.joint_group import JointGroup

Part = TypeVar("Part")

POSES, PLANS = 250, 4
"""Poses and plans per part."""


def _mapping(items: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(items)


class _Pickler(pickle.Pickler):
    """Also pickles the read-only mappings of robots and scenes."""

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, MappingProxyType):
            return _mapping, (dict(obj),)
        return NotImplemented


def pickled(item: object) -> bytes:
    """Pickle an object that contains robots and scenes; inverse: :func:`pickle.loads`."""
    buffer = io.BytesIO()
    _Pickler(buffer).dump(item)
    return buffer.getvalue()


@functools.lru_cache(maxsize=4)
def _group(robot: bytes, name: str) -> JointGroup:
    from motion_nodes.api.joint_group import JointGroup

    return JointGroup(pickle.loads(robot), name)


def _remote(robot: bytes, name: str, call: bytes) -> Any:
    """Compute a part in a worker."""
    function, part, positions = pickle.loads(call)
    return function(_group(robot, name).at(positions), part)


def run_parts(
    group: JointGroup,
    function: Callable[[JointGroup, Part], Any],
    parts: Iterable[Part],
    executor: Executor | None,
) -> list[Any]:
    """Return the results of a function for each part of a batch, in order.

    Args:
        group: first argument of the function.
        function: module-level function; called concurrently by threads or processes.
        parts: second arguments of the function.
        executor: executes the calls; None: a thread per processor.
    """
    if executor is None:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            return run_parts(group, function, parts, threads)
    if isinstance(executor, ThreadPoolExecutor):
        return list(executor.map(functools.partial(function, group), parts))
    model = pickled(group._robot)
    calls = [
        executor.submit(
            _remote, model, group.name, pickled((function, part, group._inputs.positions))
        )
        for part in parts
    ]
    try:
        return [call.result() for call in calls]
    except BaseException:  # also Ctrl-C: nobody waits for the others
        for call in calls:
            call.cancel()
        raise


def split(count: int, size: int) -> list[slice]:
    """Return consecutive slices of at most ``size`` elements that cover ``range(count)``."""
    return [slice(i, min(i + size, count)) for i in range(0, count, size)]


def ik_part(group: JointGroup, part: tuple[Any, ...]) -> IkBatchResult:
    """Solve inverse kinematics for one part of a batch: poses, seeds, scene, settings."""
    poses, seeds, scene, settings = part
    world = None if scene is None else World(scene)
    return group.ik_batch(poses, seeds, world=world, settings=settings)


def ik_parts(
    group: JointGroup,
    X_BT: ArrayLike,
    seeds: ArrayLike | None,
    world: World | None,
    settings: IkSettings | None,
    executor: Executor,
) -> IkBatchResult:
    """Solve inverse kinematics for m poses by an executor.

    The other arguments and the errors are those of ``JointGroup.ik_batch``.
    """
    began = compute_time()
    count, n = (*shape_of(X_BT), 0)[0], len(group.joint_names)
    given = (n,) if seeds is None else shape_of(seeds)
    if shape_of(X_BT) != (count, 4, 4) or given not in ((n,), (1, n), (count, n)):
        return group.ik_batch(X_BT, seeds)  # raises the error
    poses = np.asarray(X_BT, np.float64)
    starts = None if seeds is None else np.asarray(seeds, np.float64)
    if starts is not None and given == (1, n):
        starts = starts[0]
    scene = None if world is None else world.scene
    parts = [
        (
            poses[part],
            starts if starts is None or starts.ndim < 2 else starts[part],
            scene,
            settings,
        )
        for part in split(len(poses), POSES) or [slice(0, 0)]
    ]
    results = run_parts(group, ik_part, parts, executor)
    status = tuple(status for result in results for status in result.status)
    solved, q, errors, iterations = (
        np.concatenate([getattr(result, name) for result in results])
        for name in ("solved", "q", "errors", "iterations")
    )
    return IkBatchResult(status, solved, q, errors, iterations, compute_time() - began)


def plan_part(group: JointGroup, part: tuple[Any, ...]) -> list[MotionPlan]:
    """Plan one part of a batch: pairs of start and goal, scene, timeout [s], seed, options."""
    pairs, scene, timeout, seed, options = part
    world = None if scene is None else World(scene)
    plans = (
        group.plan(start, goal, world, timeout=timeout, seed=seed, options=options)
        for start, goal in pairs
    )
    return [replace(plan, tree=None) for plan in plans]


def pairs_of(starts: Any, goals: Any, joints: int) -> list[tuple[Any, Any]]:
    """Return start and goal of each motion.

    Args:
        starts: one start or m, as configurations [rad or m], shape (n,), or names of states.
        goals: one goal or m; the same, poses of shape (4, 4), or goals.
        joints: number of joints n.

    Raises:
        InvalidCommand: different numbers of starts and goals.
    """
    first, last = _listed(starts, joints), _listed(goals, joints)
    count = len(last) if len(first) == 1 else len(first)
    if len(last) not in (1, count) or (not last and count):
        raise InvalidCommand(
            f"{len(first)} starts and {len(last)} goals; give equal numbers, or one of either."
        )
    first, last = (x * count if len(x) == 1 else x for x in (first, last))
    return list(zip(first, last, strict=True))


def many(given: Any, joints: int) -> bool:
    """Return whether an argument holds several starts or goals; a tuple of goals is one.

    Args:
        given: start or goal of a motion.
        joints: number of joints n.
    """
    if isinstance(given, str | tuple | dict) or not isinstance(given, Sequence | np.ndarray):
        return False
    shape = shape_of(given)
    if shape:
        return len(shape) == 3 or (len(shape) == 2 and shape[1] == joints and shape != (4, 4))
    return bool(len(given)) and not isinstance(given[0], int | float)


def _listed(given: Any, joints: int) -> list[Any]:
    """Return one or several starts or goals as a list."""
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        return [given]
    shape = shape_of(given)
    if shape in ((joints,), (4, 4)) and not (shape == (4, 4) and joints == 4):
        return [given]
    return list(given)
