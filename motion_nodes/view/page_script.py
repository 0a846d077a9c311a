# SPDX-License-Identifier: Apache-2.0
"""Script of the page: Esc in input fields, arrow keys, hold and release of sliders, notices.

viser ignores hotkeys in input fields, which keep the focus after input; does not distinguish slider
drags from number input; keeps the last state on the page after the suite has ended; and shows no
panel without WebGL, so the WebGL notice contains the buttons to stop and to resume.
"""

from __future__ import annotations

import functools
import gzip

from websockets.datastructures import Headers
from websockets.http11 import Response

from motion_nodes.view import arrow_keys

STOP_PATH, RESUME_PATH = "/motion_nodes/stop", "/motion_nodes/resume"
"""Paths that stop all robots and accept commands again."""
HOLD_PATH, RELEASE_PATH = "/motion_nodes/hold_slider", "/motion_nodes/release_slider"
"""Paths that report a slider that is held, twice a second, and its release."""
ALIVE_PATH = "/motion_nodes/alive"
"""Path that the page polls every few seconds to detect the end of the suite."""
ACTION_HEADER = "X-Motion-Nodes"
"""Header of requests for them: browsers send it across sites only if the server allows it."""
_HEAD = b"<head>"
_SCRIPT = """<script>
addEventListener("keydown", (event) => {
  const field = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key !== "Escape" || !event.isTrusted || !field) return;
  field.blur();
  const again = new KeyboardEvent("keydown", {key: "Escape", code: "Escape", bubbles: true});
  document.body.dispatchEvent(again);
}, true);
ARROW_KEYS
const report = (path) => fetch(path, {headers: {"ACTION_HEADER": "1"}}).catch(() => null);
let held = 0;
addEventListener("pointerdown", (event) => {
  if (!event.target.closest?.("[class*='Slider-root']")) return;
  clearInterval(held);
  report("HOLD_PATH");
  held = setInterval(report, 500, "HOLD_PATH");
}, true);
const released = () => {
  if (!held) return;
  clearInterval(held);
  held = 0;
  // The last value of the slider may arrive later, by some 10 ms.
  setTimeout(() => held || report("RELEASE_PATH"), 200);
};
addEventListener("pointerup", released, true);
addEventListener("pointercancel", released, true);
addEventListener("blur", released);
addEventListener("DOMContentLoaded", () => {
  const lost = document.createElement("div");
  lost.id = "no-connection";
  lost.hidden = true;
  lost.style = "position: fixed; inset: 0 0 auto 0; z-index: 9998; padding: 0.7em; " +
    "background: #ffd8d8; color: #222; font: 16px sans-serif";
  lost.append("No connection to the suite: the state shown is outdated. " +
    "After a restart, open the address that it prints.");
  document.body.append(lost);
  setInterval(async () => { lost.hidden = Boolean((await report("ALIVE_PATH"))?.ok); }, 3000);
  const canvas = document.createElement("canvas");
  if (canvas.getContext("webgl2") || canvas.getContext("webgl")) return;
  const notice = document.createElement("div");
  notice.id = "no-webgl";
  notice.style = "position: fixed; inset: 0 0 auto 0; z-index: 9999; padding: 1em; " +
    "background: #fff3cd; color: #222; font: 16px sans-serif";
  notice.append("This browser has no WebGL, which the page needs to draw robots and panel. " +
    "Enable hardware acceleration, or use another browser. ");
  const button = (label, path) => {
    const made = document.createElement("button");
    made.textContent = label;
    made.style = "margin-right: 1em; padding: 0.5em 1em";
    made.onclick = async () => {
      const answer = await report(path);
      state.textContent = answer?.ok ? label + ": sent" : label + ": no connection to the robots";
    };
    notice.append(made);
  };
  const state = document.createElement("span");
  button("Stop all robots", "STOP_PATH");
  button("Resume", "RESUME_PATH");
  notice.append(state);
  document.body.append(notice);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") notice.querySelector("button").click();
  });
});
</script>"""
_INSERTED = {
    "ARROW_KEYS": arrow_keys.SCRIPT.strip(),
    "ACTION_HEADER": ACTION_HEADER,
    "STOP_PATH": STOP_PATH,
    "RESUME_PATH": RESUME_PATH,
    "HOLD_PATH": HOLD_PATH,
    "RELEASE_PATH": RELEASE_PATH,
    "ALIVE_PATH": ALIVE_PATH,
}
for _word, _text in _INSERTED.items():
    _SCRIPT = _SCRIPT.replace(_word, _text)


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
    page = page.replace(_HEAD, _HEAD + _SCRIPT.encode(), 1)
    return gzip.compress(page, compresslevel=6) if compressed else page
