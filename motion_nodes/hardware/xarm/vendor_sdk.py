# SPDX-License-Identifier: Apache-2.0
"""The vendor's package ``xarm-python-sdk``, and its texts for the errors of a controller."""

from __future__ import annotations

import contextlib
import importlib
import io
from dataclasses import dataclass
from typing import Any

from motion_nodes.errors import InvalidConfig

OK, HAS_WARNING, TIMEOUT, NOT_SENT, NOT_READY = 0, 2, 3, 8, 9
NOT_CONNECTED = -1
LOST = frozenset({NOT_CONNECTED, TIMEOUT, NOT_SENT})
"""SDK codes of a lost link."""
SERVO_ERRORS = range(10, 18)
"""Errors of the controller that are caused by joint errors."""
_STATES = {3: "paused", 4: "stopped", 5: "stopped, since its mode was changed", 6: "stopping"}
_ADVICE = {
    24: "lower --speed",
    60: "lower --speed",
    31: "free the arm; is the payload right in UFACTORY Studio?",
}


@dataclass(frozen=True)
class VendorSdk:
    """The parts of the package used by the driver."""

    api: Any
    """The class XArmAPI."""
    constants: Any
    """The class XCONF: ports and registers."""
    codes: Any
    """The module with the texts of errors."""

    def error_text(self, code: int) -> str:
        """Return an error of the controller as the vendor's text, with a remedy."""
        found = self.codes.ControllerErrorCodeMap.get(code, {}).get("en", {})
        advice = _ADVICE.get(code) or found.get("desc", "")
        words = [_sentence(found.get("title", "")) or "not known to the SDK", _sentence(advice)]
        return f"error {code}: {': '.join(word for word in words if word)}; then reset"

    def servo_text(self, joint: str, code: int) -> str:
        """Return an error of a joint's servo as the vendor's text."""
        found = self.codes.ServoCodeMap.get(code, {}).get("en", {})
        return f"{joint}: servo error {code}, {_sentence(found.get('title', '')) or 'not known'}"


def load_sdk() -> VendorSdk:
    """Return the vendor's package, with its console output suppressed.

    Raises:
        InvalidConfig: it is not installed.
    """
    try:
        # Its loggers keep the current standard output.
        with contextlib.redirect_stdout(io.StringIO()):
            wrapper = importlib.import_module("xarm.wrapper")
            constants = importlib.import_module("xarm.core.config.x_config").XCONF
            codes = importlib.import_module("xarm.core.config.x_code")
            log = importlib.import_module("xarm.core.utils.log")
    except ImportError as error:
        raise InvalidConfig(
            f"the xArm SDK cannot be loaded ({error}); run: pip install 'motion-nodes[xarm]'"
        ) from None
    for logger in (log.logger, log.origin_logger):
        logger.setLevel(log.logger.CRITICAL)  # errors are reported by the driver
    return VendorSdk(wrapper.XArmAPI, constants, codes)


def state_text(state: int) -> str:
    """Return why a state prevents motion; empty if it does not."""
    if state < 3:
        return ""
    return (
        f"the arm is {_STATES.get(state, 'not ready')} (state {state}): by UFACTORY Studio, a "
        "button or another program; reset when it may move"
    )


def _sentence(text: str) -> str:
    return text.strip().rstrip(".")
