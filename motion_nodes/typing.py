# SPDX-License-Identifier: Apache-2.0
"""Types of arrays that all rooms share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Real numbers; docstrings state the shape."""
Mask = NDArray[np.bool_]
"""One truth value per element."""
IndexArray = NDArray[np.int32]
"""Indices, as kernels read them."""
