# SPDX-License-Identifier: Apache-2.0
"""Kinematics and inverse dynamics of the Franka compared with pinocchio, from Python.

Run: ``python benchmarks/bench_kinematics.py`` (half a minute; needs ``pin``).

Contenders take turns in short rounds on one core, so a busy machine slows all alike; reported are
medians over the rounds. Results are compared before timing. Pinocchio has no batches in Python, so
it is called in a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin
from harness import Options, Report, benchmark, take_turns
from harness.timing import pin_to_core

from motion_nodes.core.robot.inverse_dynamics import STANDARD_GRAVITY, InverseDynamics
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot

FRAME = "panda_hand_tcp"
BATCH = 256  # Configurations in a batch
Call = Callable[[], object]


def contenders() -> dict[str, tuple[Call, Call]]:
    """Return our call and pinocchio's, by quantity; checks that their results agree."""
    robot = load_robot("franka")
    ours, dynamics = Kinematics(robot.tree), InverseDynamics(robot.tree)
    model = pin.buildModelFromXML(robot.urdf)
    model.gravity.linear = np.array(STANDARD_GRAVITY)
    data, frame = model.createData(), model.getFrameId(FRAME)
    rng = np.random.default_rng(0)
    low, high = robot.limits.lower.clip(-3.0), robot.limits.upper.clip(max=3.0)
    Q = rng.uniform(low, high, (BATCH, len(low)))
    (v, a), q = rng.normal(size=(2, len(low))), Q[0].copy()
    X_all, J_all = np.empty((BATCH, len(ours.frame_names), 4, 4)), np.empty((BATCH, 6, len(low)))

    def jacobian(q: np.ndarray) -> np.ndarray:
        axes = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        return pin.computeFrameJacobian(model, data, q, frame, axes)

    def both() -> tuple[np.ndarray, Any]:
        J = jacobian(q)
        return J, pin.updateFramePlacement(model, data, frame)

    X, J = ours.pose_and_jacobian(q, FRAME)
    np.testing.assert_allclose(J, both()[0], atol=1e-12)
    np.testing.assert_allclose(X, both()[1].homogeneous, atol=1e-12)
    expected = pin.rnea(model, data, q, v, a)
    np.testing.assert_allclose(dynamics.efforts(q, v, a), expected, rtol=1e-7, atol=1e-7)
    batched = f"batch of {BATCH}, all calls"
    return {
        "poses of all frames": (
            lambda: ours.frames(q), lambda: pin.framesForwardKinematics(model, data, q)),
        "Jacobian": (lambda: ours.jacobian(q, FRAME), lambda: jacobian(q)),
        "pose and Jacobian": (lambda: ours.pose_and_jacobian(q, FRAME), both),
        "inverse dynamics": (
            lambda: dynamics.efforts(q, v, a), lambda: pin.rnea(model, data, q, v, a)),
        f"poses of all frames, {batched}": (
            lambda: ours.frames_batch(Q, X_all),
            lambda: [pin.framesForwardKinematics(model, data, q) for q in Q]),
        f"Jacobian, {batched}": (
            lambda: ours.jacobian_batch(Q, FRAME, J_all), lambda: [jacobian(q) for q in Q]),
    }  # fmt: skip


@benchmark("Kinematics and inverse dynamics of the Franka", rounds=41)
def main(report: Report, options: Options) -> None:
    """Print the table."""
    pin_to_core()
    rows = []
    for title, calls in contenders().items():
        times = take_turns(dict(zip(("ours", "pinocchio"), calls, strict=True)), options.rounds)
        ours, peer = (1e6 * found.p50 for found in times.values())
        rows.append({"": title, "motion_nodes [us]": ours, "pinocchio [us]": peer,
                     "ours / pinocchio": ours / peer})  # fmt: skip
    report.table("One call from Python, medians", rows, "Pinocchio's poses are left in C++.")
