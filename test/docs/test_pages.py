# SPDX-License-Identifier: Apache-2.0
"""Pages of the docs: links, formulas, walks, quoted texts, counted programs, drawn pictures."""

import ast
import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
_FOLDERS = ("docs", "examples", "benchmarks", "motion_nodes/robots")
PAGES = sorted([*ROOT.glob("*.md"), *(p for f in _FOLDERS for p in (ROOT / f).rglob("*.md"))])
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def prose(page):
    """Return a page without its code."""
    return re.sub(r"`[^`\n]*`", "", _CODE.sub("", page.read_text(encoding="utf-8")))


def anchors(page):
    """Return the anchors of a page's headings on GitHub."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    names = re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in names}


def links(page):
    return re.findall(r"\]\(([^)\s]+)\)", prose(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_reached_from_the_index():
    seen, left = set(), [ROOT / "docs" / "index.md"]
    while left:
        page = left.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        paths = (link.partition("#")[0] for link in links(page) if ":" not in link)
        left += [(page.parent / path).resolve() for path in paths if path]
    missing = {page for page in (ROOT / "docs").rglob("*.md")} - seen
    assert not missing, sorted(page.name for page in missing)


def test_pictures_are_shown_somewhere():
    shown = {Path(link).name for page in PAGES for link in links(page)}
    files = {file.name for file in (ROOT / "docs" / "pictures").iterdir()}
    assert files
    assert files <= shown


def test_formulas_are_closed():
    """GitHub renders a formula only if its dollars and braces are paired."""
    for page in (ROOT / "docs" / "mathematics").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert text.count("$$") % 2 == 0, page.name
        for block in text.split("$$")[1::2]:
            assert "$" not in block, f"{page.name}: {block}"
            bare = block.replace(r"\{", "").replace(r"\}", "")
            assert bare.count("{") == bare.count("}"), f"{page.name}: {block}"
            assert len(re.findall(r"\\begin", block)) == len(re.findall(r"\\end", block))
        for paragraph in re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL).split("\n\n"):
            assert paragraph.count("$") % 2 == 0, f"{page.name}: {paragraph}"


def test_robots_page_is_current():
    found = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "write_robot_docs.py"), "--check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr


TEXT = (ROOT / "docs" / "architecture.md").read_text("utf-8")
NAMED = re.compile(r"`((?:core|kernels|ros|nodes|extras)/[\w/]+\.py)`(?:\s+`([\w.]+)`)?")
MOST_LINES = 200


def defined(file, name):
    """Whether a file defines a name, or a class with an attribute of it."""
    text = file.read_text("utf-8")
    return all(
        re.search(rf"^\s*(?:(?:async )?def|class) {part}\b|^{part}\b", text, re.MULTILINE)
        for part in name.split(".")
    )


def test_files_and_names_exist():
    named = NAMED.findall(TEXT)
    assert len(named) > 30
    files = {name: ROOT / "motion_nodes" / name for name, _ in named}
    assert [name for name, file in files.items() if not file.is_file()] == []
    assert [(name, what) for name, what in named if what and not defined(files[name], what)] == []


def test_the_three_walks_are_there_and_the_page_is_short():
    titles = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    assert {"A twist", "An IK request", "A MoveGroup goal"} <= set(titles)
    assert len(TEXT.splitlines()) <= MOST_LINES


def test_names_of_a_walk_belong_to_files_named_before():
    for title in ("A twist", "An IK request", "A MoveGroup goal"):
        walk = TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]
        files = [ROOT / "motion_nodes" / name for name, _ in NAMED.findall(walk)]
        for name in re.findall(r"`([A-Z]\w+(?:\.\w+)?)`", walk):
            assert any(defined(file, name.split(".")[-1]) for file in files), (title, name)


def literals():
    """Return all string literals of the sources, with adjacent parts joined."""
    for file in (*(ROOT / "motion_nodes").rglob("*.py"), ROOT / "tools/setup_environment.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(p.value if isinstance(p, ast.Constant) else "\0" for p in node.values)


def test_quoted_texts_are_printed():
    page = (ROOT / "docs/troubleshooting.md").read_text("utf-8").replace("| text |", "")
    rows = re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    assert len(quoted) > 20
    printed = "\n".join(literals())
    own = {"ros2: command not found", "Timeout (0:00:10)!"}  # of the shell, of Python
    assert not sorted(text for text in quoted if text not in printed and text not in own)


COUNTED = runpy.run_path(str(ROOT / "benchmarks" / "count_lines.py"))


def test_the_table_holds_what_is_counted():
    page = (ROOT / "docs" / "comparison.md").read_text("utf-8")
    for row in COUNTED["rows"]():
        assert row.split(" \u2013 ")[0] in page


@pytest.mark.long
@pytest.mark.parametrize("name", COUNTED["TASKS"])
def test_a_program_reaches_what_it_checks(name):
    pytest.importorskip("viser")
    runpy.run_path(str(ROOT / "benchmarks" / "seven_tasks" / f"{name}.py"))["page"].close()


PAGES_MATHEMATICS_PICTURES = sorted((ROOT / "docs" / "mathematics").glob("*.md"))
_SPEC = importlib.util.spec_from_file_location("draw", ROOT / "tools" / "draw_mathematics.py")
draw = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(draw)


def texts(svg: str) -> list[str]:
    """Return the words of a picture, without numbers."""
    found = [node.text or "" for node in ElementTree.fromstring(svg).iter() if "text" in node.tag]
    return [text for text in found if any(map(str.isalpha, text))]


@pytest.mark.parametrize("page", PAGES_MATHEMATICS_PICTURES, ids=lambda page: page.stem)
def test_a_page_shows_what_is_drawn(page):
    file = page.parent / "pictures" / f"{page.stem}.svg"
    assert f"](pictures/{file.name})" in page.read_text("utf-8")
    kept = file.read_text("utf-8")
    assert len(kept) < 200_000
    assert texts(kept) == texts(draw.PICTURES[page.stem]().svg)
