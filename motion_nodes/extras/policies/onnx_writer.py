# SPDX-License-Identifier: Apache-2.0
"""Writes small ONNX files without a library: multilayer perceptrons, and graphs node by node.

Supports only the part of the format for such networks; field numbers are those of onnx.proto
(ONNX IR version 8, operator set 17).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidConfig

IR_VERSION, OPERATOR_SET = 8, 17
ACTIVATIONS = {
    "elu": "Elu",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "softsign": "Softsign",
    "tanh": "Tanh",
}
"""ONNX operator of each activation function."""

_FLOAT, _INT64 = 1, 7
"""TensorProto.DataType of float32 and int64."""
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _STRING_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 3, 7
"""AttributeProto.AttributeType."""

Shape = Sequence[int | str]
"""Lengths of the dimensions; a name is a dynamic length."""
Attribute = float | int | str | Sequence[int]


class OnnxGraph:
    """An ONNX model under construction: inputs, constants, operators and outputs, all float32."""

    def __init__(self) -> None:
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []
        self._metadata: list[bytes] = []
        self._count = 0

    def add_input(self, name: str, shape: Shape) -> str:
        """Add an input; return its name."""
        self._inputs.append(_value_info(name, shape))
        return name

    def add_output(self, name: str, shape: Shape) -> None:
        """Declare a value of the graph as an output."""
        self._outputs.append(_value_info(name, shape))

    def add_constant(self, name: str, values: ArrayLike) -> str:
        """Add a constant array of any shape; return its name.

        Raises:
            InvalidConfig: values that are not finite.
        """
        array = np.ascontiguousarray(values, dtype="<f4")
        if not np.isfinite(array).all():
            raise InvalidConfig(f"'{name}' has values that are not finite as float32")
        dims = b"".join(_integer(1, n) for n in array.shape)
        self._constants.append(
            dims + _integer(2, _FLOAT) + _text(8, name) + _bytes(9, array.tobytes())
        )
        return name

    def add_index(self, name: str, values: Sequence[int]) -> str:
        """Add a constant list of whole numbers, such as axes; return its name."""
        content = np.asarray(values, dtype="<i8").tobytes()
        self._constants.append(
            _integer(1, len(values)) + _integer(2, _INT64) + _text(8, name) + _bytes(9, content)
        )
        return name

    def add_node(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str] = (),
        **attributes: Attribute,
    ) -> str:
        """Add an operator.

        Args:
            operator: as in the ONNX standard, such as ``Gemm``.
            inputs: names of its inputs.
            outputs: names of its outputs; empty: one with a generated name.
            attributes: its attributes.

        Returns:
            The name of its first output.
        """
        self._count += 1
        named = outputs or (f"{operator.lower()}_{self._count}",)
        node = b"".join(_text(1, name) for name in inputs)
        node += b"".join(_text(2, name) for name in named)
        node += _text(3, f"{operator}_{self._count}") + _text(4, operator)
        node += b"".join(_bytes(5, _attribute(*item)) for item in attributes.items())
        self._nodes.append(node)
        return named[0]

    def set_metadata(self, entries: Mapping[str, str]) -> None:
        """Add entries to the model's metadata."""
        self._metadata += [_text(1, key) + _text(2, value) for key, value in entries.items()]

    def to_bytes(self) -> bytes:
        """Return the model as the content of a file."""
        graph = b"".join(_bytes(1, node) for node in self._nodes) + _text(2, "policy")
        graph += b"".join(_bytes(5, item) for item in self._constants)
        graph += b"".join(_bytes(11, item) for item in self._inputs)
        graph += b"".join(_bytes(12, item) for item in self._outputs)
        operators = _text(1, "") + _integer(2, OPERATOR_SET)
        model = _integer(1, IR_VERSION) + _text(2, "motion_nodes") + _bytes(7, graph)
        model += _bytes(8, operators)
        return model + b"".join(_bytes(14, item) for item in self._metadata)


@dataclass(frozen=True)
class Perceptron:
    """A multilayer perceptron.

    ``h = clip((obs - mean) / std)``, then ``h = activation(W h + b)`` for each layer; the last one
    has ``output_activation`` instead, and its result is scaled.
    """

    layers: Sequence[tuple[ArrayLike, ArrayLike]]
    """Weights ``(n_out, n_in)`` and biases ``(n_out,)`` of each layer."""
    activation: str = "elu"
    """See :data:`ACTIVATIONS`."""
    output_activation: str | None = None
    """Of the last layer; None: linear."""
    output_scale: float = 1.0
    """Factor of its result."""
    mean: ArrayLike | None = None
    """Subtracted from the observation, shape (n_in,); None: zero."""
    std: ArrayLike | None = None
    """Divides the observation, shape (n_in,), above zero; None: one."""
    input_clip: float | None = None
    """Bound of the normalized observation's magnitude; None: none."""


