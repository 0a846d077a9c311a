# SPDX-License-Identifier: Apache-2.0
"""Allowed collision matrix: pairs of links and objects that are not checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Pair = tuple[str, str]


def pair_of(a: str, b: str) -> Pair:
    """Return two names as an unordered pair."""
    return (a, b) if a <= b else (b, a)


@dataclass(frozen=True)
class AllowedCollisions:
    """Allowed collisions, by names of links, objects and attached bodies; immutable.

    Lookup order: explicit pair entry; then per-name defaults (both must allow if both exist);
    otherwise the pair is checked.
    """

    pairs: Mapping[Pair, bool] = field(default_factory=lambda: MappingProxyType({}))
    """True for a pair whose collision is allowed, False for one that is checked although a name's
    default allows it; keys from :func:`pair_of`."""
    defaults: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    """Default per name, for all pairs that contain it."""

    def allows(self, a: str, b: str) -> bool:
        """Return whether a collision is allowed."""
        allowed = self.pairs.get(pair_of(a, b))
        if allowed is not None:
            return allowed
        defaults = [self.defaults[name] for name in (a, b) if name in self.defaults]
        return bool(defaults) and all(defaults)

    def with_pairs(self, pairs: Iterable[Pair], allowed: bool | None = True) -> AllowedCollisions:
        """Return a copy with other entries of pairs; None removes the entry."""
        changed = dict(self.pairs)
        for a, b in pairs:
            if allowed is None:
                changed.pop(pair_of(a, b), None)
            else:
                changed[pair_of(a, b)] = allowed
        return AllowedCollisions(MappingProxyType(changed), self.defaults)

    def with_default(self, name: str, allowed: bool | None) -> AllowedCollisions:
        """Return a copy with another default of a name; None removes it."""
        changed = dict(self.defaults)
        if allowed is None:
            changed.pop(name, None)
        else:
            changed[name] = allowed
        return AllowedCollisions(self.pairs, MappingProxyType(changed))
