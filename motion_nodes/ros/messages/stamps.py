# SPDX-License-Identifier: Apache-2.0
"""When a stamped command was given, and whether it still counts."""

from __future__ import annotations


def command_time(stamp: float, now: float, timeout: float) -> tuple[float | None, str | None]:
    """Judge a command by its time stamp.

    Args:
        stamp: time in the message's header [s]; 0 means that the sender gave none.
        now: this node's time [s].
        timeout: age from which a command no longer counts [s].

    Returns:
        When the command was given [s], None where it is too old; and a warning, or None.
    """
    if stamp == 0.0 or now - timeout <= stamp <= now:
        return (stamp or now), None
    if stamp > now + timeout:
        return now, (
            f"a command's stamp is {stamp - now:.1f} s ahead of this node's time; counted as given "
            "now (does its sender use another use_sim_time?)"
        )
    if stamp > now:
        return now, None
    return None, (
        f"a command's stamp is {now - stamp:.1f} s old, more than the timeout of {timeout:g} s; "
        "ignored (does its sender use another use_sim_time?)"
    )
