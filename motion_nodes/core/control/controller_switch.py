# SPDX-License-Identifier: Apache-2.0
"""Planning of requests to switch controllers.

A strict request is executed completely or rejected; a best-effort request as far as possible.
Source: controller_manager_msgs/srv/SwitchController and ros2_control's controller manager.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from motion_nodes.errors import InvalidCommand, did_you_mean

INACTIVE, ACTIVE = "inactive", "active"


@dataclass(frozen=True)
class SwitchPlan:
    """Actions of a request, in this order."""

    deactivate: tuple[str, ...]
    activate: tuple[str, ...]
    skipped: tuple[str, ...]
    """Rejected parts of the request, with reasons."""


def plan_switch(
    states: Mapping[str, str],
    claims: Mapping[str, Collection[str]],
    deactivate: Sequence[str],
    activate: Sequence[str],
    *,
    strict: bool,
    modes: Mapping[str, str] = MappingProxyType({}),
) -> SwitchPlan:
    """Plan a request.

    A controller in both lists is restarted. A mode is deactivated before its controller, and
    activated after it.

    Args:
        states: lifecycle state of each existing controller.
        claims: command interfaces claimed by each active controller; claims are exclusive.
        deactivate: controllers to deactivate.
        activate: controllers to activate.
        strict: reject the request if any part of it is impossible.
        modes: controllers that are modes of another one, each with the name of that controller,
            which must be active when they are.

    Raises:
        InvalidCommand: a strict request with an impossible part, a non-empty list without an
            existing controller, or a mode to be activated whose controller is to be deactivated;
            nothing is switched.
    """
    skipped: list[str] = []
    stop = _known(states, deactivate, strict, skipped)
    start = _known(states, activate, strict, skipped)
    for name in start:
        owner = modes.get(name)
        if owner in stop and owner not in start:
            raise InvalidCommand(
                f"nothing is switched: {name} is a mode of {owner}, which must stay active; "
                f"activate {name} without deactivating {owner}"
            )
    stop.sort(key=lambda name: name not in modes)
    start.sort(key=lambda name: name in modes)
    left: list[str] = []
    for name in stop:
        if states[name] == ACTIVE:
            left.append(name)
        else:
            skipped.append(f"{name} is {states[name]}, not active, and cannot be deactivated")
    stop = left
    taken = {
        interface: name
        for name, state in states.items()
        if state == ACTIVE and name not in stop
        for interface in claims[name]
    }
    begin: list[str] = []
    for name in start:
        problem = _start_problem(name, states[name], name in stop, claims[name], taken)
        owner = modes.get(name)
        if owner and not problem and states.get(owner) != ACTIVE and owner not in begin:
            problem = f"{name} is a mode of {owner}, which is not active; activate {owner} too"
        if problem:
            skipped.append(problem)
        else:
            begin.append(name)
            taken |= dict.fromkeys(claims[name], name)
    if strict and skipped:
        raise InvalidCommand(f"nothing is switched: {'; '.join(skipped)}")
    return SwitchPlan(tuple(stop), tuple(begin), tuple(skipped))


def _known(
    states: Mapping[str, str], names: Sequence[str], strict: bool, skipped: list[str]
) -> list[str]:
    """Return the existing names, each once; the others are reported in ``skipped``."""
    known = [name for name in dict.fromkeys(names) if name in states]
    unknown = [name for name in dict.fromkeys(names) if name not in states]
    problems = [f"controller '{n}' does not exist.{did_you_mean(n, states)}" for n in unknown]
    if problems and (strict or not known):
        raise InvalidCommand(f"nothing is switched: {' '.join(problems)}")
    skipped += problems
    return known


def _start_problem(
    name: str, state: str, restarts: bool, needs: Collection[str], taken: Mapping[str, str]
) -> str | None:
    if state == ACTIVE and not restarts:
        return f"{name} is active already"
    if state not in (ACTIVE, INACTIVE):
        return f"{name} is {state}; it can be activated when it is inactive"
    for interface in needs:
        if interface in taken:
            return f"{name} needs {interface}, which {taken[interface]} has; deactivate that too"
    return None
