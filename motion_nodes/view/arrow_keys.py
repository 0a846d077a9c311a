# SPDX-License-Identifier: Apache-2.0
"""Arrow keys that drive a base: a checkbox of a drive pad, and the part of the page's script.

A held key holds the button of its direction, with the same deadman switch: the page repeats the
event, and its end stops the base. The checkbox is an element of HTML, so that each page has its
own: somebody who turns the keys on does not do so for others.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping

LABEL = "Arrow keys"
_HINT = (
    "The arrow keys hold the buttons of the pad on this page. With Shift, holonomic bases slide. "
    "Sliders and fields that have the focus keep their keys."
)
_KEYS = {
    "Forward": "ArrowUp",
    "Left": "ArrowLeft",
    "Right": "ArrowRight",
    "Back": "ArrowDown",
    "Slide left": "ShiftArrowLeft",
    "Slide right": "ShiftArrowRight",
    "Stop": "stop",
}

SCRIPT = """
const arrows = [];  // held keys, the newest last
let pushed = null, halt = null;
const push = (button, kind) => button.dispatchEvent(new PointerEvent(kind, {bubbles: true}));
const chosenPad = () => {
  const box = document.querySelector("input[data-pad]:checked");
  return box && (box.checkVisibility?.() ?? true) ? JSON.parse(box.dataset.pad) : null;
};
const steer = () => {
  const pad = chosenPad();
  const next = pad && arrows.length ? document.getElementById(pad[arrows.at(-1)]) : null;
  if (next === pushed) return;
  if (pushed) {
    push(pushed, "pointerup");
    pushed.click();
  }
  pushed = next;
  halt = pad && document.getElementById(pad.stop);
  if (pushed) push(pushed, "pointerdown");
};
const letGo = () => {
  arrows.length = 0;
  if (!pushed) return;
  // No click: with Latch, it would start a motion.
  push(pushed, "pointerup");
  pushed = null;
  halt?.click();
};
const keepsKeys = (element) => element.closest?.("input:not([type=checkbox]), textarea, select, " +
  "[contenteditable], [role=slider], [role=tab], [role=listbox], [role=combobox]");
addEventListener("keydown", (event) => {
  if (event.key === "Escape") letGo();
  if (!event.key.startsWith("Arrow") || event.ctrlKey || event.altKey || event.metaKey) return;
  if (!event.isTrusted || keepsKeys(event.target) || !chosenPad()) return;
  // They would turn the camera, too.
  event.preventDefault();
  event.stopImmediatePropagation();
  if (!event.repeat) arrows.push((event.shiftKey ? "Shift" : "") + event.key);
  steer();
}, true);
addEventListener("keyup", (event) => {
  if (!event.key.startsWith("Arrow")) return;
  for (const key of [event.key, "Shift" + event.key]) {
    while (arrows.includes(key)) arrows.splice(arrows.indexOf(key), 1);
  }
  steer();
}, true);
addEventListener("focusin", (event) => { if (keepsKeys(event.target)) letGo(); });
addEventListener("blur", letGo);
addEventListener("pagehide", letGo);
addEventListener("visibilitychange", letGo);
addEventListener("change", (event) => {
  if (!event.target.matches?.("input[data-pad]")) return;
  letGo();
  for (const other of document.querySelectorAll("input[data-pad]")) {
    if (other !== event.target) other.checked = false;
  }
}, true);
"""
"""Part of the page's script."""


def arrow_checkbox(name: str, buttons: Mapping[str, str]) -> str:
    """Return the HTML of the checkbox.

    Args:
        name: unique on the page.
        buttons: id of each button of the pad, by its label.
    """
    keys = {key: buttons[label] for label, key in _KEYS.items() if label in buttons}
    data = html.escape(json.dumps(keys), quote=True)
    key = html.escape(f"keys-{name}", quote=True)
    return (
        '<div style="display: flex; align-items: center; margin: 0 0.75em 0.5em; '
        f'font-size: 0.875em" title="{html.escape(_HINT, quote=True)}">'
        f'<label for="{key}" style="width: 8.2em; opacity: 0.55; letter-spacing: -0.75px">{LABEL}'
        f'</label><input type="checkbox" id="{key}" data-pad="{data}" '
        'style="width: 1.1em; height: 1.1em; margin: 0"></div>'
    )
