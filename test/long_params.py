# SPDX-License-Identifier: Apache-2.0
"""Parameters of tests that only `make test-long` runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def shortened(values: Iterable[Any], short: int = 1) -> list[Any]:
    """Return parameters of which only the first ones are part of `make test`."""
    return [
        value if i < short else pytest.param(value, marks=pytest.mark.long)
        for i, value in enumerate(values)
    ]
