# SPDX-License-Identifier: Apache-2.0
"""Reads what results wrote by their ``save``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from motion_nodes.api.reachability import ReachabilityMap
from motion_nodes.core.ik.problem import IkBatchResult, IkResult, IkStatus
from motion_nodes.core.robot.result_files import StoredResult, load_result
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.trajectory_files import KIND, read_motion
from motion_nodes.errors import InvalidDescription

Loaded = JointTrajectory | IkResult | IkBatchResult | ReachabilityMap


def load(path: str | Path) -> Loaded:
    """Load a result that was written by its ``save``.

    Args:
        path: ``.csv``, ``.json``, ``.npz`` or ``.mcap``; a trajectory may be of another origin, in
            the first two formats.

    Returns:
        A :class:`JointTrajectory` (of a trajectory or plan), :class:`IkResult`,
        :class:`IkBatchResult` or :class:`ReachabilityMap`.

    Raises:
        InvalidConfig: another suffix.
        InvalidDescription: the file cannot be read, or holds nothing of these.
    """
    stored = load_result(path)
    makers: dict[str, Callable[[StoredResult], Loaded]] = {
        "ik_result": _ik_result,
        "ik_batch": _ik_batch,
        "reachability": _reachability,
    }
    if stored.kind in ("", KIND):
        motion = read_motion(str(path))
        if not isinstance(motion, JointTrajectory):
            raise InvalidDescription(f"{path} holds waypoints without times, and no trajectory.")
        return motion
    if stored.kind not in makers:
        raise InvalidDescription(
            f"{path} holds a '{stored.kind}'; known are {KIND}, {', '.join(makers)}."
        )
    try:
        return makers[stored.kind](stored)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InvalidDescription(f"{path} is incomplete: {error!r}.") from None


def _ik_result(stored: StoredResult) -> IkResult:
    facts = dict(stored.facts)
    status = IkStatus(facts.pop("status"))
    return IkResult(status, stored.columns["q"][0], stored.columns["errors"][0], **facts)


def _ik_batch(stored: StoredResult) -> IkBatchResult:
    status = tuple(IkStatus(str(text)) for text in stored.columns["status"])
    solved = np.array([each is IkStatus.SOLVED for each in status])
    q, errors = stored.columns["q"], stored.columns["errors"]
    iterations = np.asarray(stored.columns["iterations"], np.int64)
    return IkBatchResult(status, solved, q, errors, iterations, float(stored.facts["time"]))


def _reachability(stored: StoredResult) -> ReachabilityMap:
    first, second = (np.unique(stored.columns[name]) for name in ("first", "second"))
    share = np.asarray(stored.columns["share"], np.float64).reshape(len(second), len(first))
    facts = stored.facts
    return ReachabilityMap(str(facts["plane"]), float(facts["offset"]), first, second, share)
