# SPDX-License-Identifier: Apache-2.0
"""The access token in the page's address; checked by :mod:`.page_server`."""

from __future__ import annotations

import os
import secrets

TOKEN_VARIABLE = "MOTION_NODES_PAGE_TOKEN"
"""Environment variable with the token; set by ``motion up``, so that restarted viewers keep it."""


def page_token() -> str:
    """Return the token from the environment, or a new random one."""
    return os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(16)
