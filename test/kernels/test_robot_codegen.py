# SPDX-License-Identifier: Apache-2.0
"""Which code is used when: keys, units, fallback, calls from other kernels."""

from __future__ import annotations

import dataclasses

import numba
import numpy as np
import pytest
from kernels.random_trees import random_tree

from motion_nodes.errors import MotionError
from motion_nodes.kernels import cache, native, robot_codegen
from motion_nodes.kernels.bridges import call_both, call_one
from motion_nodes.kernels.kinematic_arrays import pack
from motion_nodes.kernels.robot_binding import robot_calls


def arrays_of(seed: int, joints: int = 3):
    tree = random_tree(seed, joints)
    return pack(tree.packed, tree.joint_names, {})


def test_keys_tell_robots_units_and_versions_apart(monkeypatch):
    code = robot_codegen.RobotCode(arrays_of(1))
    keys = {code.key(), code.key(1), code.key(2), robot_codegen.RobotCode(arrays_of(2)).key()}
    keys.add(robot_codegen.RobotCode(arrays_of(1), "float").key())
    assert len(keys) == 5
    assert robot_codegen.RobotCode(arrays_of(1)).key() == code.key()

    moved = arrays_of(1)
    moved.X_PJ[1, 0, 3] = np.nextafter(moved.X_PJ[1, 0, 3], 1.0)
    keys.add(robot_codegen.RobotCode(moved).key())

    cpu = native.host_cpu()
    for change in (
        lambda: monkeypatch.setattr("motion_nodes.__version__", "0.0.0"),
        lambda: monkeypatch.setattr(native, "toolchain", lambda: "another"),
        lambda: monkeypatch.setattr(
            native, "host_cpu", lambda: dataclasses.replace(cpu, name="another")
        ),
        lambda: monkeypatch.setattr(
            native, "host_cpu", lambda: dataclasses.replace(cpu, features=cpu.features + ",+x")
        ),
        lambda: monkeypatch.setattr(robot_codegen, "_GENERATOR", ("expression_graph",)),
    ):
        change()
        robot_codegen._fingerprint.cache_clear()
        keys.add(code.key())
    monkeypatch.undo()
    robot_codegen._fingerprint.cache_clear()
    assert len(keys) == 11


def test_a_second_use_in_one_process_loads_nothing(monkeypatch):
    first = robot_codegen.RobotCode(arrays_of(21)).address("frames_one")
    monkeypatch.setattr(cache, "read_entry", None)
    monkeypatch.setattr(native, "compiled", None)
    assert robot_codegen.RobotCode(arrays_of(21)).address("frames_one") == first


def test_an_unknown_function_is_an_error():
    with pytest.raises(LookupError, match="frames_four"):
        robot_codegen.RobotCode(arrays_of(1)).address("frames_four")


def test_where_llvm_fails_the_reason_is_given(monkeypatch, tmp_path):
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path))  # nothing is kept there

    reason = RuntimeError("no such target")

    def fails(text, cpu):
        raise reason

    monkeypatch.setattr(native, "compiled", fails)
    with pytest.raises(robot_codegen.CodeGenerationError) as raised:
        robot_calls(arrays_of(32))
    assert raised.value.__cause__ is reason
    cpu = native.host_cpu()
    for part in (str(reason), native.toolchain(), cpu.triple, cpu.name):
        assert part in str(raised.value)
    assert issubclass(robot_codegen.CodeGenerationError, MotionError)


@numba.njit
def _loop(both: int, pose: int, Q: np.ndarray, at: tuple[int, int, int], step: int, n: int) -> None:
    for i in range(n):
        call_both(both, at[0] + 8 * step * i, at[1], at[2])
    call_one(pose, at[0], at[1])


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs Numba's compiler")
def test_numba_kernels_call_the_code_of_the_robot_they_are_given():
    rng = np.random.default_rng(6)
    for seed in (41, 42):  # one compiled kernel, two robots
        arrays = arrays_of(seed)
        code, row = robot_codegen.RobotCode(arrays), len(arrays.parent) - 1
        Q = rng.uniform(-2, 2, (5, 3))
        X, J = np.zeros((4, 4)), np.zeros((6, 3))
        at = (Q.ctypes.data, X.ctypes.data, J.ctypes.data)
        _loop(code.address("both_one", row), code.address("pose_one", row), Q, at, 3, 5)
        calls = robot_calls(arrays, generic=True)
        want_X, want_J = np.zeros((5, 4, 4)), np.zeros((5, 6, 3))
        calls.pose_many(row, Q, want_X)
        calls.jacobian_many(row, Q, want_J)
        np.testing.assert_allclose(J, want_J[4], atol=1e-13)  # of the last call_both
        np.testing.assert_allclose(X, want_X[0], atol=1e-13)  # of call_one after it
    assert len(_loop.signatures) == 1
