# SPDX-License-Identifier: Apache-2.0
"""Timeout of stamped commands."""

from __future__ import annotations


def command_time(stamp: float, now: float, timeout: float) -> tuple[float | None, str | None]:
    """Return the time of a command from its stamp.

    Args:
        stamp: stamp in the message's header [s]; 0 if not set.
        now: current time of this node [s].
        timeout: max age of a command [s].

    Returns:
        Time of the command [s], None if it is too old; and a warning, or None.
    """
    if stamp == 0.0 or now - timeout <= stamp <= now:
        return (stamp or now), None
    if stamp > now + timeout:
        return now, (
            f"a command's stamp is {stamp - now:.1f} s ahead of this node's time; the time of its "
            "arrival is used (is use_sim_time the same in both nodes?)"
        )
    if stamp > now:
        return now, None
    return None, (
        f"a command's stamp is {now - stamp:.1f} s old, more than the timeout of {timeout:g} s; "
        "ignored (is use_sim_time the same in both nodes?)"
    )
