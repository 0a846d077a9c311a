# SPDX-License-Identifier: Apache-2.0
"""The token in the address of the page; :mod:`motion_nodes.view.page_access` asks for it."""

from __future__ import annotations

import os
import secrets

TOKEN_VARIABLE = "MOTION_NODES_PAGE_TOKEN"
"""Environment variable with the token; ``motion up`` sets it for viewers that it restarts."""


def page_token() -> str:
    """Return the token from the environment, else a new random one."""
    return os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(16)
