# SPDX-License-Identifier: Apache-2.0
"""Which controllers a request to switch them stops and starts, or why it cannot.

A strict request is carried out whole or not at all; any other does what can be done. Source of the
rules: controller_manager_msgs/srv/SwitchController and ros2_control's controller manager.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from motion_nodes.errors import InvalidCommand, did_you_mean

INACTIVE, ACTIVE = "inactive", "active"


@dataclass(frozen=True)
class SwitchPlan:
    """What is to be done, in this order."""

    deactivate: tuple[str, ...]
    activate: tuple[str, ...]
    skipped: tuple[str, ...]
    """What was asked for and is left out, in words."""


def plan_switch(
    states: Mapping[str, str],
    claims: Mapping[str, Collection[str]],
    deactivate: Sequence[str],
    activate: Sequence[str],
    *,
    strict: bool,
) -> SwitchPlan:
    """Decide what a request does.

    A controller in both lists is started anew.

    Args:
        states: lifecycle state of each controller there is.
        claims: command interfaces that each takes when active; no two active ones may share one.
        deactivate: controllers to stop.
        activate: controllers to start.
        strict: refuse the request when a part of it cannot be done.

    Raises:
        InvalidCommand: a strict request of which a part cannot be done, or one that names no
            controller there is in a list that is not empty; nothing is to be done.
    """
    skipped: list[str] = []
    stop = _known(states, deactivate, strict, skipped)
    start = _known(states, activate, strict, skipped)
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
    """Return the names that exist, each once; the others are told in ``skipped``."""
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
