# SPDX-License-Identifier: Apache-2.0
"""SRDF of a robot: groups, states and excluded pairs, for MoveIt clients."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from motion_nodes.model.files.srdf_file import (
    Srdf,
    SrdfEndEffector,
    SrdfGroup,
    SrdfPair,
    SrdfState,
    srdf_text,
)
from motion_nodes.model.robot import Group, Robot


def srdf(robot: Robot, never_checked: Collection[tuple[str, str]]) -> str:
    """Return the text of a robot's SRDF.

    There is no virtual joint: the planning frame is the root link.

    Args:
        robot: provides groups (also under their aliases), states and passive joints.
        never_checked: pairs of links excluded from collision checks.
    """
    return srdf_text(srdf_of(robot, never_checked))


def srdf_of(robot: Robot, never_checked: Collection[tuple[str, str]]) -> Srdf:
    """Return a robot's SRDF; arguments as in :func:`srdf`."""
    groups = tuple(robot.groups.values())
    return Srdf(
        name=robot.tree.name,
        groups=tuple(found for group in groups for found in _named(group)),
        states=tuple(state for group in groups for state in _states(robot, group)),
        end_effectors=tuple(
            found for group in groups if (found := _end_effector(robot, group)) is not None
        ),
        passive_joints=robot.passive_joints,
        disabled=tuple(
            SrdfPair(a, b, "Adjacent" if _adjacent(robot, a, b) else "Never")
            for a, b in sorted(never_checked)
        ),
    )


def _named(group: Group) -> Iterator[SrdfGroup]:
    if group.base is not None and group.tip is not None:
        yield SrdfGroup(group.name, chains=((group.base, group.tip),))
    else:
        yield SrdfGroup(group.name, joints=group.joints)
    for alias in group.aliases:
        yield SrdfGroup(alias, groups=(group.name,))


def _states(robot: Robot, group: Group) -> Iterator[SrdfState]:
    for name, state in robot.states.items():
        if set(state) & set(group.joints):
            values = robot.named_state(name, group.name).tolist()
            yield SrdfState(name, group.name, tuple(zip(group.joints, values, strict=True)))


def _end_effector(robot: Robot, group: Group) -> SrdfEndEffector | None:
    """Return the end effector for a group attached to a chain, such as a gripper."""
    if group.tip is not None:
        return None
    ways = [robot.tree.path(robot.tree.root, robot.tree.joint(j).child) for j in group.joints]
    above = [joint.name for joint in ways[0] if all(joint in way for way in ways[1:])]
    for arm in robot.groups.values():
        last = arm.joints[-1]
        if arm.tip is not None and last in above:
            parent = robot.tree.joint(ways[0][above.index(last)].name).child
            return SrdfEndEffector(f"{group.name}_end_effector", parent, group.name, arm.name)
    return None


def _adjacent(robot: Robot, a: str, b: str) -> bool:
    """Return whether one link is above the other with at most one movable joint in between."""
    for upper, lower in ((a, b), (b, a)):
        way = []
        joint = robot.tree.parent_joint.get(lower)
        while joint is not None:
            way.append(joint)
            if joint.parent == upper:
                return sum(j.movable for j in way) <= 1
            joint = robot.tree.parent_joint.get(joint.parent)
    return False
