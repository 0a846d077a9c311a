# SPDX-License-Identifier: Apache-2.0
"""Failure responses of services and actions of any type."""

from __future__ import annotations

from typing import Any

CODES = ("INVALID_GOAL", "INVALID_GOAL_CONSTRAINTS", "UNKNOWN", "FAILURE")
"""Constants for a general failure, in types with an integer ``error_code``."""
UNKNOWN, INVALID_PATH = 100, 103
"""Codes of Nav2's FollowPath, which NavigateToPose passes on; its own type only has NONE."""
_TEXTS = ("message", "error_string", "error_msg", "reason", "error_message")


def fill_failure(response: Any, text: str, *, rejected: bool = False) -> Any:
    """Mark a response or result as a failure, in the fields that its type has.

    Args:
        response: response of a service, or result of an action.
        text: the reason.
        rejected: whether the request was invalid, as opposed to a fault of the node.

    Returns:
        The same response.
    """
    fields = response.get_fields_and_field_types()
    for name in ("success", "ok", "successful", "valid"):
        if fields.get(name) == "boolean":
            setattr(response, name, False)
    for name in _TEXTS:
        if fields.get(name, "").startswith("string"):
            setattr(response, name, text)
    code: Any = getattr(response, "error_code", None)
    if hasattr(code, "val"):
        code.val = code.INVALID_GOAL_CONSTRAINTS if rejected else code.FAILURE
        code.message = text
    elif isinstance(code, int):
        constant = next((c for c in CODES if hasattr(type(response), c)), None)
        if constant is not None:
            response.error_code = getattr(type(response), constant)
        elif hasattr(type(response), "NONE"):
            response.error_code = INVALID_PATH if rejected else UNKNOWN
    for name in ("motion_plan_response", "response", "result"):
        inner = getattr(response, name, None)
        if hasattr(inner, "get_fields_and_field_types"):
            fill_failure(inner, text, rejected=rejected)
    return response
