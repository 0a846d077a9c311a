# SPDX-License-Identifier: Apache-2.0
"""The RMPs of a policy, their coefficients, and the registration of custom RMPs.

A leaf's formula is used by the generated code and by the NumPy reports. RMPs of distances
(obstacles, the base, other links) and of the tool's axes are evaluated many times per step and have
their own code; only their coefficients are defined here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.expression_graph import ExpressionGraph, Value
from motion_nodes.kernels.formulas import rmps
from motion_nodes.kernels.formulas.ops import Matrix, Ops, Vector
from motion_nodes.kernels.formulas.rmps import JointState, ToolState

JointFormula = Callable[[Ops, JointState, Mapping[str, Any]], tuple[Any, Any]]
ToolFormula = Callable[[Ops, ToolState, Mapping[str, Any]], tuple[Matrix, Vector]]


@dataclass(frozen=True)
class Leaf:
    """An RMP of each joint, or of the tool's position; exactly one formula is given."""

    name: str
    """Unique name, also used in reports."""
    coefficients: Callable[[Any], Mapping[str, float]]
    """Maps ``RmpflowSettings`` to the coefficients by name; the names are always the same."""
    joint: JointFormula | None = None
    """Metric and force of a joint."""
    tool: ToolFormula | None = None
    """Metric, symmetric, shape (3, 3), and force, shape (3,), of the tool in the base frame."""
    needs_position: bool = False
    """Whether it applies only with a target position."""


def collision_coefficients(p: Any) -> dict[str, float]:
    """Return the coefficients of an RMP of distances by name [SI units]."""
    return {
        "damping": p.damping_gain,
        "per_damping_length": 1.0 / p.damping_std_dev,
        "damping_eps": p.damping_robustness_eps,
        "per_gate": 1.0 / p.damping_velocity_gate_length_scale,
        "repulsion": p.repulsion_gain,
        "per_repulsion_length": 1.0 / p.repulsion_std_dev,
        "per_radius": 1.0 / p.metric_modulation_radius,
        "metric": p.metric_scalar,
        "per_metric_length": 1.0 / p.metric_exploder_std_dev,
        "metric_eps": p.metric_exploder_eps,
    }


def _posture(s: Any) -> dict[str, float]:
    p = s.cspace_target_rmp
    return {
        "metric": p.metric_scalar,
        "gain": p.position_gain,
        "damping": p.damping_gain,
        "threshold": p.robust_position_term_thresh,
    }


def _limits(s: Any) -> dict[str, float]:
    p = s.joint_limit_rmp
    return {
        "metric": p.metric_scalar,
        "per_length": 1.0 / p.metric_length_scale,
        "eps": p.metric_exploder_eps,
        "per_gate": 1.0 / p.metric_velocity_gate_length_scale,
        "damper": p.accel_damper_gain,
        "potential": p.accel_potential_gain,
        "per_potential_length": 1.0 / p.accel_potential_exploder_length_scale,
        "potential_eps": p.accel_potential_exploder_eps,
    }


def _cap(s: Any) -> dict[str, float]:
    p = s.joint_velocity_cap_rmp
    return {"damping": p.damping_gain, "metric": p.metric_weight}


def _boost(p: Any) -> dict[str, float]:
    return {
        "boost": p.proximity_metric_boost_scalar,
        "boost_exponent": 0.5 / p.proximity_metric_boost_length_scale**2,
    }


def _target(s: Any) -> dict[str, float]:
    p = s.target_rmp
    return {
        "gain": p.accel_p_gain,
        "damping": p.accel_d_gain,
        "eps": p.accel_norm_eps,
        "alpha_exponent": 0.5 / p.metric_alpha_length_scale**2,
        "least_alpha": p.min_metric_alpha,
        "near": p.max_metric_scalar,
        "far": p.min_metric_scalar,
        **_boost(p),
    }


def _damping(s: Any) -> dict[str, float]:
    return {"gain": s.damping_rmp.accel_d_gain, "metric": s.damping_rmp.metric_scalar}


