# SPDX-License-Identifier: Apache-2.0
"""AllowedCollisionMatrix from and to a scene's allowed collisions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import MappingProxyType

from moveit_msgs.msg import AllowedCollisionEntry, AllowedCollisionMatrix

from motion_nodes.errors import InvalidCommand
from motion_nodes.scene.allowed_collisions import AllowedCollisions, Pair, pair_of


def allowed_from(
    message: AllowedCollisionMatrix, never_checked: Collection[Pair] = ()
) -> AllowedCollisions:
    """Return the allowed collisions of a matrix; pairs that equal their defaults are omitted.

    Args:
        message: the matrix.
        never_checked: pairs of the robot's links that are never checked, also omitted.

    Raises:
        InvalidCommand: the matrix is not square, or numbers of names and values differ.
    """
    names, rows = message.entry_names, message.entry_values
    defaults = message.default_entry_names
    if len(defaults) != len(message.default_entry_values) or len(names) != len(rows):
        raise InvalidCommand(
            f"the allowed collision matrix has {len(names)} names with {len(rows)} rows and "
            f"{len(defaults)} default names with {len(message.default_entry_values)} values; there "
            "must be as many of each"
        )
    by_default = AllowedCollisions(
        defaults=MappingProxyType(dict(zip(defaults, message.default_entry_values, strict=True)))
    )
    pairs: dict[Pair, bool] = {}
    for i, (name, row) in enumerate(zip(names, rows, strict=True)):
        if len(row.enabled) != len(names):
            raise InvalidCommand(
                f"row '{name}' of the allowed collision matrix has {len(row.enabled)} entries; "
                f"there must be {len(names)}, one for each name"
            )
        for j in range(i + 1, len(names)):
            pair, allowed = pair_of(name, names[j]), bool(row.enabled[j])
            if allowed != by_default.allows(*pair) and not (allowed and pair in never_checked):
                pairs[pair] = allowed
    return AllowedCollisions(MappingProxyType(pairs), by_default.defaults)


def allowed_message(
    allowed: AllowedCollisions, links: Sequence[str], never_checked: Collection[Pair]
) -> AllowedCollisionMatrix:
    """Return allowed collisions as a matrix with a row for each of the robot's links.

    Clients allow collisions of an object with the robot in its row, so each link needs an entry.

    Args:
        allowed: the scene's allowed collisions.
        links: the robot's links with collision geometry.
        never_checked: pairs of them that are never checked, from :func:`pair_of`.
    """
    entries = {name for pair in allowed.pairs for name in pair} | set(allowed.defaults)
    names = [*links, *sorted(entries.difference(links))]
    message = AllowedCollisionMatrix(entry_names=names)
    for a in names:
        row = [a != b and (allowed.allows(a, b) or pair_of(a, b) in never_checked) for b in names]
        message.entry_values.append(AllowedCollisionEntry(enabled=row))
    message.default_entry_names = list(allowed.defaults)
    message.default_entry_values = list(allowed.defaults.values())
    return message
