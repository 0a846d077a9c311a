# SPDX-License-Identifier: Apache-2.0
"""Wheeled bases, configured as by their nodes."""

from __future__ import annotations

from dataclasses import dataclass

from motion_nodes.bases.controller import BaseControllerConfig
from motion_nodes.model.robot import Robot
from motion_nodes.ros.wheeled import wheeled_base_params as nodes


@dataclass(frozen=True, kw_only=True)
class _Params(nodes.SidewaysParams, nodes.WheeledBaseParams):
    """Parameters of any base."""


def base_config(robot: Robot) -> BaseControllerConfig:
    """Return the configuration of a base controller with the limits of the description."""
    return nodes.core_config(_Params(robot=robot.name, **nodes.base_defaults(robot)))
