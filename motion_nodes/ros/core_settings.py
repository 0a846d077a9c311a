# SPDX-License-Identifier: Apache-2.0
"""From a node's parameters to the frozen dataclasses that the core is configured with."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

S = TypeVar("S")


def settings_from(params: Any, kind: type[S], prefix: str = "", **given: Any) -> S:
    """Return settings of the core, each field from the parameter field of its name.

    A field that no parameter has keeps the core's default.

    Args:
        params: parameters of a node.
        kind: dataclass of the settings.
        prefix: of the parameters' fields, such as ``stuck_``.
        given: fields that do not come from parameters of their name.

    Raises:
        InvalidConfig: what the settings refuse.
    """
    for entry in dataclasses.fields(kind):  # type: ignore[arg-type]
        if entry.name not in given and hasattr(params, prefix + entry.name):
            given[entry.name] = getattr(params, prefix + entry.name)
    return kind(**given)
