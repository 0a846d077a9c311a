# SPDX-License-Identifier: Apache-2.0
"""Compares a policy's description with a robot, and replays recorded observations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.trajectory.trajectory_plot import COLOURS, Axes, page
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.policies.observations import TERMS, source_of
from motion_nodes.extras.policies.runner import PolicyRunner
from motion_nodes.typing import Array

PROBES, PROBE_SIZE = 8, 0.5
"""Number and size of random perturbations to detect inputs without effect."""
GAIN_RATIO = 2.0
"""Ratio of gains above which they are reported."""
FULL_TURN = 2.0 * math.pi
WIDTH, HEIGHT = 760.0, 320.0
"""[px]"""


@dataclass(frozen=True)
class CheckFinding:
    """One result of a check."""

    level: str
    """``ok``, ``note``, ``warning`` or ``error``."""
    topic: str
    text: str


def check_policy(runner: PolicyRunner, robot: Robot) -> list[CheckFinding]:
    """Compare a policy with a robot; errors that prevent loading are raised earlier.

    Args:
        runner: the policy, loaded for the robot.
        robot: the robot.

    Returns:
        Findings, in the order of the topics.
    """
    return [
        *(CheckFinding("note", "description", text) for text in runner.spec.notes),
        *_joints(runner, robot),
        *_inputs(runner, robot),
        *_dead_inputs(runner),
        *_scales(runner, robot),
        *_gains(runner, robot),
        *_timing(runner, robot),
    ]


def _joints(runner: PolicyRunner, robot: Robot) -> Iterator[CheckFinding]:
    trained, own = runner.spec.joints.names, robot.joint_names
    shared = [name for name in own if name in trained]
    if list(trained) == shared:
        yield CheckFinding("ok", "joints", f"{len(trained)}, in the robot's order")
    else:
        text = f"order of training: {', '.join(trained)}; the robot's is another, so they are "
        yield CheckFinding("note", "joints", text + "matched by name")
    others = [name for name in own if name not in runner.spec.commanded_joints]
    if others:
        text = f"not commanded by the policy: {', '.join(others)}"
        yield CheckFinding("note", "joints", text)
    unused = [name for name in trained if name not in own]
    if unused:
        text = f"of training, which the robot does not have and the policy does not use: {unused}"
        yield CheckFinding("warning", "joints", text)


def _inputs(runner: PolicyRunner, robot: Robot) -> Iterator[CheckFinding]:
    for term in runner.spec.observations:
        history = f", {term.history} steps" if term.history > 1 else ""
        frame = ", in the world frame" if term.name.endswith("_w") else ""
        text = f"{term.name}: {term.width} values from {source_of(term.name)}{frame}{history}"
        level = "ok"
        if term.name not in TERMS:
            level, text = "note", f"{text}; send them to ~/observations/{term.name}"
        elif frame:
            level = "warning"
            text += "; topics of robots give vectors in the body frame, they are converted"
        yield CheckFinding(level, "inputs", text)
    spec = runner.spec
    if spec.command_gain is not None:
        text = f"the command is multiplied by {spec.command_gain.tolist()} before it is observed"
        if spec.command_limit is not None:
            text += f", and limited to {spec.command_limit.round(3).tolist()}"
        yield CheckFinding("note", "command", text)
    needs = runner.sources
    if "odometry" in needs:
        text = "linear velocities are from odometry, which is inaccurate on most legged robots"
        yield CheckFinding("warning", "inputs", text)
    if "imu" in needs and robot.kind == "arm":
        yield CheckFinding("warning", "inputs", "an arm has no IMU")


def _dead_inputs(runner: PolicyRunner) -> list[CheckFinding]:
    """Find terms without effect on the actions, at a few random observations."""
    rng = np.random.default_rng(0)
    network, width = runner.network, runner.spec.observation_width
    effect = np.zeros(width)
    for _ in range(PROBES):
        base = PROBE_SIZE * rng.normal(size=width)
        network.reset()
        reference = network(base)
        for i in range(width):
            changed = base.copy()
            changed[i] += PROBE_SIZE
            network.reset()
            effect[i] = max(effect[i], float(np.abs(network(changed) - reference).max()))
    network.reset()
    found, begin = [], 0
    for term in runner.spec.observations:
        part = effect[begin : begin + term.full_width]
        dead = np.flatnonzero(part < 1e-6)
        if dead.size == part.size:
            text = f"{term.name} has no effect on the actions"
            found.append(CheckFinding("warning", "dead inputs", text))
        elif dead.size:
            text = f"{term.name}: values {dead.tolist()} have no effect on the actions"
            found.append(CheckFinding("warning", "dead inputs", text))
        begin += term.full_width
    return found or [CheckFinding("ok", "dead inputs", "every input affects the actions")]


def _scales(runner: PolicyRunner, robot: Robot) -> list[CheckFinding]:
    found = []
    default = runner.default_position(robot.home)
    outside = (default < robot.limits.lower) | (default > robot.limits.upper)
    for i in np.flatnonzero(outside & runner.commanded):
        degrees = "; it looks like degrees" if abs(default[i]) > FULL_TURN else ""
        bounds = f"{robot.limits.lower[i]:g} to {robot.limits.upper[i]:g} rad or m{degrees}"
        text = f"{robot.joint_names[i]} is {default[i]:g}, outside {bounds}"
        found.append(CheckFinding("error", "defaults", text))
    for term in runner.spec.actions:
        largest = float(np.abs(term.scale).max())
        if "position" in term.kind.value and largest > math.pi:
            text = f"an action of 1 moves a joint by {largest:g} rad; it looks like degrees"
            found.append(CheckFinding("warning", "scales", text))
    text = "default positions are within the robot's limits"
    return found or [CheckFinding("ok", "defaults", text)]


def _gains(runner: PolicyRunner, robot: Robot) -> list[CheckFinding]:
    trained = runner.gains()
    if np.isnan(np.array(trained)[:, runner.commanded]).any():
        text = "not in the description: the drives use their own, which may differ from training"
        return [CheckFinding("warning", "gains", text)]
    found = []
    for word, values in zip(("stiffness", "damping"), trained, strict=True):
        own = np.array([getattr(drive, word) for drive in robot.drives])
        mask = runner.commanded
        if not values[mask].any():
            text = f"{word} of training is zero: actuator network or effort commands"
            found.append(CheckFinding("note", "gains", text))
            continue
        ratio = own[mask] / np.maximum(values[mask], 1e-9)
        if ratio.max() > GAIN_RATIO or ratio.min() < 1.0 / GAIN_RATIO:
            text = (
                f"{word} of training {values[mask].min():g} to {values[mask].max():g}, of the "
                f"drives {own[mask].min():g} to {own[mask].max():g}: the drives must accept "
                "joint_gains, or use command_interface effort"
            )
            found.append(CheckFinding("note", "gains", text))
    return found or [CheckFinding("ok", "gains", "gains of training and drives are similar")]


def _timing(runner: PolicyRunner, robot: Robot) -> Iterator[CheckFinding]:
    spec, step = runner.spec, robot.description.simulation.timestep
    text = (
        f"{1.0 / spec.period:g} Hz, every {spec.decimation} physics steps of "
        f"{1e3 * spec.physics_dt:g} ms"
    )
    yield CheckFinding("ok", "timing", text)
    if step > spec.physics_dt:
        text = f"the simulation's time step of {1e3 * step:g} ms is longer than that of training"
        yield CheckFinding("warning", "timing", text)


def replay_divergence(runner: PolicyRunner, observations: ArrayLike, actions: ArrayLike) -> Array:
    """Return the differences between a network's actions and recorded ones.

    Args:
        runner: the policy; the network's state is reset before and after.
        observations: the network's inputs in order, shape (k, n).
        actions: recorded raw actions, shape (k, m).

    Returns:
        Actions of the network minus the recorded ones, shape (k, m).

    Raises:
        InvalidCommand: other shapes, or values that are not finite.
    """
    given = np.asarray(observations, dtype=np.float64)
    recorded = np.asarray(actions, dtype=np.float64)
    n, m = runner.spec.observation_width, runner.spec.action_width
    if (
        given.ndim != 2
        or given.shape[1] != n
        or recorded.shape != (len(given), m)
        or not len(given)
    ):
        raise InvalidCommand(
            f"observations and actions must have shapes (k, {n}) and (k, {m}), got {given.shape} "
            f"and {recorded.shape}"
        )
    if not (np.isfinite(given).all() and np.isfinite(recorded).all()):
        raise InvalidCommand("the recording has values that are not finite")
    runner.network.reset()
    played = np.array([runner.network(row) for row in given])
    runner.network.reset()
    return np.asarray(played - recorded)


def divergence_svg(differences: Array, period: float) -> str:
    """Return an SVG with one curve for each action.

    Args:
        differences: magnitudes, shape (k, m).
        period: of the policy [s].
    """
    t = np.asarray(period * np.arange(len(differences)), dtype=np.float64)
    top = float(differences.max()) or 1.0
    axes = Axes(
        0.0, 0.0, WIDTH, HEIGHT, "difference of actions", (0.0, max(float(t[-1]), period)),
        (0.0, 1.05 * top), "t [s]",
    )  # fmt: skip
    for i, column in enumerate(differences.T):
        axes.curve(t, column, COLOURS[i % len(COLOURS)])
    return page(WIDTH, HEIGHT, [axes.svg()])
