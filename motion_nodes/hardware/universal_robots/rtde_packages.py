# SPDX-License-Identifier: Apache-2.0
"""Packages of the Real-Time Data Exchange (RTDE), protocol version 2, of Universal Robots.

    size (uint16, with the header)  type (uint8)  payload        numbers are big-endian

Source: Universal Robots, "Real-Time Data Exchange (RTDE) Guide".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from motion_nodes.errors import MotionError
from motion_nodes.hardware.robot_driver import DriverFault, LinkLost

PROTOCOL_VERSION, CONTROLLER_VERSION, TEXT_MESSAGE = ord("V"), ord("v"), ord("M")
DATA, SETUP_OUTPUTS, SETUP_INPUTS = ord("U"), ord("O"), ord("I")
START, PAUSE = ord("S"), ord("P")
TYPES = (
    PROTOCOL_VERSION, CONTROLLER_VERSION, TEXT_MESSAGE, DATA, SETUP_OUTPUTS, SETUP_INPUTS, START,
    PAUSE,
)  # fmt: skip

_HEADER = struct.Struct(">HB")
_FORMATS = {
    "BOOL": "?", "UINT8": "B", "UINT32": "I", "UINT64": "Q", "INT32": "i", "DOUBLE": "d",
    "VECTOR3D": "3d", "VECTOR6D": "6d", "VECTOR6INT32": "6i", "VECTOR6UINT32": "6I",
}  # fmt: skip


class UnknownField(MotionError):
    """The controller does not have a field of a recipe."""


def package(kind: int, payload: bytes = b"") -> bytes:
    """Return a package."""
    return _HEADER.pack(_HEADER.size + len(payload), kind) + payload


def take_package(buffer: bytearray) -> tuple[int, bytes] | None:
    """Remove the first package from received bytes.

    Args:
        buffer: received bytes; incomplete packages remain.

    Returns:
        Type and payload; None if no package is complete.

    Raises:
        LinkLost: invalid header; the stream has no markers to resynchronize.
    """
    if len(buffer) < _HEADER.size:
        return None
    size, kind = _HEADER.unpack_from(buffer)
    if size < _HEADER.size or kind not in TYPES:
        raise LinkLost("invalid RTDE package from the controller; reconnecting")
    if len(buffer) < size:
        return None
    payload = bytes(buffer[_HEADER.size : size])
    del buffer[:size]
    return kind, payload


def names_payload(names: Sequence[str]) -> bytes:
    """Return the encoded names of a recipe's fields."""
    return ",".join(names).encode("ascii")


class Recipe:
    """Names, types and id of the fields in one kind of data package."""

    def __init__(self, names: Sequence[str], answer: bytes) -> None:
        """Read the controller's answer to a setup request.

        Args:
            names: the fields that were requested.
            answer: payload: id and types.

        Raises:
            UnknownField: the controller does not have one of them.
            DriverFault: an input is used by another client, or an invalid answer.
        """
        types = answer[1:].decode("ascii", "replace").split(",")
        if not answer or len(types) != len(names):
            raise DriverFault("the controller's answer to an RTDE recipe is unusable")
        for name, kind in zip(names, types, strict=True):
            if kind == "NOT_FOUND":
                raise UnknownField(name)
            if kind == "IN_USE":
                raise DriverFault(
                    f"{name} is in use: another program controls the robot by RTDE, or a fieldbus "
                    "has reserved the register. Stop it; only one program may drive a robot"
                )
            if kind not in _FORMATS:
                raise DriverFault(f"the RTDE type '{kind}' of {name} is not known")
        self.id = answer[0]
        self._struct = struct.Struct(">B" + "".join(_FORMATS[kind] for kind in types))
        self._slices: dict[str, slice] = {}
        at = 1
        for name, kind in zip(names, types, strict=True):
            count = int(_FORMATS[kind][0]) if len(_FORMATS[kind]) > 1 else 1
            self._slices[name] = slice(at, at + count)
            at += count

    def read(self, payload: bytes) -> dict[str, tuple[float, ...]] | None:
        """Return the values of a data package by field [SI units]; None if it is of another recipe.

        Raises:
            DriverFault: a package of another length.
        """
        if not payload or payload[0] != self.id:
            return None
        if len(payload) != self._struct.size:
            raise DriverFault(
                f"an RTDE data package has {len(payload)} bytes instead of {self._struct.size}"
            )
        numbers = self._struct.unpack(payload)
        return {name: numbers[where] for name, where in self._slices.items()}

    def data(self, values: Sequence[float]) -> bytes:
        """Return a data package with the values of all fields [SI units], in their order."""
        return package(DATA, self._struct.pack(self.id, *values))


def text_in(payload: bytes) -> str:
    """Return the text of a text message, without level and source."""
    length = payload[0] if payload else 0
    return payload[1 : 1 + length].decode("utf-8", "replace").strip()
