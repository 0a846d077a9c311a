# SPDX-License-Identifier: Apache-2.0
"""Configuration dataclasses of the core from a node's parameters."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

S = TypeVar("S")


def settings_from(params: Any, kind: type[S], prefix: str = "", **given: Any) -> S:
    """Return a configuration of the core, each field set from the parameter of the same name.

    A field without a parameter keeps its default.

    Args:
        params: parameters of a node.
        kind: dataclass of the configuration.
        prefix: prefix of the parameters' field names, such as ``stuck_``.
        given: values of fields that are not taken from parameters.

    Raises:
        InvalidConfig: the configuration rejects the values.
    """
    for entry in dataclasses.fields(kind):  # type: ignore[arg-type]
        if entry.name not in given and hasattr(params, prefix + entry.name):
            given[entry.name] = getattr(params, prefix + entry.name)
    return kind(**given)