def write_mlp(
    file: str | Path, mlp: Perceptron, *, metadata: Mapping[str, str] | None = None
) -> Path:
    """Write a multilayer perceptron as ONNX, from ``obs`` (batch, n_in) to ``actions``.

    Args:
        file: to write.
        mlp: the network.
        metadata: entries of the file's metadata.

    Returns:
        The file.

    Raises:
        InvalidConfig: shapes that do not match, values that are not finite, or an unknown
            activation.
    """
    weights = [
        (np.asarray(w, dtype=np.float64), np.asarray(b, dtype=np.float64)) for w, b in mlp.layers
    ]
    _check_layers(weights)
    n_in, n_out = weights[0][0].shape[1], weights[-1][0].shape[0]
    graph = OnnxGraph()
    h = graph.add_input("obs", ("batch", n_in))
    if mlp.mean is not None:
        h = graph.add_node("Sub", [h, graph.add_constant("mean", _row(mlp.mean, n_in, "mean"))])
    if mlp.std is not None:
        scale = _row(mlp.std, n_in, "std")
        if not (scale > 0.0).all():
            raise InvalidConfig("std must be above zero", field="std")
        h = graph.add_node("Div", [h, graph.add_constant("std", scale)])
    if mlp.input_clip is not None:
        bounds = [
            graph.add_constant(f"clip_{i}", s * mlp.input_clip) for i, s in enumerate((-1, 1))
        ]
        h = graph.add_node("Clip", [h, *bounds])
    for i, (w, b) in enumerate(weights):
        last = i == len(weights) - 1
        inputs = [h, graph.add_constant(f"w{i}", w), graph.add_constant(f"b{i}", b)]
        chosen = mlp.output_activation if last else mlp.activation
        ends = last and mlp.output_scale == 1.0
        h = graph.add_node(
            "Gemm", inputs, ("actions",) if ends and chosen is None else (), transB=1
        )
        if chosen is not None:
            h = graph.add_node(_operator(chosen), [h], ("actions",) if ends else ())
    if mlp.output_scale != 1.0:
        factor = graph.add_constant("output_scale", np.full(n_out, mlp.output_scale))
        graph.add_node("Mul", [h, factor], ("actions",))
    graph.add_output("actions", ("batch", n_out))
    graph.set_metadata(metadata or {})
    path = Path(file)
    path.write_bytes(graph.to_bytes())
    return path


def _operator(activation: str) -> str:
    if activation not in ACTIVATIONS:
        raise InvalidConfig(
            f"activation '{activation}' is not known; allowed: {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[activation]


def _check_layers(weights: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    if not weights:
        raise InvalidConfig("a network needs at least one layer")
    for i, (w, b) in enumerate(weights):
        if w.ndim != 2 or b.shape != w.shape[:1]:
            raise InvalidConfig(
                f"layer {i}: weights {w.shape} and biases {b.shape} do not match; they must be "
                "(n_out, n_in) and (n_out,)"
            )
        if i and w.shape[1] != weights[i - 1][0].shape[0]:
            raise InvalidConfig(
                f"layer {i} has {w.shape[1]} inputs, layer {i - 1} has "
                f"{weights[i - 1][0].shape[0]} outputs"
            )


def _row(values: ArrayLike, n: int, name: str) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise InvalidConfig(f"{name} must have shape ({n},), got {array.shape}", field=name)
    return array


def _value_info(name: str, shape: Shape) -> bytes:
    dims = b"".join(_bytes(1, _text(2, n) if isinstance(n, str) else _integer(1, n)) for n in shape)
    tensor = _integer(1, _FLOAT) + _bytes(2, dims)
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        field, kind = _key(2, 5) + struct.pack("<f", value), _FLOAT_ATTRIBUTE
    elif isinstance(value, int):
        field, kind = _integer(3, value), _INT_ATTRIBUTE
    elif isinstance(value, str):
        field, kind = _text(4, value), _STRING_ATTRIBUTE
    else:
        field, kind = b"".join(_integer(8, v) for v in value), _INTS_ATTRIBUTE
    return _text(1, name) + field + _integer(20, kind)


def _varint(value: int) -> bytes:
    """Return a number as protobuf varint, seven bits per byte."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _integer(field: int, value: int) -> bytes:
    return _key(field, 0) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    return _key(field, 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())
