# SPDX-License-Identifier: Apache-2.0
"""What an error is about, by its fields: sentences may improve without a change of tests."""

from __future__ import annotations

from collections.abc import Callable


def about(name: str) -> Callable[[BaseException], bool]:
    """Return a check of ``pytest.raises``: the offending field or unknown name is this."""

    def check(error: BaseException) -> bool:
        return name in (getattr(error, "field", None), getattr(error, "given", None))

    return check
