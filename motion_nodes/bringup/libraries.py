# SPDX-License-Identifier: Apache-2.0
"""Libraries of a suite that are optional extras of the package, checked before it starts."""

from __future__ import annotations

import importlib.util

from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.errors import InvalidConfig


def check_libraries(config: BringupConfig) -> None:
    """Check that the libraries of the simulation and of the page are installed.

    Raises:
        InvalidConfig: one is missing; names the extra that provides it.
    """
    for needed, module, extra, otherwise in (
        (config.backend == "mujoco", "mujoco", "sim", "--backend mock"),
        (config.viewer == "browser", "viser", "viewer", "--viewer none"),
    ):
        if needed and importlib.util.find_spec(module) is None:
            raise InvalidConfig(
                f"{module} is not installed; run: pip install 'motion-nodes[{extra}]', "
                f"or choose {otherwise}"
            )
