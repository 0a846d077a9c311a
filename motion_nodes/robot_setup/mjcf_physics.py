# SPDX-License-Identifier: Apache-2.0
"""Physics of an MJCF that the simulation keeps in addition to tree and drives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from motion_nodes.model.robot_yaml import ContactDescription
from motion_nodes.robot_setup.notes import Notes, listed
from motion_nodes.typing import Array

_DIGITS = 9


def simulation_block(
    model: mujoco.MjModel,
    bodies: Sequence[str],
    joints: Sequence[str],
    X_LB: Mapping[int, Array],
    findings: Notes,
) -> dict[str, Any]:
    """Return the block ``simulation`` of robot.yaml: closed loops, springs, friction of contacts.

    Args:
        model: the compiled MJCF.
        bodies: names of the links by body.
        joints: names of the joints by joint.
        X_LB: pose of each body's frame in the frame of its link, for the bodies that are links.
        findings: notes about physics that are not kept are added.
    """
    found: dict[str, Any] = {}
    if loops := _loops(model, bodies, X_LB):
        found["loops"] = loops
        names = listed("-".join(loop["links"]) for loop in loops)
        text = f"kept in the simulation, their joints without an actuator are passive: {names}"
        findings.add("measured", "simulation.loops", text)
    if springs := _springs(model, joints, X_LB):
        found["springs"] = springs
    if contact := _contacts(model, bodies, X_LB):
        found["contact"] = contact
    if lost := _not_kept(model):
        findings.add("missing", "simulation", f"not kept of the MJCF: {listed(lost)}")
    return found


def _loops(
    model: mujoco.MjModel, bodies: Sequence[str], X_LB: Mapping[int, Array]
) -> list[dict[str, Any]]:
    found = []
    for e in range(model.neq):
        if model.eq_type[e] != mujoco.mjtEq.mjEQ_CONNECT or not model.eq_active0[e]:
            continue
        pair = (int(model.eq_obj1id[e]), int(model.eq_obj2id[e]))
        points = model.eq_data[e, :6].reshape(2, 3).copy()
        if model.eq_objtype[e] == mujoco.mjtObj.mjOBJ_SITE:
            points = model.site_pos[list(pair)].copy()
            pair = (int(model.site_bodyid[pair[0]]), int(model.site_bodyid[pair[1]]))
        if not all(body in X_LB for body in pair):
            continue
        found.append(
            {
                "links": [bodies[body] for body in pair],
                "points": [
                    _rounded(X_LB[body][:3, :3] @ point + X_LB[body][:3, 3])
                    for body, point in zip(pair, points, strict=True)
                ],
            }
        )
    return found


def _springs(
    model: mujoco.MjModel, joints: Sequence[str], X_LB: Mapping[int, Array]
) -> dict[str, dict[str, float]]:
    single = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    return {
        joints[j]: {
            "stiffness": round(float(np.ravel(model.jnt_stiffness[j])[0]), _DIGITS),
            "rest": round(float(model.qpos_spring[model.jnt_qposadr[j]]), _DIGITS),
        }
        for j in range(model.njnt)
        if int(model.jnt_type[j]) in [int(kind) for kind in single]
        and int(model.jnt_bodyid[j]) in X_LB
        and np.ravel(model.jnt_stiffness[j])[0] > 0.0
    }


def _contacts(
    model: mujoco.MjModel, bodies: Sequence[str], X_LB: Mapping[int, Array]
) -> dict[str, dict[str, float]]:
    """Return the friction of links whose shapes have a non-default friction."""
    usual = ContactDescription()
    default = (usual.friction, usual.torsional_friction, usual.rolling_friction)
    found: dict[str, dict[str, float]] = {}
    for body in X_LB:
        first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
        touching = [
            g
            for g in range(first, first + count)
            if model.geom_contype[g] or model.geom_conaffinity[g]
        ]
        if not touching:
            continue
        friction = model.geom_friction[touching].max(axis=0)
        if not np.allclose(friction, default):
            names = ("friction", "torsional_friction", "rolling_friction")
            found[bodies[body]] = dict(zip(names, _rounded(friction), strict=True))
    return found


def _not_kept(model: mujoco.MjModel) -> list[str]:
    """Return the physics of a model that robot.yaml cannot represent."""
    kind, active = mujoco.mjtEq, [e for e in range(model.neq) if model.eq_active0[e]]
    counts = {
        "equality constraints of tendons": sum(
            int(model.eq_type[e]) == int(kind.mjEQ_TENDON) for e in active
        ),
        "welded bodies": sum(int(model.eq_type[e]) == int(kind.mjEQ_WELD) for e in active),
        "nonlinear equalities of joints": sum(
            int(model.eq_type[e]) == int(kind.mjEQ_JOINT) and bool(model.eq_data[e, 2:5].any())
            for e in active
        ),
        "springs and limits of tendons": sum(
            bool(np.ravel(model.tendon_stiffness[t])[0] > 0.0 or model.tendon_limited[t])
            for t in range(model.ntendon)
        ),
        "muscles and filtered actuators": sum(
            int(model.actuator_dyntype[a]) != int(mujoco.mjtDyn.mjDYN_NONE) for a in range(model.nu)
        ),
    }
    return [f"{count} {what}" for what, count in counts.items() if count]


def _rounded(values: Array) -> list[float]:
    return [float(value) + 0.0 for value in np.round(values, _DIGITS)]
