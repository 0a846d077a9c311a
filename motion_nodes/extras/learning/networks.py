# SPDX-License-Identifier: Apache-2.0
"""Networks of policies and values, with analytic gradients.

Policies are Gaussian with state-independent standard deviations, with a separate value function,
both multilayer perceptrons: one flat vector of parameters, no autograd. Observations are normalized
by running statistics; a trained policy is deterministic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidConfig

Floats = NDArray[Any]
"""Array of one floating-point type: float32 in training, float64 in checks of gradients."""
ACTIVATIONS = ("tanh", "relu")
LOG_STD_RANGE = (-4.0, 1.0)
"""Allowed logarithms of standard deviations."""
_LOG_2PI = math.log(2.0 * math.pi)
CLIP = 10.0
"""Max magnitude of normalized observations."""
_EPS = 1e-8
_BETAS = (0.9, 0.999)


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

    def backward(
        self, flat: Floats, values: list[Floats], error: Floats, grad: Floats | None
    ) -> Floats:
        """Write the gradient of a scalar with respect to the parameters.

        Args:
            flat: parameters.
            values: result of :meth:`forward`.
            error: gradient with respect to the output, shape (m, sizes[-1]).
            grad: result, same layout as ``flat``; None: it is not needed.

        Returns:
            The gradient with respect to the output of the first layer, before its activation, from
            which :meth:`inputs_gradient` follows, shape (m, sizes[1]).
        """
        layers = self.layers(flat)
        grads = None if grad is None else self.layers(grad)
        for i in reversed(range(len(layers))):
            if grads is not None:
                dW, db = grads[i]
                np.matmul(values[i].T, error, out=dW)
                error.sum(axis=0, out=db)
            if i > 0:
                error = error @ layers[i][0].T
                hidden = values[i]
                error *= 1 - hidden * hidden if self.activation == "tanh" else hidden > 0
        return error

    def inputs_gradient(self, flat: Floats, error: Floats) -> Floats:
        """Return the gradient with respect to the inputs, from that of :meth:`backward`, (m, n)."""
        gradient: Floats = error @ self.layers(flat)[0][0].T
        return gradient


class Adam:
    """Steps of Adam (Kingma and Ba 2015, arXiv:1412.6980)."""

    def __init__(self, like: Floats) -> None:
        self.moments = np.zeros((2, len(like)), like.dtype)
        self.updates = 0
        self._scratch = np.empty_like(like)

    def step(self, flat: Floats, grad: Floats, rate: float) -> None:
        """Change parameters by one step against a gradient, with a step size."""
        self.updates += 1
        (first, second), x = self.moments, self._scratch
        # In place: temporary arrays of all parameters would cost more than the arithmetic.
        np.subtract(grad, first, out=x)
        x *= 1.0 - _BETAS[0]
        first += x
        np.multiply(grad, grad, out=x)
        x -= second
        x *= 1.0 - _BETAS[1]
        second += x
        np.multiply(second, 1.0 / (1.0 - _BETAS[1] ** self.updates), out=x)
        np.sqrt(x, out=x)
        x += _EPS
        np.divide(first, x, out=x)
        x *= rate / (1.0 - _BETAS[0] ** self.updates)
        flat -= x


def _orthogonal(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Return a matrix with orthonormal rows or columns, whichever are fewer."""
    rows, columns = max(shape), min(shape)
    Q, R = np.linalg.qr(rng.standard_normal((rows, columns)))
    Q = Q * np.sign(np.diag(R))
    return Q if shape[0] >= shape[1] else Q.T


