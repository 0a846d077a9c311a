# SPDX-License-Identifier: Apache-2.0
"""Integration of RMPflow in generated code: Euler's method, limits in closed form."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from motion_nodes.kernels.rmp import rmp_integration


class Integrator:
    """Memory of the integration of three joints with wide limits."""

    def __init__(self):
        self.code = rmp_integration.integration_code()
        self.header, blocks = rmp_integration.HEADER, -(-3 // self.code.lanes)
        width = blocks * self.code.lanes
        self.memory = np.zeros(self.header.size + len(rmp_integration.ROWS) * width)
        self.whole = self.memory.view(np.int64)
        self.rows = dict(
            zip(
                rmp_integration.ROWS,
                self.memory[self.header.size :].reshape(-1, width),
                strict=True,
            )
        )
        for name, value in (("lower", -9.0), ("upper", 9.0), ("speed", 9.0),
                            ("acceleration", 20.0), ("jerk", 1e6)):  # fmt: skip
            self.rows[name][:] = value
        self.set(joints=3, blocks=blocks)
        self.memory[self.header["dt"]] = 0.01

    def set(self, **values):
        for name, value in values.items():
            self.whole[self.header[name]] = value

    def get(self, name):
        return self.rows[name][:3].copy()


def test_a_step_is_euler_within_the_limits():
    made, rng = Integrator(), np.random.default_rng(8)
    q, qd, a = rng.normal(size=(3, 3))
    for name, value in (("q", q), ("qd", qd), ("desired", a)):
        made.rows[name][:3] = value
    made.code.step(made.memory.ctypes.data)
    assert made.get("q") == pytest.approx(q + 0.01 * qd)
    assert made.get("qd") == pytest.approx(qd + 0.01 * a)
    assert made.get("last") == pytest.approx(a)
    made.rows["desired"][:3] = 40.0, -10.0, 5.0
    made.code.step(made.memory.ctypes.data)  # all are scaled by the one beyond its limit
    assert made.get("last") == pytest.approx([20.0, -5.0, 2.5])
    made.rows["jerk"][:] = 100.0
    made.rows["desired"][:3] = 20.0, 20.0, 2.5
    made.code.step(made.memory.ctypes.data)  # the acceleration changes by the jerk times dt
    assert made.get("last") == pytest.approx([20.0, -4.0, 2.5])
    made.rows["jerk"][:] = 1e6
    made.rows["q"][:3], made.rows["qd"][:3] = (8.999, -9.5, -9.5), (3.0, -1.0, 1.0)
    made.rows["desired"][:3] = 1.0, -1.0, 1.0
    made.code.step(made.memory.ctypes.data)
    q, qd = made.get("q"), made.get("qd")
    assert q[:2] == pytest.approx([9.0, -9.5])  # stopped, and no farther out
    assert qd[:2].tolist() == [0.0, 0.0]
    assert -9.5 < q[2]


def test_several_steps_follow_the_policy_until_it_cannot_be_solved():
    made, rng = Integrator(), np.random.default_rng(9)
    q, qd, offset = rng.normal(size=(3, 3))
    policy, calls = np.zeros(10), []  # q, qd, qdd, pivot

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def evaluate(address):
        assert address == policy.ctypes.data
        calls.append(policy[:6].copy())
        policy[6:9] = -policy[:3] - 0.5 * policy[3:6]
        policy[9] = 1.0 if len(calls) < 6 else 0.0

    made.set(
        evaluate=ctypes.cast(evaluate, ctypes.c_void_p).value, memory=policy.ctypes.data, count=5,
        **{name: policy[k:].ctypes.data for name, k in (("q", 0), ("qd", 3), ("qdd", 6),
                                                        ("pivot", 9))},
    )  # fmt: skip
    for name, value in (("q", q), ("qd", qd), ("offset", offset)):
        made.rows[name][:3] = value
    made.code.run(made.memory.ctypes.data)
    for seen in calls:
        assert seen[:3] == pytest.approx(q + offset)
        a = -(q + offset) - 0.5 * qd
        q, qd = q + 0.01 * qd, qd + 0.01 * a
    assert made.get("q") == pytest.approx(q)
    assert made.whole[made.header["done"]] == 5
    made.code.run(made.memory.ctypes.data)  # the first evaluation fails
    assert made.whole[made.header["done"]] == 0
    assert made.get("q") == pytest.approx(q)
