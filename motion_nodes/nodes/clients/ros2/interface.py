# SPDX-License-Identifier: Apache-2.0
"""``ros2 interface``: show, list, package, packages, from the definitions in share/."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from motion_nodes.errors import InvalidCommand, did_you_mean
from motion_nodes.ros.environment import share_folders

KINDS = ("msg", "srv", "action")
_FIELD = re.compile(r"^([A-Za-z][\w/]*)(?:<=\d+)?(\[[^]]*\])?\s+\w+")


def add_interface(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    show = verbs.add_parser("show", help="print the definition of a type")
    show.add_argument("type", help="such as sensor_msgs/msg/JointState")
    show.add_argument("--no-comments", action="store_true", help="without comments")
    show.set_defaults(run=_show)
    listing = verbs.add_parser("list", help="list all types")
    for kind in KINDS:
        listing.add_argument(f"--only-{kind}s", f"-{kind[0]}", action="store_const", const=kind,
                             dest="only")  # fmt: skip
    listing.set_defaults(run=_list)
    package = verbs.add_parser("package", help="list the types of a package")
    package.add_argument("package")
    package.set_defaults(run=_package)
    verbs.add_parser("packages", help="list the packages with types").set_defaults(run=_packages)


def _definitions() -> Iterator[tuple[str, Path]]:
    """Yield name and file of each type, as ``std_msgs/msg/Bool``."""
    for share in share_folders():
        for kind in KINDS:
            for file in sorted(share.glob(f"*/{kind}/*.{kind}")):
                yield f"{file.parts[-3]}/{kind}/{file.stem}", file


def _show(options: argparse.Namespace) -> None:
    known = dict(_definitions())
    name = options.type
    if name.count("/") == 1:
        package, stem = name.split("/")
        name = next((n for k in KINDS if (n := f"{package}/{k}/{stem}") in known), name)
    if name not in known:
        raise InvalidCommand(f"there is no type {name}.{did_you_mean(name, known)}")
    _print(known[name], known, "", not options.no_comments)


def _print(file: Path, known: dict[str, Path], indent: str, comments: bool) -> None:
    """Print a definition, with those of its fields below them."""
    for line in file.read_text("utf-8").splitlines():
        text = line if comments and not indent else line.split("#")[0].rstrip()
        if not text and (indent or not comments):
            continue
        print(f"{indent}{text}")
        field = _FIELD.match(text)
        if field and "=" not in text.split("#")[0]:
            word = field[1] if "/" in field[1] else f"{file.parts[-3]}/{field[1]}"
            word = "std_msgs/Header" if field[1] == "Header" else word
            package, stem = word.split("/")[0], word.split("/")[-1]
            inner = known.get(f"{package}/msg/{stem}")
            if inner:
                _print(inner, known, indent + "\t", False)


def _list(options: argparse.Namespace) -> None:
    for kind in KINDS:
        if options.only in (None, kind):
            print({"msg": "Messages:", "srv": "Services:", "action": "Actions:"}[kind])
            print("\n".join(f"    {n}" for n, _ in _definitions() if n.split("/")[1] == kind))


def _package(options: argparse.Namespace) -> None:
    names = [name for name, _ in _definitions()]
    found = [name for name in names if name.split("/")[0] == options.package]
    if not found:
        packages = {name.split("/")[0] for name in names}
        raise InvalidCommand(
            f"there is no package {options.package}.{did_you_mean(options.package, packages)}"
        )
    print("\n".join(found))


def _packages(_options: argparse.Namespace) -> None:
    print("\n".join(sorted({name.split("/")[0] for name, _ in _definitions()})))
