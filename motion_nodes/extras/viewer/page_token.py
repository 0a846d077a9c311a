# SPDX-License-Identifier: Apache-2.0
"""The access token in the page's address; checked by :mod:`.page_server`.

Light: ``motion up`` imports it before any process, also where the page's libraries are missing.
"""

from __future__ import annotations

import os
import secrets

TOKEN_VARIABLE = "MOTION_NODES_PAGE_TOKEN"
"""Environment variable with the token; set by ``motion up``, so that restarted viewers keep it."""


def page_token() -> str:
    """Return the token from the environment, or a new random one."""
    return os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(16)


def page_environment() -> dict[str, str]:
    """Return the variables by which all viewers of a suite, also restarted ones, share a token."""
    return {TOKEN_VARIABLE: page_token()}
