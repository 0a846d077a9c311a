# SPDX-License-Identifier: Apache-2.0
"""Code that was executed before is unmapped, and works when it is executed again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from motion_nodes.ros.mapped_code import _unchanged_code, unmap_code


def resident_code() -> int:
    """Return the resident size of the executable mappings of this process [kB]."""
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


def test_changed_code_stays():
    smaps = (
        "1000-3000 r-xp 00000000 fe:00 12 /lib/a.so\nAnonymous:             0 kB\n"
        "3000-4000 r-xp 00000000 fe:00 13 /lib/relocated.so\nAnonymous:             4 kB\n"
        "3800-3900 r--p 00000000 fe:00 13 /lib/constants.so\nAnonymous:             0 kB\n"
        "4000-5000 rw-p 00000000 fe:00 13 /lib/data.so\nAnonymous:             0 kB\n"
        "5000-6000 r-xp 00000000 00:00 0 [vdso]\nAnonymous:             0 kB\n"
    )
    assert list(_unchanged_code(smaps)) == [(0x1000, 0x3000), (0x3800, 0x3900)]