@dataclass(frozen=True)
class ActorCritic:
    """Structure of policy and value function; parameters are one flat vector.

    Layout: actor, logarithms of the standard deviations, critic.
    """

    observation_size: int
    action_size: int
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers, of the policy and of the value function."""
    activation: str = "tanh"

    @property
    def actor(self) -> Mlp:
        """The policy's mean: observations to actions."""
        return Mlp((self.observation_size, *self.hidden, self.action_size), self.activation)

    @property
    def critic(self) -> Mlp:
        """The value function: observations to a number."""
        return Mlp((self.observation_size, *self.hidden, 1), self.activation)

    @property
    def parameter_count(self) -> int:
        """Length of the flat vector of parameters."""
        return self.actor.parameter_count + self.action_size + self.critic.parameter_count

    def parts(self, flat: Floats) -> tuple[Floats, Floats, Floats]:
        """Return views of the actor's parameters, ``log_std`` and the critic's parameters."""
        a = self.actor.parameter_count
        return flat[:a], flat[a : a + self.action_size], flat[a + self.action_size :]

    def initial(self, rng: np.random.Generator, log_std: float) -> Floats:
        """Return initial parameters: means near zero, orthogonal weights, float32.

        Args:
            rng: source of randomness.
            log_std: logarithm of all standard deviations.
        """
        flat = np.zeros(self.parameter_count, np.float32)
        actor, stds, critic = self.parts(flat)
        self.actor.initialize(actor, rng, 0.01)
        self.critic.initialize(critic, rng, 1.0)
        stds[:] = log_std
        return flat

    def mean(self, flat: Floats, observations: Floats) -> Floats:
        """Return the deterministic actions, shape (m, action_size), of normalized observations."""
        return self.actor.forward(self.parts(flat)[0], observations)[-1]

    def exported(self, flat: Floats) -> ExportedLayers:
        """Return the layers of the deterministic policy."""
        return ExportedLayers(self.actor.layers(self.parts(flat)[0]))

    def value(self, flat: Floats, observations: Floats) -> Floats:
        """Return estimated returns, shape (m,), of normalized observations, shape (m, n)."""
        return self.critic.forward(self.parts(flat)[2], observations)[-1][:, 0]

    def sample(
        self, flat: Floats, observations: Floats, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Return random actions (m, action_size) and their log probabilities (m,)."""
        mean, log_std = self.mean(flat, observations), self.parts(flat)[1]
        noise = rng.standard_normal(mean.shape, dtype=np.float32)
        return mean + np.exp(log_std) * noise, log_probability(noise, log_std)


def log_probability(noise: Floats, log_std: Floats) -> Floats:
    """Return log densities of a diagonal Gaussian.

    Args:
        noise: (action - mean) / std, shape (m, n).
        log_std: shape (n,).
    """
    constant = log_std.sum() + 0.5 * _LOG_2PI * noise.shape[1]
    density: Floats = -0.5 * (noise * noise).sum(axis=1) - constant
    return density


def entropy(log_std: Floats) -> float:
    """Return the differential entropy of a diagonal Gaussian [nat]."""
    return float(log_std.sum()) + 0.5 * len(log_std) * (_LOG_2PI + 1.0)


class RunningNorm:
    """Mean and variance of all rows so far, in double precision.

    Batches are combined by the parallel algorithm of Chan, Golub and LeVeque (1979).
    """

    def __init__(self, size: int) -> None:
        self.count = 0.0
        self.mean = np.zeros(size)
        self.variance = np.ones(size)

    def update(self, rows: Floats) -> None:
        """Add rows, shape (m, size)."""
        m = float(len(rows))
        if not m:
            return
        rows = rows.astype(np.float64)
        mean, variance = rows.mean(axis=0), rows.var(axis=0)
        total, offset = self.count + m, mean - self.mean
        squares = self.variance * self.count + variance * m + offset**2 * (self.count * m / total)
        self.mean = self.mean + offset * (m / total)
        self.variance, self.count = squares / total, total

    @property
    def scale(self) -> Floats:
        """Standard deviations, at least 1e-4, shape (size,)."""
        return np.sqrt(self.variance + _EPS)

    def __call__(self, rows: Floats) -> Floats:
        """Return rows with zero mean and unit variance, clipped to ±10, as float32."""
        shift, scale = self.mean.astype(np.float32), self.scale.astype(np.float32)
        normal = (np.asarray(rows, np.float32) - shift) / scale
        return np.clip(normal, -CLIP, CLIP, out=normal)


@dataclass(frozen=True)
class ExportedLayers:
    """Layers of a deterministic policy, for export."""

    layers: list[tuple[Floats, Floats]]
    """Weights ``(inputs, outputs)`` and biases of each."""
    output_activation: str | None = None
    """Of the last layer; None: linear."""
    output_scale: float = 1.0
    """Factor of its result."""


class PolicyNet(Protocol):
    """Structure of a policy, whose parameters are in a flat vector."""

    @property
    def observation_size(self) -> int:
        """Length of an observation."""

    @property
    def action_size(self) -> int:
        """Length of an action."""

    @property
    def activation(self) -> str:
        """Activation of the hidden layers."""

    @property
    def parameter_count(self) -> int:
        """Length of the flat vector of parameters."""

    def mean(self, flat: Floats, observations: Floats) -> Floats:
        """Return the deterministic actions, shape (m, action_size), of normalized observations."""

    def exported(self, flat: Floats) -> ExportedLayers:
        """Return the layers of the deterministic policy."""


@dataclass(frozen=True)
class Policy:
    """Normalization and deterministic actions of a policy."""

    net: PolicyNet
    flat: Floats
    norm: RunningNorm

    def __call__(self, observations: Floats) -> Floats:
        """Return actions, shape (m, action_size), of raw observations (m, observation_size)."""
        return self.net.mean(self.flat, self.norm(np.atleast_2d(observations)))
