# SPDX-License-Identifier: Apache-2.0
"""Learners: proximal policy optimization and soft actor-critic.

PPO: minibatches, Adam, early stopping on divergence. Source of loss and gradient: Schulman et al.
2017, arXiv:1707.06347, with the clipped value loss of its first implementation; of the generalized
advantage estimation: Schulman et al. 2015, arXiv:1506.02438.

SAC: squashed Gaussian policy, twin critics, learned temperature, replay. Source: Haarnoja et al.
2018, Soft actor-critic algorithms and applications, arXiv:1812.05905.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.extras.learning.networks import (
    LOG_STD_RANGE,
    ActorCritic,
    Adam,
    ExportedLayers,
    Floats,
    Mlp,
    entropy,
    log_probability,
)
from motion_nodes.settings import check_settings, setting

_RATE_RANGE, _RATE_STEP = (1e-5, 1e-2), 1.5


@dataclass(frozen=True)
class TrainingBatch:
    """Steps of rollouts; observations are normalized."""

    observations: Floats
    """Shape (m, observation_size)."""
    actions: Floats
    """Shape (m, action_size)."""
    log_probabilities: Floats
    """Of the actions under the policy that took them, shape (m,)."""
    values: Floats
    """Estimates of the value function at that time, shape (m,)."""
    advantages: Floats
    """Shape (m,)."""
    returns: Floats
    """Shape (m,)."""

    def rows(self, index: Floats) -> TrainingBatch:
        """Return a selection of steps."""
        return TrainingBatch(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class PpoLoss:
    """Loss and its parts."""

    total: float
    policy: float
    value: float
    entropy: float
    kl: float
    """Estimated Kullback-Leibler divergence from the old to the new policy [nat]:
    mean of ``ratio - 1 - log ratio`` (Schulman, http://joschu.net/blog/kl-approx.html)."""
    clipped: float
    """Fraction of steps with a clipped ratio."""


def ppo_loss(
    net: ActorCritic, flat: Floats, batch: TrainingBatch, config: PpoConfig
) -> tuple[PpoLoss, Floats]:
    """Return the loss of a batch and its gradient.

    ``L = -mean min(r A, clip(r) A) + value_weight/2 mean max((V-R)^2, (V_clip-R)^2) -
    entropy_weight H``, where ``V_clip`` is within ``value_clip`` of the old estimate.

    Args:
        net: structure of policy and value function.
        flat: parameters.
        batch: m steps.
        config: clips of ratio and value estimates, and weights of value loss and entropy.

    Returns:
        the loss, and the gradient in the layout of ``flat``.
    """
    m = len(batch.observations)
    clip, value_clip = config.clip, config.value_clip
    value_weight, entropy_weight = config.value_weight, config.entropy_weight
    grad = np.zeros_like(flat)
    actor, log_std, critic = net.parts(flat)
    d_actor, d_log_std, d_critic = net.parts(grad)

    passes = net.actor.forward(actor, batch.observations)
    std = np.exp(log_std)
    noise = (batch.actions - passes[-1]) / std
    log_ratio = np.clip(log_probability(noise, log_std) - batch.log_probabilities, -20.0, 20.0)
    ratio, A = np.exp(log_ratio), batch.advantages
    free, limited = ratio * A, np.clip(ratio, 1.0 - clip, 1.0 + clip) * A
    # The clipped branch is constant: only steps on the other one have a gradient.
    d_log_probability = np.where(free <= limited, -free / m, 0.0)[:, None]
    net.actor.backward(actor, passes, d_log_probability * noise / std, d_actor)
    d_log_std[:] = (d_log_probability * (noise * noise - 1.0)).sum(axis=0) - entropy_weight

    passes = net.critic.forward(critic, batch.observations)
    V = passes[-1][:, 0]
    error = V - batch.returns
    near = batch.values + np.clip(V - batch.values, -value_clip, value_clip) - batch.returns
    followed = (np.abs(V - batch.values) <= value_clip) | (error**2 >= near**2)
    d_value = np.where(followed, value_weight / m * error, 0.0)
    net.critic.backward(critic, passes, d_value[:, None].astype(flat.dtype), d_critic)

    policy_loss = -float(np.minimum(free, limited).mean())
    value_loss = 0.5 * float(np.maximum(error**2, near**2).mean())
    H = entropy(log_std)
    return (
        PpoLoss(
            total=policy_loss + value_weight * value_loss - entropy_weight * H,
            policy=policy_loss,
            value=value_loss,
            entropy=H,
            kl=float((ratio - 1.0 - log_ratio).mean()),
            clipped=float((np.abs(ratio - 1.0) > clip).mean()),
        ),
        grad,
    )


class TrainingDiverged(MotionError, ArithmeticError):
    """Observations, rewards, losses or gradients are not finite."""


@dataclass(frozen=True, kw_only=True)
class PpoConfig:
    """Settings of proximal policy optimization.

    Raises:
        InvalidConfig: a value out of range.
    """

    learning_rate: float = setting(3e-4, doc="Initial step size of Adam.", gt=0.0, le=1.0)
    gamma: float = setting(0.99, doc="Discount factor.", ge=0.0, le=1.0)
    lam: float = setting(0.95, doc="Decay of advantage estimation.", ge=0.0, le=1.0)
    clip: float = setting(0.2, doc="Allowed deviation of probability ratios from 1.", gt=0.0)
    value_clip: float = setting(
        0.2, doc="Allowed change of value estimates per update.", gt=0.0, inf=True
    )
    value_weight: float = setting(0.5, doc="Weight of the value loss.", ge=0.0)
    entropy_weight: float = setting(0.0, doc="Weight of the policy's entropy.", ge=0.0)
    max_grad_norm: float = setting(0.5, doc="Max norm of the gradient.", gt=0.0, inf=True)
    epochs: int = setting(5, doc="Passes over a rollout.", ge=1)
    minibatches: int = setting(4, doc="Parts of a rollout per pass.", ge=1)
    target_kl: float = setting(
        0.01,
        doc="Divergence per update that the step size is adapted to; at four times this value "
        "the update ends early.", unit="nat", gt=0.0, inf=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_settings(self)


class PpoLearner:
    """Parameters of a policy with the state of their optimizer."""

    def __init__(self, net: ActorCritic, flat: Floats, config: PpoConfig) -> None:
        """Create the optimizer.

        Args:
            net: structure of policy and value function.
            flat: initial parameters, copied.
            config: settings.
        """
        self.net, self.config = net, config
        self.flat = flat.copy()
        self.adam = Adam(self.flat)
        self.learning_rate = config.learning_rate

    def update(self, batch: TrainingBatch, rng: np.random.Generator, share: float = 1.0) -> PpoLoss:
        """Improve the policy by the steps of one rollout.

        Args:
            batch: the steps.
            rng: shuffles them.
            share: of ``target_kl`` that this update is to have, above 0.

        Returns:
            mean loss of the minibatches.

        Raises:
            TrainingDiverged: the loss or gradient is not finite; parameters are kept.
        """
        losses: list[PpoLoss] = []
        kl, target = 0.0, share * self.config.target_kl
        size = -(-len(batch.observations) // self.config.minibatches)
        for _ in range(self.config.epochs):
            order = rng.permutation(len(batch.observations))
            epoch = [
                self._step(batch.rows(order[start : start + size]))
                for start in range(0, len(order), size)
            ]
            losses += epoch
            kl = float(np.mean([loss.kl for loss in epoch]))
            if kl > 4.0 * target:
                break
        self._adapt_rate(kl, target)
        return PpoLoss(*(float(np.mean([getattr(x, f) for x in losses])) for f in vars(losses[0])))

    def _step(self, batch: TrainingBatch) -> PpoLoss:
        """Take one step of Adam with a gradient of limited norm."""
        A = batch.advantages
        normal = TrainingBatch(**{**vars(batch), "advantages": (A - A.mean()) / (A.std() + 1e-8)})
        loss, grad = ppo_loss(self.net, self.flat, normal, self.config)
        norm = float(np.linalg.norm(grad))
        if not np.isfinite(norm + loss.total):
            raise TrainingDiverged(
                f"loss {loss.total} or gradient norm {norm} is not finite after "
                f"{self.adam.updates} steps; reduce learning_rate, and check rewards and "
                "observations of the task."
            )
        if norm > self.config.max_grad_norm:
            grad *= self.config.max_grad_norm / norm
        self.adam.step(self.flat, grad, self.learning_rate)
        log_std = self.net.parts(self.flat)[1]
        np.clip(log_std, *LOG_STD_RANGE, out=log_std)
        return loss

    def _adapt_rate(self, kl: float, target: float) -> None:
        """Adapt the step size so that an update changes the policy by ``target`` [nat]."""
        if not np.isfinite(target):
            return
        factor = 1 / _RATE_STEP if kl > 2.0 * target else _RATE_STEP if kl < 0.5 * target else 1.0
        self.learning_rate = float(np.clip(self.learning_rate * factor, *_RATE_RANGE))


def gae(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminated: Floats,
    ended: Floats,
    config: PpoConfig,
) -> tuple[Floats, Floats]:
    """Return advantages and returns of consecutive steps.

    ``delta_t = r_t + gamma (1 - terminated_t) V'_t - V_t`` and
    ``A_t = delta_t + gamma lam (1 - ended_t) A_{t+1}``. A terminated episode has no future
    rewards; those of a truncated one (time limit, end of the rollout) are estimated by ``V'``.

    Args:
        rewards: shape (steps, ...).
        values: estimates ``V_t`` of the observations before each step, same shape.
        next_values: estimates ``V'_t`` of the observations after it, before any reset, same shape.
        terminated: 1 where the episode reached a terminal state, same shape.
        ended: 1 where the next row belongs to another episode: terminated or truncated.
        config: discount factor ``gamma`` and decay ``lam``.

    Returns:
        advantages and returns (advantages + values), same shape.

    Raises:
        InvalidConfig: different shapes.
    """
    shapes = {np.shape(x) for x in (rewards, values, next_values, terminated, ended)}
    if len(shapes) != 1 or not np.ndim(rewards):
        raise InvalidConfig(f"arrays of steps must have one shape, got {sorted(shapes)}.")
    gamma, lam = config.gamma, config.lam
    delta = rewards + gamma * (1.0 - terminated) * next_values - values
    advantages, following = np.empty_like(delta), np.zeros_like(delta[0])
    for t in reversed(range(len(delta))):
        following = delta[t] + gamma * lam * (1.0 - ended[t]) * following
        advantages[t] = following
    return advantages, advantages + values


LOG_STD = (-5.0, 2.0)
"""Range of the logarithms of standard deviations, before squashing."""
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_EDGE = 1e-6
"""Added to ``1 - tanh^2``, whose logarithm is taken."""


@dataclass(frozen=True, kw_only=True)
class SacConfig:
    """Settings of soft actor-critic.

    Raises:
        InvalidConfig: a value out of range.
    """

    learning_rate: float = setting(1e-3, doc="Step size of Adam.", gt=0.0, le=1.0)
    gamma: float = setting(0.95, doc="Discount factor.", ge=0.0, le=1.0)
    tau: float = setting(
        0.01, doc="Share of the critics that the targets take over.", gt=0.0, le=1.0
    )
    batch: int = setting(256, doc="Steps of an update.", ge=1)
    replay: int = setting(200_000, doc="Steps that are kept for updates.", ge=1)
    warm_up: int = setting(2_000, doc="Steps with random actions before the first update.", ge=1)
    updates_per_step: float = setting(
        0.25, doc="Updates for each step of an environment.", gt=0.0, le=100.0
    )
    temperature: float = setting(0.1, doc="Initial weight of the entropy.", gt=0.0)
    target_entropy: float = setting(
        -1.0, doc="Entropy per action that the temperature is adapted to.", unit="nat"
    )
    action_limit: float = setting(3.0, doc="Max magnitude of actions.", gt=0.0)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class SquashedActor:
    """Structure of the policy and of two critics; parameters are one flat vector.

    Actions are ``limit tanh(u)``, where u is Gaussian; critics take ``tanh(u)``.
    """

    observation_size: int
    action_size: int
    hidden: tuple[int, ...] = (128, 128)
    activation: str = "relu"
    limit: float = 1.0

    @property
    def actor(self) -> Mlp:
        """Observations to means and raw logarithms of standard deviations."""
        return Mlp((self.observation_size, *self.hidden, 2 * self.action_size), self.activation)

    @property
    def critic(self) -> Mlp:
        """Observations and squashed actions to a number."""
        return Mlp((self.observation_size + self.action_size, *self.hidden, 1), self.activation)

    @property
    def parameter_count(self) -> int:
        """Length of the flat vector of parameters."""
        return self.actor.parameter_count + 2 * self.critic.parameter_count

    def parts(self, flat: Floats) -> tuple[Floats, Floats, Floats]:
        """Return views of the parameters of the actor and of both critics."""
        a, c = self.actor.parameter_count, self.critic.parameter_count
        return flat[:a], flat[a : a + c], flat[a + c :]

    def initial(self, rng: np.random.Generator) -> Floats:
        """Return initial parameters: means near zero, orthogonal weights, float32."""
        flat = np.zeros(self.parameter_count, np.float32)
        actor, *critics = self.parts(flat)
        self.actor.initialize(actor, rng, 0.01)
        for critic in critics:
            self.critic.initialize(critic, rng, 1.0)
        return flat

    def mean(self, flat: Floats, observations: Floats) -> Floats:
        """Return the deterministic actions, shape (m, action_size), of normalized observations."""
        out = self.actor.forward(self.parts(flat)[0], observations)[-1]
        actions: Floats = self.limit * np.tanh(out[:, : self.action_size])
        return actions

    def exported(self, flat: Floats) -> ExportedLayers:
        """Return the layers of the deterministic policy."""
        *layers, (W, b) = self.actor.layers(self.parts(flat)[0])
        n = self.action_size
        return ExportedLayers([*layers, (W[:, :n], b[:n])], "tanh", self.limit)

    def squashed(self, actor: Floats, observations: Floats, noise: Floats) -> Squashed:
        """Return random squashed actions.

        Args:
            actor: its parameters.
            observations: normalized, shape (m, observation_size).
            noise: standard normal, shape (m, action_size).
        """
        passes = self.actor.forward(actor, observations)
        n = self.action_size
        low, high = LOG_STD
        slope = np.tanh(passes[-1][:, n:])
        log_std = low + 0.5 * (high - low) * (slope + 1.0)
        std = np.exp(log_std)
        actions = np.tanh(passes[-1][:, :n] + std * noise)
        room = 1.0 - actions**2 + _EDGE
        density = -0.5 * noise**2 - log_std - _HALF_LOG_2PI - np.log(room)
        return Squashed(passes, slope, std, noise, actions, density.sum(axis=1))

    def values(self, critics: Floats, observations: Floats, actions: Floats) -> list[list[Floats]]:
        """Return the passes of both critics, whose parameters follow each other."""
        x = np.concatenate((observations, actions), axis=1)
        half = self.critic.parameter_count
        return [self.critic.forward(critics[k * half : (k + 1) * half], x) for k in range(2)]


@dataclass(frozen=True)
class Squashed:
    """Random actions with what their gradient needs."""

    passes: list[Floats]
    slope: Floats
    """Tanh of the raw logarithms of standard deviations, shape (m, n)."""
    std: Floats
    noise: Floats
    actions: Floats
    """Within -1 and 1, shape (m, n)."""
    log_probability: Floats
    """Of the squashed actions, shape (m,)."""


@dataclass(frozen=True)
class ReplayBatch:
    """Steps of environments; observations are normalized, actions squashed."""

    observations: Floats
    actions: Floats
    rewards: Floats
    following: Floats
    """Observations after the step."""
    terminated: Floats


def critic_loss(
    net: SquashedActor, critics: Floats, batch: ReplayBatch, targets: Floats
) -> tuple[float, Floats]:
    """Return ``1/2 mean (Q_1 - y)^2 + (Q_2 - y)^2`` and its gradient.

    Args:
        net: structure.
        critics: parameters of both critics.
        batch: m steps.
        targets: y, shape (m,).
    """
    grad, half, loss = np.zeros_like(critics), net.critic.parameter_count, 0.0
    passes = net.values(critics, batch.observations, batch.actions)
    for k, values in enumerate(passes):
        error = values[-1][:, 0] - targets
        loss += 0.5 * float((error**2).mean())
        part = slice(k * half, (k + 1) * half)
        d_value = (error / len(error))[:, None].astype(critics.dtype)
        net.critic.backward(critics[part], values, d_value, grad[part])
    return loss, grad


def actor_loss(
    net: SquashedActor, flat: Floats, observations: Floats, noise: Floats, temperature: float
) -> tuple[float, Floats, float]:
    """Return ``mean (temperature log pi - min Q)`` with its gradient, and the mean of ``log pi``.

    Args:
        net: structure.
        flat: parameters of actor and critics; the gradient is that of the actor's.
        observations: normalized, shape (m, observation_size).
        noise: standard normal, shape (m, action_size).
        temperature: weight of the entropy.
    """
    actor, m, n = net.parts(flat)[0], len(observations), net.action_size
    found = net.squashed(actor, observations, noise)
    critics = flat[len(actor) :]
    passes = net.values(critics, observations, found.actions)
    values = np.concatenate([p[-1] for p in passes], axis=1)
    lower, half = values.argmin(axis=1), net.critic.parameter_count
    d_action = np.zeros_like(found.actions)
    for k, one in enumerate(passes):
        part = critics[k * half : (k + 1) * half]
        chosen = (lower == k).astype(flat.dtype)[:, None]
        first = net.critic.backward(part, one, chosen, None)
        d_action += net.critic.inputs_gradient(part, first)[:, -n:]
    a, room = found.actions, 1.0 - found.actions**2
    d_u = (temperature * 2.0 * a * room / (room + _EDGE) - d_action * room) / m
    d_log_std = d_u * found.std * found.noise - temperature / m
    d_raw = d_log_std * 0.5 * (LOG_STD[1] - LOG_STD[0]) * (1.0 - found.slope**2)
    grad = np.zeros_like(actor)
    error = np.concatenate((d_u, d_raw), axis=1).astype(flat.dtype)
    net.actor.backward(actor, found.passes, error, grad)
    loss = float((temperature * found.log_probability - values.min(axis=1)).mean())
    return loss, grad, float(found.log_probability.mean())


class Replay:
    """The newest steps, in a ring."""

    def __init__(self, size: int, observation_size: int, action_size: int) -> None:
        self.arrays: dict[str, Floats] = {
            "observations": np.zeros((size, observation_size), np.float32),
            "actions": np.zeros((size, action_size), np.float32),
            "rewards": np.zeros(size, np.float32),
            "following": np.zeros((size, observation_size), np.float32),
            "terminated": np.zeros(size, np.float32),
        }
        self.size, self.added = size, 0

    def __len__(self) -> int:
        return min(self.added, self.size)

    def add(self, **rows: Floats) -> None:
        """Add steps, by name, shape (m, ...) each."""
        count = len(rows["rewards"])
        places = np.arange(self.added, self.added + count) % self.size
        for name, values in self.arrays.items():
            values[places] = rows[name]
        self.added += count

    def sample(self, count: int, rng: np.random.Generator) -> dict[str, Floats]:
        """Return random steps, with replacement."""
        index = rng.integers(0, len(self), count)
        return {name: values[index] for name, values in self.arrays.items()}


@dataclass(frozen=True)
class SacLoss:
    """Losses and figures of an update."""

    policy: float
    value: float
    entropy: float
    """Estimate, of squashed actions [nat]."""
    temperature: float


class SacLearner:
    """Parameters of policy and critics with the state of their optimizers."""

    def __init__(self, net: SquashedActor, flat: Floats, config: SacConfig) -> None:
        """Create the optimizers.

        Args:
            net: structure of policy and critics.
            flat: initial parameters, copied.
            config: settings.
        """
        self.net, self.config = net, config
        self.flat = flat.copy()
        self.slow = self.flat[net.actor.parameter_count :].copy()
        """Parameters of the target critics."""
        self.adam = Adam(self.flat)
        self.log_temperature = np.array([math.log(config.temperature)])
        self.temperature_adam = Adam(self.log_temperature)

    @property
    def temperature(self) -> float:
        """Weight of the entropy."""
        return float(np.exp(self.log_temperature[0]))

    def update(self, batch: ReplayBatch, rng: np.random.Generator) -> SacLoss:
        """Improve policy, critics and temperature by one step each.

        Args:
            batch: steps of the replay.
            rng: random actions.

        Raises:
            TrainingDiverged: a loss or gradient is not finite; parameters are kept.
        """
        net, c = self.net, self.config
        m = len(batch.rewards)
        noise = rng.standard_normal((2, m, net.action_size)).astype(self.flat.dtype)
        a = net.actor.parameter_count
        ahead = net.squashed(self.flat[:a], batch.following, noise[0])
        passes = net.values(self.slow, batch.following, ahead.actions)
        soft = np.minimum(passes[0][-1], passes[1][-1])[:, 0]
        soft = soft - self.temperature * ahead.log_probability
        targets = batch.rewards + c.gamma * (1.0 - batch.terminated) * soft
        value_loss, d_critics = critic_loss(net, self.flat[a:], batch, targets)
        policy_loss, d_actor, log_probability = actor_loss(
            net, self.flat, batch.observations, noise[1], self.temperature
        )
        grad = np.concatenate((d_actor, d_critics))
        if not np.isfinite(np.linalg.norm(grad) + value_loss + policy_loss):
            raise TrainingDiverged(
                f"losses {policy_loss}, {value_loss} or their gradient are not finite after "
                f"{self.adam.updates} steps; reduce learning_rate, and check rewards and "
                "observations of the task."
            )
        self.adam.step(self.flat, grad, c.learning_rate)
        wanted = c.target_entropy * net.action_size
        d_temperature = np.array([-(log_probability + wanted)])
        self.temperature_adam.step(self.log_temperature, d_temperature, c.learning_rate)
        self.slow += c.tau * (self.flat[a:] - self.slow)
        return SacLoss(policy_loss, value_loss, -log_probability, self.temperature)
