# SPDX-License-Identifier: Apache-2.0
"""Multilayer perceptrons with analytic gradients: one flat vector of parameters, no autograd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidConfig

Floats = NDArray[Any]
"""Array of one floating-point type: float32 in training, float64 in checks of gradients."""

ACTIVATIONS = ("tanh", "relu")


@dataclass(frozen=True)
class Mlp:
    """Structure of a perceptron: linear layers with an activation between them.

    Parameters are one flat vector, per layer the weights ``(inputs, outputs)`` and the biases.

    Raises:
        InvalidConfig: fewer than two sizes, a size below 1, or an unknown activation.
    """

    sizes: tuple[int, ...]
    """Inputs, hidden layers, outputs."""
    activation: str = "tanh"
    """``tanh`` or ``relu``."""

    def __post_init__(self) -> None:
        """Validate the structure."""
        if len(self.sizes) < 2 or min(self.sizes) < 1:
            raise InvalidConfig(f"sizes are {self.sizes}; two or more sizes of at least 1 needed.")
        if self.activation not in ACTIVATIONS:
            raise InvalidConfig(
                f"activation is '{self.activation}'; allowed: {', '.join(ACTIVATIONS)}",
                field="activation",
            )

    @property
    def parameter_count(self) -> int:
        """Length of the flat vector of parameters."""
        pairs = zip(self.sizes, self.sizes[1:], strict=False)
        return sum((inputs + 1) * outputs for inputs, outputs in pairs)

    def layers(self, flat: Floats) -> list[tuple[Floats, Floats]]:
        """Return weights ``(inputs, outputs)`` and biases ``(outputs,)`` as views of ``flat``."""
        found, at = [], 0
        for inputs, outputs in zip(self.sizes, self.sizes[1:], strict=False):
            end = at + inputs * outputs
            found.append((flat[at:end].reshape(inputs, outputs), flat[end : end + outputs]))
            at = end + outputs
        return found

    def initialize(self, flat: Floats, rng: np.random.Generator, last_gain: float) -> None:
        """Write orthogonal weights and zero biases.

        Args:
            flat: parameters, overwritten.
            rng: source of randomness.
            last_gain: gain of the last layer; hidden layers have sqrt(2).
        """
        layers = self.layers(flat)
        for i, (W, b) in enumerate(layers):
            gain = last_gain if i == len(layers) - 1 else np.sqrt(2.0)
            W[:], b[:] = gain * _orthogonal(W.shape, rng), 0.0

    def forward(self, flat: Floats, x: Floats) -> list[Floats]:
        """Return the inputs of all layers and the output, each of shape (m, size).

        Args:
            flat: parameters.
            x: inputs, shape (m, sizes[0]).
        """
        values = [x]
        layers = self.layers(flat)
        for i, (W, b) in enumerate(layers):
            y = values[-1] @ W
            y += b
            if i < len(layers) - 1:
                y = np.tanh(y, out=y) if self.activation == "tanh" else np.maximum(y, 0, out=y)
            values.append(y)
        return values

    def backward(self, flat: Floats, values: list[Floats], error: Floats, grad: Floats) -> None:
        """Write the gradient of a scalar with respect to the parameters.

        Args:
            flat: parameters.
            values: result of :meth:`forward`.
            error: gradient with respect to the output, shape (m, sizes[-1]).
            grad: result, same layout as ``flat``.
        """
        layers, grads = self.layers(flat), self.layers(grad)
        for i in reversed(range(len(layers))):
            dW, db = grads[i]
            np.matmul(values[i].T, error, out=dW)
            error.sum(axis=0, out=db)
            if i > 0:
                error = error @ layers[i][0].T
                hidden = values[i]
                error *= 1 - hidden * hidden if self.activation == "tanh" else hidden > 0


def _orthogonal(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Return a matrix with orthonormal rows or columns, whichever are fewer."""
    rows, columns = max(shape), min(shape)
    Q, R = np.linalg.qr(rng.standard_normal((rows, columns)))
    Q = Q * np.sign(np.diag(R))
    return Q if shape[0] >= shape[1] else Q.T
