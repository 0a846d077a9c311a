# SPDX-License-Identifier: Apache-2.0
"""Call a robot's generated code from Numba kernels through its address.

The kernel is compiled once and cached; the robot is passed as an argument.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic


@intrinsic
def call_one(typing: Any, address: Any, q: Any, out: Any) -> Any:
    """Call ``one(q, out)`` or ``lanes(q, out)`` of a program with a single result.

    Args (in a kernel): the function's address, and the addresses of q and result as integers
    (``array.ctypes.data``). They are not checked.
    """
    return _call(2)


@intrinsic
def call_both(typing: Any, address: Any, q: Any, pose: Any, jacobian: Any) -> Any:
    """Call ``both_one(q, pose, jacobian)`` or ``both_lanes``; arguments as for ``call_one``."""
    return _call(3)


def _call(pointers: int) -> tuple[Signature, Any]:
    """Return signature and code of a call with that many pointers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        function = ir.FunctionType(ir.VoidType(), [pointer] * pointers).as_pointer()
        target = builder.inttoptr(arguments[0], function)
        builder.call(target, [builder.inttoptr(a, pointer) for a in arguments[1:]])
        return context.get_dummy_value()

    return types.void(*[types.intp] * (pointers + 1)), generate
