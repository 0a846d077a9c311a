# SPDX-License-Identifier: Apache-2.0
"""Parameters of tests that only `make test-long` runs."""

from collections.abc import Iterable
from typing import Any

import pytest


def shortened(values: Iterable[Any], short: int = 1) -> list[Any]:
    """Return parameters of which only the first ones are part of `make test`.

    A tuple contains the values of several names.
    """
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(*row, marks=pytest.mark.long if i >= short else ())
        for i, row in enumerate(rows)
    ]
