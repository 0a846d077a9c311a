# SPDX-License-Identifier: Apache-2.0
"""Cycle functions: machine code and Python do the same to the same state."""

import importlib
import os
import pkgutil
import subprocess
import sys

import numpy as np
import pytest

import motion_nodes.core as core
from motion_nodes.core.control.joint_guard import ResyncState
from motion_nodes.kernels import cycle_code, cycle_compiler
from motion_nodes.kernels.cycle_code import CycleFunction, compile_apart, compile_cycles

N = 5


def found() -> dict[str, CycleFunction]:
    functions = {}
    for module in pkgutil.walk_packages(core.__path__, "motion_nodes.core."):
        spec = importlib.util.find_spec(module.name)
        if "cycle_function" in open(spec.origin).read():
            members = vars(importlib.import_module(module.name)).values()
            functions |= {each.name: each for each in members if isinstance(each, CycleFunction)}
    return functions


FUNCTIONS = found()


@pytest.fixture(scope="module", autouse=True)
def compiled():
    compile_cycles()


def arrays(state):
    return [x for part in state for x in (arrays(part) if isinstance(part, tuple) else [part])]


def scattered(like, rng):
    """Return an array of a state with values that reach the branches of its function."""
    if like.dtype == np.bool_:
        return rng.random(like.shape) < 0.3
    if like.dtype == np.int64:
        return rng.integers(0, 4, like.shape)
    values = rng.choice([0.0, 1e-4, 0.01, 0.1, 1.0, 4.0], like.shape) * rng.normal(size=like.shape)
    values[rng.random(like.shape) < 0.03] = rng.choice([np.nan, np.inf, 1e9])
    return values


@pytest.mark.parametrize("name", FUNCTIONS)
def test_machine_code_and_python_do_the_same(name):
    function, rng = FUNCTIONS[name], np.random.default_rng(7)
    assert function.run is not None
    maker = type(function.example).of
    for _ in range(300):
        a, b = maker(N), maker(N)
        for x, y in zip(arrays(a), arrays(b), strict=True):
            x[...] = scattered(x, rng)
            y[...] = x
        with np.errstate(all="ignore"):
            expected = function.function(a)
        assert function.bind(b)() == expected
        for i, (x, y) in enumerate(zip(arrays(a), arrays(b), strict=True)):
            np.testing.assert_allclose(y, x, rtol=1e-12, atol=1e-15, err_msg=f"array {i}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_states_of_other_types_are_refused(name):
    """The code would read and write beside their arrays."""
    function = FUNCTIONS[name]
    state = type(function.example).of(N)
    for field, value in zip(state._fields, state, strict=True):
        if isinstance(value, np.ndarray):
            other = value.astype(np.float32 if value.dtype == np.float64 else np.float64)
            with pytest.raises(TypeError, match=field):
                function.bind(state._replace(**{field: other}))


def test_loaded_code_is_never_replaced():
    """Another thread may run it."""
    for function in FUNCTIONS.values():
        run, code = function.run, function._code
        assert function.load()
        assert function.run is run
        assert function._code is code


def test_without_a_cache_python_runs_the_function():
    script = (
        "from motion_nodes.kernels import cache; import sys;"
        "cache._temporary_folders = lambda: ();"
        "from motion_nodes.core.control.joint_guard import ResyncState, _update as f;"
        "s = ResyncState.of(2); call = f.bind(s); s.dt[0] = 1.0; assert call() == 0;"
        "assert s.rested.tolist() == [1.0, 1.0]; assert 'numba' not in sys.modules; print(f.run)"
    )
    folder = {"MOTION_NODES_CACHE_DIR": "/proc/none", "TMPDIR": "/proc/none"}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **folder}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_function_that_cannot_be_compiled_still_runs(caplog):
    state = ResyncState.of(1)
    function = CycleFunction(lambda state: len(str(state)), state)
    compile_apart([function])
    assert "not compiled" in caplog.text
    assert function.run is None
    assert function.bind(state)() > 0


def test_the_key_is_of_all_that_the_code_is_made_of(monkeypatch):
    function = cycle_code.find("motion_nodes.core.control.joint_arbiter:_before")
    key = function.key()
    assert function.key() == key
    for constant in ("CONFIRMED", "REST_TIME"):
        with monkeypatch.context() as changed:
            changed.setattr(f"motion_nodes.core.control.joint_guard.{constant}", 0.123)
            assert function.key() != key
    monkeypatch.setattr(cycle_code, "_source", lambda part: part.__name__)
    assert function.key() != key


def test_warm_up_compiles_all_of_them():
    script = (
        "from motion_nodes.cli.installation import CYCLES\n"
        "from motion_nodes.kernels import cycle_code\n"
        "print(*[each.name for each in cycle_code._DECLARED])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert sorted(done.stdout.split()) == sorted(FUNCTIONS)


def test_object_code_has_the_symbol_that_is_loaded():
    function = cycle_code.find("motion_nodes.core.control.joint_guard:count_away")
    assert cycle_compiler.ENTRY.encode() in cycle_compiler.cache.read_entry(function.key())


def test_names_lead_to_functions():
    for name, function in FUNCTIONS.items():
        assert cycle_code.find(name) is function
        assert function.name == name
