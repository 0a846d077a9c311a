# SPDX-License-Identifier: Apache-2.0
"""A script in the page: Esc stops the robots while something is typed, too.

viser ignores hotkeys in input fields, in which the focus stays after a number was typed.
"""

from __future__ import annotations

import functools
import gzip

from websockets.datastructures import Headers
from websockets.http11 import Response

_HEAD = b"<head>"
_SCRIPT = b"""<script>
addEventListener("keydown", (event) => {
  const field = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key !== "Escape" || !event.isTrusted || !field) return;
  field.blur();
  const again = new KeyboardEvent("keydown", {key: "Escape", code: "Escape", bubbles: true});
  document.body.dispatchEvent(again);
}, true);
</script>"""


def with_script(response: Response) -> Response:
    """Return the response with the script, if it is an HTML page with a head."""
    if not response.headers.get("Content-Type", "").startswith("text/html"):
        return response
    body = _inserted(bytes(response.body), response.headers.get("Content-Encoding") == "gzip")
    headers = Headers(
        (name, value)
        for name, value in response.headers.raw_items()
        if name.lower() != "content-length"
    )
    headers["Content-Length"] = str(len(body))
    return Response(response.status_code, response.reason_phrase, headers, body)


@functools.lru_cache(maxsize=4)  # the page has some megabytes
def _inserted(body: bytes, compressed: bool) -> bytes:
    page = gzip.decompress(body) if compressed else body
    page = page.replace(_HEAD, _HEAD + _SCRIPT, 1)
    return gzip.compress(page, compresslevel=6) if compressed else page
