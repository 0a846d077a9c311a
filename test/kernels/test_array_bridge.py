# SPDX-License-Identifier: Apache-2.0
"""Arrays and numbers come out of a table as they were written, and are the same memory."""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from motion_nodes.kernels.bridges import address, reader
from motion_nodes.kernels.jit import bare_kernel
from motion_nodes.kernels.memory_layout import table_of


class Inner(NamedTuple):
    ratio: float
    whole: Any


class Outer(NamedTuple):
    number: int
    values: Any
    inner: Inner
    cube: Any


def made(shape: tuple[int, int, int], ratio: float) -> Outer:
    rng = np.random.default_rng(sum(shape))
    whole = rng.integers(-9, 9, shape[0]).astype(np.int32)
    return Outer(-7, rng.uniform(size=shape[1:]), Inner(ratio, whole), np.zeros(shape, np.float32))


_read = reader(made((1, 1, 1), 1.0))


@bare_kernel
def fold(table: Any, out: Any) -> float:
    number, values, inner, cube = _read(address(table))
    out[0], out[1], out[2] = values.shape[0], values.shape[1], cube.shape[0]
    for i in range(cube.shape[0]):
        for j in range(cube.shape[1]):
            for k in range(cube.shape[2]):
                cube[i, j, k] = 100 * i + 10 * j + k + inner.whole[i]
    return number + inner.ratio * values[values.shape[0] - 1, values.shape[1] - 1]


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 4), (5, 1, 7)])
@pytest.mark.parametrize("ratio", [0.0, -2.5e300, math.inf])
def test_what_was_written_is_read(shape, ratio):
    item, out = made(shape, ratio), np.zeros(3, np.int64)
    assert fold(table_of(item), out) == -7 + ratio * item.values[-1, -1]
    assert tuple(out) == (shape[1], shape[2], shape[0])
    i, j, k = np.indices(shape)
    expected = 100 * i + 10 * j + k + item.inner.whole[:, np.newaxis, np.newaxis]
    np.testing.assert_array_equal(item.cube, expected)


def test_arrays_with_gaps_are_refused():
    item = made((2, 3, 4), 1.0)
    with pytest.raises(AssertionError):
        table_of(item._replace(values=item.values[:, ::2]))
