# SPDX-License-Identifier: Apache-2.0
"""Random numbers of the planners' kernels: equal seeds give equal sequences on every machine.

Source: G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators", OOPSLA
2014 (SplitMix64).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from motion_nodes.kernels.jit import inlined

INCREMENT = np.uint64(0x9E3779B97F4A7C15)
"""Added to the state of the generator for each number."""


@inlined
def mixed(state: np.uint64) -> float:
    """Return the random number in [0, 1) of a state."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0


@inlined
def uniform(random: Any) -> float:
    """Return a uniform random number in [0, 1); the state has shape (1,), uint64."""
    random[0] += INCREMENT
    return mixed(random[0])
