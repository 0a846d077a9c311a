# SPDX-License-Identifier: Apache-2.0
"""Kinematics and inverse dynamics of the Franka beside pinocchio, from Python.

Run: ``python benchmarks/bench_kinematics.py`` (half a minute; needs ``pin``).

Contenders take turns in short rounds on one core, so that a busy machine slows all of them alike;
medians over the rounds are shown. Results are compared before anything is timed. Pinocchio has
no batches in Python, so it loops there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pinocchio as pin
from harness import Cell, Report, arguments, pin_to_core, ratio, take_turns

from motion_nodes.model.inverse_dynamics import STANDARD_GRAVITY, InverseDynamics
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.loader import load_robot

FRAME = "panda_hand_tcp"
Tasks = dict[str, dict[str, Callable[[], object]]]
"""By what is computed: our way and pinocchio's."""


def tasks(batch: int) -> Tasks:
    """Return contenders whose results agree."""
    robot = load_robot("franka")
    ours, dynamics = Kinematics(robot.tree), InverseDynamics(robot.tree)
    model = pin.buildModelFromXML(robot.urdf)
    model.gravity.linear = np.array(STANDARD_GRAVITY)
    data, frame = model.createData(), model.getFrameId(FRAME)
    rng = np.random.default_rng(0)
    low, high = robot.limits.lower.clip(-3.0), robot.limits.upper.clip(max=3.0)
    Q = rng.uniform(low, high, (batch, len(low)))
    (v, a), q = rng.normal(size=(2, len(low))), Q[0].copy()
    X_all, J_all = np.empty((batch, len(ours.frame_names), 4, 4)), np.empty((batch, 6, len(low)))

    def jacobian(q: np.ndarray) -> np.ndarray:
        axes = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        return pin.computeFrameJacobian(model, data, q, frame, axes)

    def both() -> tuple[np.ndarray, object]:
        J = jacobian(q)
        return J, pin.updateFramePlacement(model, data, frame)

    X, J = ours.pose_and_jacobian(q, FRAME)
    np.testing.assert_allclose(J, both()[0], atol=1e-12)
    np.testing.assert_allclose(X, both()[1].homogeneous, atol=1e-12)
    expected = pin.rnea(model, data, q, v, a)
    np.testing.assert_allclose(dynamics.efforts(q, v, a), expected, rtol=1e-7, atol=1e-7)
    batched = f"batch of {batch}, all calls"
    return {
        "poses of all frames": {
            "ours": lambda: ours.frames(q),
            "pinocchio": lambda: pin.framesForwardKinematics(model, data, q),
        },
        "Jacobian": {"ours": lambda: ours.jacobian(q, FRAME), "pinocchio": lambda: jacobian(q)},
        "pose and Jacobian": {"ours": lambda: ours.pose_and_jacobian(q, FRAME), "pinocchio": both},
        "inverse dynamics": {
            "ours": lambda: dynamics.efforts(q, v, a),
            "pinocchio": lambda: pin.rnea(model, data, q, v, a),
        },
        f"poses of all frames, {batched}": {
            "ours": lambda: ours.frames_batch(Q, X_all),
            "pinocchio": lambda: [pin.framesForwardKinematics(model, data, q) for q in Q],
        },
        f"Jacobian, {batched}": {
            "ours": lambda: ours.jacobian_batch(Q, FRAME, J_all),
            "pinocchio": lambda: [jacobian(q) for q in Q],
        },
    }  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--batch", type=int, default=256, help="configurations in a batch")
    options = parser.parse_args()
    pin_to_core()
    report = Report("Kinematics and inverse dynamics of the Franka")
    rows: list[list[Cell]] = []
    for title, contenders in tasks(options.batch).items():
        times = take_turns(contenders, options.rounds)
        us = {name: 1e6 * found.median for name, found in times.items()}
        rows.append([title, *us.values(), ratio(us["ours"], us["pinocchio"])])
    report.table(
        "One call from Python, medians",
        ["", "motion_nodes [us]", "pinocchio [us]", "ours / pinocchio"],
        rows,
        "Pinocchio's poses are left in C++.",
    )
    report.write(options.json)


if __name__ == "__main__":
    main()
