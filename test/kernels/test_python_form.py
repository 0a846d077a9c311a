# SPDX-License-Identifier: Apache-2.0
"""Generated functions of Python: what they take, what they refuse, and that they leave no trace."""

from __future__ import annotations

import array
import re
import sys

import numpy as np
import pytest

from motion_nodes.kernels import native
from motion_nodes.kernels.expression_graph import ExpressionGraph, Program
from motion_nodes.kernels.llvm_text import module_text
from motion_nodes.kernels.python_form import NEEDED, builtin
from motion_nodes.kernels.simd import Lanes


def doubling() -> Program:
    """Return a program from (x, y) to (2x, 2y, 1) and (x + y)."""
    tape = ExpressionGraph()
    x, y = tape.input(0), tape.input(1)
    return Program(tape, 2, ((2.0 * x, 2.0 * y, 1.0), (x + y,)))


TEXT = module_text({"p": doubling()}, {"p": ("one", "python")}, Lanes("double", 4))


@pytest.fixture(scope="module")
def run():
    cpu = native.host_cpu()
    code = native.LoadedCode(native.compiled(TEXT, cpu), cpu)
    yield builtin(code.address("p_python"), "doubled")
    del code


def test_it_is_a_builtin_function_that_does_the_work(run):
    first, second = np.zeros(3), np.zeros((1, 1))
    assert run(np.array([3.0, 4.0]), first, second) == 0
    np.testing.assert_array_equal(first, [6.0, 8.0, 1.0])
    assert second[0, 0] == 7.0
    assert type(run).__name__ == "builtin_function_or_method"
    assert run.__name__ == "doubled"
    assert run(array.array("d", [1.0, 1.0]), first, second) == 0  # whatever exports a buffer
    assert second[0, 0] == 2.0


GOOD = (np.zeros(2), np.zeros(3), np.zeros(1))
READ_ONLY = np.zeros(3)
READ_ONLY.setflags(write=False)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    "bad",
    [
        [0.0, 0.0],
        None,
        1.5,
        "ab",
        b"0123456789abcdef",
        np.zeros(4),
        np.zeros(0),
        np.zeros(6)[::2],
        np.zeros(2, np.float32),
        np.zeros(2, np.int64),
        np.zeros(2, ">f8"),
        np.zeros(1, "c16"),
        np.zeros(1, "d,d"),
        np.zeros(3, object),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(run, place, bad):
    arguments = [a.copy() for a in GOOD]
    arguments[1][:], arguments[2][:] = 5.0, 5.0
    outs = [a for i, a in enumerate(arguments) if i not in (0, place)]
    counted = (*GOOD, bad) if isinstance(bad, np.ndarray) else GOOD
    before = [sys.getrefcount(a) for a in counted]
    arguments[place] = bad
    assert run(*arguments) == 1
    assert all((out == 5.0).all() for out in outs)
    del arguments, outs
    assert [sys.getrefcount(a) for a in counted] == before


def test_shapes_of_q_and_results_that_cannot_be_written(run):
    q, first, second = GOOD
    assert run(np.zeros((2, 1)), first, second) == 1
    assert run(np.zeros((1, 2)), first, second) == 1
    assert run(np.array(0.0), first, second) == 1
    assert run(q, READ_ONLY, second) == 1
    assert run(q, np.zeros((3, 1)), second) == 0


def test_the_number_of_arguments(run):
    for count in (0, 1, 2):
        assert run(*GOOD[:count]) == 1
    assert run(*GOOD, np.zeros(1)) == 1
    with pytest.raises(TypeError, match="keyword"):
        run(q=GOOD[0])


def test_buffers_are_given_back(run):
    # An array that is still lent out cannot grow.
    q, first, second = (array.array("d", [0.0] * n) for n in (2, 3, 1))
    before = [sys.getrefcount(a) for a in (q, first, second)]
    for arguments in ((q, first, second), (q, first, None), (q, None, second), (None, first, q)):
        for _ in range(100):
            run(*arguments)
    del arguments
    assert [sys.getrefcount(a) for a in (q, first, second)] == before
    for a in (q, first, second):
        a.append(1.0)
    assert run(q, first, second) == 1  # now too long


def test_no_error_stays_pending(run):
    assert run(object(), None, None) == 1
    assert eval("1 + 1") == 2  # a pending error would surface here as a SystemError


def test_only_the_stable_interface_is_called():
    assembly = native.assembly(TEXT, native.host_cpu())
    if not native.host_cpu().triple.startswith("x86_64"):
        pytest.skip("reads x86 assembly")
    calls = re.findall(r"\t(?:callq?|jmp)\t\*?([A-Za-z_]\w*)", assembly)
    assert {c for c in calls if c != "p_one"} == set(NEEDED)


def test_only_float64_is_for_python():
    with pytest.raises(ValueError, match="double"):
        module_text({"p": doubling()}, {"p": ("one", "python")}, Lanes("float", 8))
