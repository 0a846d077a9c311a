# SPDX-License-Identifier: Apache-2.0
"""Settings of the driver of xArms."""

from __future__ import annotations

from dataclasses import dataclass

from motion_nodes.model.setting import check_settings, setting


@dataclass(frozen=True)
class XArmSettings:
    """The block ``hardware.settings``.

    Raises:
        InvalidConfig: a value out of its range.
    """

    joints: tuple[str, ...] = ()
    """The joints from the base on; empty: those of the arm."""
    rate: float = setting(
        100.0,
        doc="Rate of the references; UFACTORY recommends 30 to 200 Hz for servo motion.",
        unit="Hz",
        ge=20.0,
        le=250.0,
    )
    link_timeout: float = setting(
        0.2,
        doc="Time without an answer after which the link is lost.",
        unit="s",
        ge=0.01,
        le=5.0,
    )
    port: int = setting(502, doc="TCP port of the controller.", ge=1, le=65535)

    def __post_init__(self) -> None:
        """Check the settings."""
        check_settings(self)
