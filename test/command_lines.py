# SPDX-License-Identifier: Apache-2.0
"""Command lines of README and docs, parsed like by a shell."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Line:
    """One command."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        """Words of the command, without comments."""
        return shlex.split(self.text, comments=True)

    @property
    def exit_code(self) -> int:
        """Exit code that the page states; default: 0."""
        code = re.search(r"# exit code (\d)", self.text)
        return int(code[1]) if code else 0


def lines_of(page: Path, kind: str = r"(?:sh|bash)[^\n]*") -> list[Line]:
    """Return the commands of a page's blocks of a kind; a backslash joins two lines."""
    name = page.relative_to(ROOT).as_posix()
    block = re.compile(rf"^```{kind}\n(.*?)^```", re.DOTALL | re.MULTILINE)
    blocks = block.findall(page.read_text(encoding="utf-8"))
    texts = [t for block in blocks for t in block.replace("\\\n", " ").splitlines()]
    return [Line(name, text) for text in texts if shlex.split(text, comments=True)]


def all_lines() -> list[Line]:
    """Return the commands of all pages."""
    return [line for page in PAGES for line in lines_of(page)]
