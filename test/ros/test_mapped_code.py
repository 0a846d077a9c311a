# SPDX-License-Identifier: Apache-2.0
"""Code that was executed before is unmapped, and works when it is executed again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from motion_nodes.ros.mapped_code import unmap_code


def resident_code() -> int:
    """Return how much of the executable mappings of this process is resident [kB]."""
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            counts = words[1] == "r-xp" and words[4] != "0"
        elif counts and words[0] == "Rss:":
            total += int(words[1])
    return total


def test_unmapped_code_returns_when_it_is_executed():
    matrix = np.diag([1.0, 2.0, 4.0])
    inverse = np.linalg.inv(matrix)
    before = resident_code()
    unmap_code()
    assert resident_code() < 0.8 * before
    assert np.array_equal(np.linalg.inv(matrix), inverse)
