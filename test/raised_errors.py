# SPDX-License-Identifier: Apache-2.0
"""Checks of errors by their fields, so that messages can change without changes of tests."""

from collections.abc import Callable


def about(name: str) -> Callable[[BaseException], bool]:
    """Return a check for ``pytest.raises`` of the invalid field or unknown name."""

    def check(error: BaseException) -> bool:
        return name in (getattr(error, "field", None), getattr(error, "given", None))

    return check
