# SPDX-License-Identifier: Apache-2.0
"""Closed kinematic loops of an MJCF: those that a kinematic tree can stand for, and the others.

A loop of which one joint is driven (the linkage of a gripper's finger) is kept in the simulation;
its other joints are passive. In a loop of several drives, or with drives behind its passive joints
(a Delta, a hexapod, an arm that is moved by push rods), the pose of the tip depends on positions
that are not in the tree; such a robot is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import mujoco

from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.notes import listed

_FREE = mujoco.mjtJoint.mjJNT_FREE


@dataclass(frozen=True)
class Loop:
    """Joints that constraints between bodies couple."""

    constraints: tuple[int, ...]
    """Indices of the equality constraints."""
    joints: frozenset[int]
    """Indices of the joints on the ways between the bodies of these constraints."""


def closed_loops(model: mujoco.MjModel) -> list[Loop]:
    """Return the closed loops of a model; loops that share a joint are one.

    Args:
        model: the compiled MJCF.

    Returns:
        Loops of active constraints ``connect`` and ``weld`` that have at least one joint.
        Constraints with a mocap body are devices of teleoperation, no parts of the robot.
    """
    found: list[Loop] = []
    for e in range(model.neq):
        bodies = constrained_bodies(model, e)
        if bodies is None or any(model.body_mocapid[body] >= 0 for body in bodies):
            continue
        above = [_joints_above(model, body) for body in bodies]
        joints = above[0] ^ above[1]  # those that only one of the bodies is moved by
        if not joints:
            continue
        same = [loop for loop in found if loop.joints & joints]
        found = [loop for loop in found if loop not in same]
        constraints = (e, *(c for loop in same for c in loop.constraints))
        found.append(Loop(constraints, joints.union(*(loop.joints for loop in same))))
    return [loop for loop in found if not _hangs(model, loop)]


def _hangs(model: mujoco.MjModel, loop: Loop) -> bool:
    """Return whether it only attaches a free body or robot, at one place: that closes no loop."""
    free = any(int(model.jnt_type[j]) == int(_FREE) for j in loop.joints)
    return free and len(loop.constraints) == 1


def constrained_bodies(model: mujoco.MjModel, constraint: int) -> tuple[int, int] | None:
    """Return the bodies that an active ``connect`` or ``weld`` holds; None: another kind."""
    held = (int(mujoco.mjtEq.mjEQ_CONNECT), int(mujoco.mjtEq.mjEQ_WELD))
    if int(model.eq_type[constraint]) not in held or not model.eq_active0[constraint]:
        return None
    pair = (int(model.eq_obj1id[constraint]), int(model.eq_obj2id[constraint]))
    if int(model.eq_objtype[constraint]) == int(mujoco.mjtObj.mjOBJ_SITE):
        return int(model.site_bodyid[pair[0]]), int(model.site_bodyid[pair[1]])
    return pair


@dataclass(frozen=True)
class _Findings:
    """What a loop does to the drives."""

    drives: tuple[str, ...]
    """Driven joints of the loop."""
    behind: tuple[str, ...]
    """Driven joints that its passive joints carry."""
    lost: bool
    """Whether the simulation cannot keep it: welded, or to a body that is not of the robot."""

    @property
    def open(self) -> bool:
        """Whether one driven joint moves the loop, and the loop carries no other."""
        return not self.drives or (len(self.drives) == 1 and not self.behind and not self.lost)


def check_closed_loops(
    model: mujoco.MjModel,
    names: Sequence[str],
    driven: Collection[str],
    kept: Collection[int],
    file: Path,
) -> list[str]:
    """Refuse loops in which positions of driven joints do not determine the tree by themselves.

    Args:
        model: the compiled MJCF.
        names: names of its joints.
        driven: joints that an actuator moves, without those that follow another; empty: the file
            states no actuator, and each joint counts.
        kept: bodies that are links of the robot.
        file: the MJCF, for errors.

    Returns:
        Such loops of robots whose root moves freely, which are accepted, in words: their drives
        move, but kinematics ends at the loops.

    Raises:
        InvalidDescription: a loop of a robot with a fixed base; names constraints and joints.
    """
    accepted = []
    for loop in closed_loops(model):
        found = _examined(model, loop, names, driven, kept)
        if found.open:
            continue
        words = _words(model, loop, found)
        if not all(_floats(model, j) for j in loop.joints):
            raise InvalidDescription(
                f"{file}: closed kinematic loop through <equality>: {words}. Parallel mechanisms "
                "are not supported: motions are planned for open chains, and for loops of one "
                "driven joint that carry no other (as of a gripper's finger). Describe the robot "
                "as an open chain whose joints are the drives, with followers as <equality><joint "
                'joint1= joint2= polycoef="offset ratio 0 0 0"/> or a URDF\'s <mimic> (which is '
                "exact for parallelograms), or remove the <equality> to move its branches "
                "independently."
            )
        accepted.append(words)
    return accepted


def _examined(
    model: mujoco.MjModel,
    loop: Loop,
    names: Sequence[str],
    driven: Collection[str],
    kept: Collection[int],
) -> _Findings:
    drives = [j for j in sorted(loop.joints) if names[j] in driven or not driven]
    passive = loop.joints.difference(drives)
    behind = [
        names[j]
        for j in range(model.njnt)
        if names[j] in driven
        and j not in loop.joints
        and _joints_above(model, int(model.jnt_bodyid[j])) & passive
    ]
    ends = {body for e in loop.constraints for body in constrained_bodies(model, e) or ()}
    welded = any(int(model.eq_type[e]) == int(mujoco.mjtEq.mjEQ_WELD) for e in loop.constraints)
    names_of_drives = tuple(names[j] for j in drives if int(model.jnt_type[j]) != int(_FREE))
    return _Findings(names_of_drives, tuple(behind), welded or not ends <= set(kept))


def _words(model: mujoco.MjModel, loop: Loop, found: _Findings) -> str:
    shown = []
    for e in sorted(loop.constraints):
        ends = [model.body(body).name or "world" for body in constrained_bodies(model, e) or ()]
        shown.append(f"{_element(model, e)} of {' and '.join(ends)}")
    if len(found.drives) > 1:
        does = f"couples the driven joints {listed(found.drives)}"
    elif found.behind:
        does = f"{found.drives[0]} moves the passive joints that carry {listed(found.behind)}"
    else:
        does = f"holds {found.drives[0]}"
    return f"{listed(shown)}: {does}"


def _floats(model: mujoco.MjModel, joint: int) -> bool:
    """Return whether a joint is of a tree whose root moves freely, and moves more than the root."""
    above = _joints_above(model, int(model.jnt_bodyid[joint]))
    free = [j for j in above if int(model.jnt_type[j]) == int(_FREE)]
    return bool(free) and joint not in free


def _element(model: mujoco.MjModel, constraint: int) -> str:
    weld = int(model.eq_type[constraint]) == int(mujoco.mjtEq.mjEQ_WELD)
    return "<weld>" if weld else "<connect>"


def _joints_above(model: mujoco.MjModel, body: int) -> frozenset[int]:
    """Return the joints that move a body."""
    found: set[int] = set()
    while body > 0:
        first = int(model.body_jntadr[body])
        found.update(range(first, first + int(model.body_jntnum[body])))
        body = int(model.body_parentid[body])
    return frozenset(found)
