# SPDX-License-Identifier: Apache-2.0
"""Who may touch whom: pairs of links and objects that are not checked for collision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Pair = tuple[str, str]


def pair_of(a: str, b: str) -> Pair:
    """Return two names as a pair whose order does not matter."""
    return (a, b) if a <= b else (b, a)


@dataclass(frozen=True)
class AllowedCollisions:
    """Exceptions from checking, by names of links, objects and attached bodies; immutable.

    What is said of a pair counts; else what is said of one of its names; else it is checked. If
    something is said of both names, they must agree to allow.
    """

    pairs: Mapping[Pair, bool] = field(default_factory=lambda: MappingProxyType({}))
    """True for a pair that may touch, False for one that is checked although a name's default
    allows it; keys from :func:`pair_of`."""
    defaults: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    """The same by name, for all pairs that it is in."""

    def allows(self, a: str, b: str) -> bool:
        """Return whether two things may touch."""
        said = self.pairs.get(pair_of(a, b))
        if said is not None:
            return said
        defaults = [self.defaults[name] for name in (a, b) if name in self.defaults]
        return bool(defaults) and all(defaults)

    def with_pairs(self, pairs: Iterable[Pair], allowed: bool | None = True) -> AllowedCollisions:
        """Return the same with something else said of pairs; None takes back what was said."""
        changed = dict(self.pairs)
        for a, b in pairs:
            if allowed is None:
                changed.pop(pair_of(a, b), None)
            else:
                changed[pair_of(a, b)] = allowed
        return AllowedCollisions(MappingProxyType(changed), self.defaults)

    def with_default(self, name: str, allowed: bool | None) -> AllowedCollisions:
        """Return the same with something else said of a name; None takes back what was said."""
        changed = dict(self.defaults)
        if allowed is None:
            changed.pop(name, None)
        else:
            changed[name] = allowed
        return AllowedCollisions(self.pairs, MappingProxyType(changed))
