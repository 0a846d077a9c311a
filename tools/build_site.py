#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the documentation site in build/site from docs/ and the pages that it links to.

    python tools/build_site.py

Needs mkdocs-material and latex2mathml (requirements/docs.txt); neither this script nor the pages
access the network, and all pages, with their search, can be opened from the disk. Links and anchors
without target, pages outside the navigation, and addresses that a page would load are errors.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "build" / "site_src"
STYLE = """
.md-grid { max-width: 80rem; }
.md-typeset table:not([class]) th { min-width: 0; }
.md-typeset table:not([class]) :is(th, td) { padding: .5em .8em; }
.md-typeset table:not([class]) td:first-child:has(> code:only-child) { min-width: 11em; }
.md-typeset table:not([class]) td:last-child { min-width: 16em; }
"""
"""Wide pages and narrow cells, because tables of parameters have seven columns."""
OTHERS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "benchmarks/RESULTS.md",
    "examples/README.md",
)
"""Pages outside docs/, which go to project/ of the site."""
LAST = ("CHANGELOG.md", "RESULTS.md")
"""Pages that mention everything: the search lists them last."""
RANK_LAST = "---\nsearch:\n  boost: 0.1\n---\n\n"
SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the theme loads for its search without a server; replaced by :data:`WORKER`."""
WORKER = """
// Browsers start no workers in pages from the disk: the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      (document.body || document.documentElement).append(frame);
      this.worker = frame.contentWindow;
      const page = this.worker.document;
      page.open();
      page.write("<script>var self = window, importScripts = () => {};</script>");
      page.close();
      this.worker.postMessage = data => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      this.ready = new Promise((resolve, reject) => {
        const script = page.createElement("script");
        Object.assign(script, { src: url, onload: resolve, onerror: reject });
        page.documentElement.append(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.worker.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
"""

_LOADED = re.compile(
    r"""<(?:script|img|link rel="stylesheet")[^>]*? (?:src|href)="(https?:[^"]*)"""
)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```|^    .*?$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_INLINE = re.compile(r"(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<!\s)\$(?![\w$])")


def pages() -> dict[Path, Path]:
    """Return the path in the site of each file that is part of it."""
    robots = sorted(ROOT.glob("motion_nodes/robots/*/README.md"))
    found = {path: path.relative_to(DOCS) for path in DOCS.rglob("*") if path.is_file()}
    for path in (*(ROOT / name for name in OTHERS), *robots):
        found[path] = Path("project") / path.relative_to(ROOT)
    return found


def with_links(text: str, page: Path, places: dict[Path, Path]) -> str:
    """Return a page's text with links to the paths in the site.

    Links to other files become plain text.
    """

    def replace(match: re.Match[str]) -> str:
        picture, label, target, anchor = match.groups()
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        file = (page.parent / target).resolve()
        file = file / "README.md" if file.is_dir() else file
        if file not in places:
            return "" if picture else label
        there = os.path.relpath(places[file], places[page].parent)
        return f"{picture}[{label}]({there}{anchor or ''})"

    return _LINK.sub(replace, text)


def with_mathematics(text: str) -> str:
    """Return a page's text with formulas as MathML, which browsers render without scripts."""

    def outside_code(part: str) -> str:
        part = _DISPLAY.sub(lambda m: f"\n\n{convert(m[1].strip(), display='block')}\n\n", part)
        return _INLINE.sub(lambda m: convert(m[1]), part)

    parts = _CODE.split(text)
    return "".join(part if k % 2 else outside_code(part) for k, part in enumerate(parts))


def navigation(config: str, places: dict[Path, Path]) -> str:
    """Return mkdocs.yml with the generated lists."""
    named = set(re.findall(r"^ *- .*?(\S+\.md)$", config, re.MULTILINE))
    free = sorted(
        place.as_posix()
        for place in places.values()
        if place.suffix == ".md" and place.as_posix() not in named
    )
    groups: dict[str, list[str | dict[str, str]]] = {
        "ROBOTS": [name for name in free if "/robots/" in name],
        "MATHEMATICS": [
            {Path(name).stem.capitalize(): name} for name in free if name.startswith("mathematics/")
        ],
        "GUIDES": [name for name in free if "/" not in name],
    }
    rest = [name for name in free if name.startswith("project/") and "/robots/" not in name]
    groups["GUIDES"] += rest
    for word, names in groups.items():
        config = config.replace(
            f": {word}\n", f": {yaml.safe_dump(names, default_flow_style=True)}"
        )
    return config


def main() -> int:
    """Build the site; return the exit code of mkdocs."""
    places = pages()
    shutil.rmtree(SOURCE, ignore_errors=True)
    for file, place in places.items():
        target = SOURCE / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            text = with_links(file.read_text("utf-8"), file, places)
            rank = RANK_LAST if file.name in LAST else ""
            target.write_text(rank + with_mathematics(text), "utf-8")
        else:
            shutil.copyfile(file, target)
    (SOURCE / "site.css").write_text(STYLE, "utf-8")
    (SOURCE / "worker.js").write_text(WORKER, "utf-8")
    config = ROOT / "build" / "mkdocs.yml"
    text = navigation((ROOT / "mkdocs.yml").read_text("utf-8"), places)
    config.write_text(text.replace(": build/", ": "), "utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    code = subprocess.run(command, env=environment, check=False).returncode
    for page in (ROOT / "build" / "site").rglob("*.html"):
        there = Path(os.path.relpath(ROOT / "build" / "site" / "worker.js", page.parent))
        text = page.read_text("utf-8").replace(SHIM, there.as_posix())
        page.write_text(text, "utf-8")
        for address in _LOADED.findall(text):
            print(f"{page}: loads {address}")
            code = 1
    print(f"the site is in {ROOT / 'build' / 'site'}" if code == 0 else "the site has faults")
    return code


if __name__ == "__main__":
    sys.exit(main())