def axis_coefficients(s: Any) -> dict[str, float]:
    """Return the coefficients of the RMP of the tool's axes by name [SI units]."""
    p = s.axis_target_rmp
    gains = {"gain": p.accel_p_gain, "damping": p.accel_d_gain, "metric": p.metric_scalar}
    return {**gains, **_boost(p)}


LEAVES: list[Leaf] = [
    Leaf("cspace_target_rmp", _posture, joint=rmps.cspace_target),
    Leaf("cspace_inertia", lambda s: {"inertia": s.cspace_target_rmp.inertia}, joint=rmps.inertia),
    Leaf("joint_limit_rmp", _limits, joint=rmps.joint_limit),
    Leaf("joint_velocity_cap_rmp", _cap, joint=rmps.joint_velocity_cap),
    Leaf("target_rmp", _target, tool=rmps.target, needs_position=True),
    Leaf("damping_rmp", _damping, tool=rmps.damping),
    Leaf("damping_inertia", lambda s: {"inertia": s.damping_rmp.inertia}, tool=rmps.tool_inertia),
]
"""The leaves with a formula, in the order of reports."""
_OWN = len(LEAVES)

OTHERS: dict[str, Callable[[Any], Mapping[str, float]]] = {
    "axis": axis_coefficients,
    "collision": lambda s: collision_coefficients(s.collision_rmp),
    "self": lambda s: collision_coefficients(s.self_collision_rmp),
    "resolve": lambda s: {"most": s.canonical_resolve.max_acceleration_norm},
}
"""Coefficients of RMPs without a :class:`Leaf`, and of the resolution."""


def add_leaf(leaf: Leaf) -> None:
    """Register an RMP; policies created afterwards include it.

    Raises:
        InvalidConfig: another RMP has this name, or not exactly one formula is given.
    """
    if (leaf.joint is None) == (leaf.tool is None):
        raise InvalidConfig(f"RMP '{leaf.name}' needs one formula: of a joint, or of the tool.")
    if leaf in LEAVES:
        return
    if any(leaf.name == known.name for known in LEAVES) or leaf.name in OTHERS:
        raise InvalidConfig(
            f"an RMP '{leaf.name}' is already registered; use another name.", field=leaf.name
        )
    LEAVES.append(leaf)


def remove_leaf(name: str) -> None:
    """Remove an RMP added by :func:`add_leaf`.

    Raises:
        InvalidConfig: no added RMP has this name.
    """
    for leaf in LEAVES[_OWN:]:
        if leaf.name == name:
            LEAVES.remove(leaf)
            return
    added = ", ".join(leaf.name for leaf in LEAVES[_OWN:]) or "none"
    raise InvalidConfig(f"no RMP '{name}' was added; added are: {added}.", field=name)


def coefficients(settings: Any) -> dict[str, float]:
    """Return all coefficients in memory order, by ``leaf.coefficient``."""
    groups = {**OTHERS, **{leaf.name: leaf.coefficients for leaf in LEAVES}}
    return {
        f"{group}.{name}": float(value)
        for group, numbers in groups.items()
        for name, value in numbers(settings).items()
    }


def leaf_digest(settings: Any) -> str:
    """Return a hash of the formulas of added leaves, followed by all coefficient names."""
    tape = ExpressionGraph()
    results: list[Value] = []
    names = sorted(coefficients(settings))
    p = {name: tape.input(100 + k) for k, name in enumerate(names)}
    joint = JointState(*(tape.input(k) for k in range(8)))
    tool = ToolState(*([tape.input(10 * k + i) for i in range(3)] for k in range(1, 4)))
    for leaf in LEAVES[_OWN:]:
        own = own_coefficients(p, leaf.name)
        if leaf.joint is not None:
            results += leaf.joint(tape, joint, own)
        elif leaf.tool is not None:
            M, force = leaf.tool(tape, tool, own)
            results += [*(x for row in M for x in row), *force, float(leaf.needs_position)]
    return tape.digest(results) + " ".join(names)


def own_coefficients(p: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the coefficients of one leaf, without the prefix of its name."""
    return {key.partition(".")[2]: x for key, x in p.items() if key.partition(".")[0] == name}
