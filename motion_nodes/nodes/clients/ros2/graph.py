# SPDX-License-Identifier: Apache-2.0
"""A short-lived participant of the ROS graph, and its discovery."""

from __future__ import annotations

import argparse
import difflib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import rclpy
from rclpy.node import Node
from rclpy.task import Future

from motion_nodes.errors import InvalidCommand, did_you_mean
from motion_nodes.ros import signals
from motion_nodes.ros.clients.client_node import client_node

DISCOVERY_TIME = 0.7
"""Time without a change after which the graph counts as discovered, if no process waits for a
processor [s]."""
LONGEST = 8.0
"""Max factor of that time on a busy machine, where others answer late."""
_UNNAMED = "_NODE_NAME_UNKNOWN_"
"""Name of the nodes of a process that has not told them yet."""
FIRST_TIME = 3.0
"""Max time for the first other participant to be discovered [s]."""
APPEAR_TIMEOUT = 5.0
"""Max time for the discovery of a requested name [s]."""
_PERIOD = 0.05
"""Polling period of the graph [s]."""

Found = TypeVar("Found")
Run = Callable[[argparse.Namespace], int | None]
Types = Callable[[Node], dict[str, list[str]]]
"""Returns the types of all known names."""


@contextmanager
def participant() -> Iterator[Node]:
    """Context manager of a node that lists do not show (its name begins with an underscore)."""
    with client_node("_ros2cli") as node:
        yield node


def discovery_time() -> float:
    """Return :data:`DISCOVERY_TIME` times the number of threads for each processor [s]."""
    share = os.getloadavg()[0] / (os.cpu_count() or 1)
    return DISCOVERY_TIME * min(max(share, 1.0), LONGEST)


def add_discovery(parser: argparse.ArgumentParser) -> None:
    """Add the options of discovery."""
    parser.add_argument("--spin-time", type=float, default=discovery_time(), metavar="S",
                        help="time without a change to the graph [s]")  # fmt: skip
    parser.add_argument("--no-daemon", action="store_true", help="accepted; there is no daemon")


def discover(query: Callable[[], Found], settle: float = DISCOVERY_TIME, *, known: bool) -> Found:
    """Return the result of a graph query once it is stable.

    Args:
        query: query of the graph; returns a comparable value.
        settle: duration without a change [s].
        known: whether other participants were discovered before; else the timeout for the first
            change is longer.
    """
    seen, since = query(), time.monotonic()
    patience = settle if known else max(settle, FIRST_TIME)
    while time.monotonic() - since < patience and not signals.STOP.wait(_PERIOD):
        now = query()
        if now != seen:
            seen, since, patience = now, time.monotonic(), settle
    return seen


def wait_for(query: Callable[[], Found], timeout: float = APPEAR_TIMEOUT) -> Found:
    """Poll the graph; return the first true value, else the last one."""
    end = time.monotonic() + timeout
    while not (found := query()) and time.monotonic() < end:
        if signals.STOP.wait(_PERIOD):
            break
    return found


def complete(node: Node, future: Future, timeout: float | None = None) -> Any:
    """Spin until a future is done; return its result, None after the timeout or a signal."""
    end = None if timeout is None else time.monotonic() + timeout
    while not future.done() and not signals.STOP.is_set():
        if end is not None and time.monotonic() > end:
            return None
        rclpy.spin_once(node, timeout_sec=0.1)
    return future.result() if future.done() else None


def full_name(name: str) -> str:
    """Return a name with its leading slash."""
    return name if name.startswith("/") else f"/{name}"


def named(kind: str, name: str, types: Callable[[], Mapping[str, list[str]]]) -> list[str]:
    """Return the types of a topic, service or action, waiting until it is discovered.

    Args:
        kind: "topic", "service" or "action", for the error.
        name: its name.
        types: returns the types by name.

    Raises:
        InvalidCommand: it does not exist.
    """
    found = wait_for(lambda: types().get(full_name(name), []))
    if not found:
        known = [known for known in types() if not is_hidden(known)]
        raise InvalidCommand(
            f"there is no {kind} {full_name(name)}.{did_you_mean(full_name(name), known)}"
        )
    return found


def discovered(types: Types, settle: float) -> dict[str, list[str]]:
    """Return the types by name that a new participant discovers, see :func:`discover`."""
    with participant() as node:
        return discover(lambda: types(node), settle, known=False)


def report_waiting(what: str, name: str, kind: str, types: Mapping[str, list[str]]) -> None:
    """Print what a client waits for, with the type or the name that it may have mistaken.

    Args:
        what: such as "service", for the text.
        name: name of the topic, service or action.
        kind: its type, as the client uses it.
        types: types by name, including the client's own.
    """
    name = full_name(name)
    if kind.count("/") == 1:  # the part in the middle may be left out
        part = {"service": "srv", "action server": "action"}.get(what, "msg")
        kind = kind.replace("/", f"/{part}/")
    others = [other for other in types.get(name, []) if other != kind]
    alike = [n for n, kinds in types.items() if n != name and kind in kinds and not is_hidden(n)]
    base = name.rpartition("/")[2]
    near = difflib.get_close_matches(name, alike, n=1, cutoff=0.6) or [
        n for n in alike if base in n.rpartition("/")[2]
    ]
    hint = f". Did you mean '{near[0]}'?" if near else ""
    if others:
        hint = f", whose type is {' or '.join(others)}, not {kind}"
    print(f"waiting for {what} {name}{hint}", flush=True)


def is_hidden(name: str) -> bool:
    """Return whether a part of a name begins with an underscore."""
    return any(part.startswith("_") for part in name.split("/"))


def node_names(node: Node, hidden: bool = False) -> list[str]:
    """Return the full names of all nodes, sorted.

    Nodes and their endpoints are discovered by different messages, so those of endpoints count.
    """
    found = [f"{space.rstrip('/')}/{name}" for name, space in node.get_node_names_and_namespaces()]
    ends = [end for end in _parameter_events(node) if end.node_name != _UNNAMED]
    found += {f"{e.node_namespace.rstrip('/')}/{e.node_name}" for e in ends}.difference(found)
    return sorted(name for name in found if hidden or not is_hidden(name))


def unnamed_nodes(node: Node) -> int:
    """Return the number of nodes of which an endpoint, but not the name was discovered."""
    return sum(end.node_name == _UNNAMED for end in _parameter_events(node))


def _parameter_events(node: Node) -> list[Any]:
    """Return the publishers of a topic that every node has."""
    return list(node.get_publishers_info_by_topic("/parameter_events"))


def existing_node(node: Node, name: str) -> tuple[str, str]:
    """Return name and namespace of a requested node.

    Raises:
        InvalidCommand: it is not discovered.
    """
    full = full_name(name)
    if not wait_for(lambda: full in node_names(node, hidden=True)):
        raise InvalidCommand(f"there is no node {full}.{did_you_mean(full, node_names(node))}")
    namespace, _, base = full.rpartition("/")
    return base, namespace or "/"


def print_names(found: Iterable[tuple[str, list[str]]], options: argparse.Namespace) -> None:
    """Print names, with their types if requested."""
    rows = sorted(found)
    if options.count:
        print(len(rows))
        return
    for name, types in rows:
        print(f"{name} [{', '.join(types)}]" if options.show_types else name)


class Verbs:
    """The verbs of a command.

    Args:
        parser: of the command.
    """

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parsers = parser.add_subparsers(metavar="VERB", required=True)

    def add(
        self, name: str, run: Run, text: str, *arguments: str, discovers: bool = False
    ) -> argparse.ArgumentParser:
        """Add a verb and return its parser, for further arguments.

        Args:
            name: of the verb.
            run: runs it with the parsed options; returns an exit code, None for 0.
            text: its help.
            arguments: names of required words.
            discovers: add the options of the discovery.
        """
        parser: argparse.ArgumentParser = self._parsers.add_parser(name, help=text)
        for argument in arguments:
            parser.add_argument(argument)
        if discovers:
            add_discovery(parser)
        parser.set_defaults(run=run)
        return parser

    def add_list(self, run: Run, what: str) -> None:
        """Add the verb ``list`` with the options that all lists share."""
        parser = self.add("list", run, f"list {what}", discovers=True)
        parser.add_argument("-t", "--show-types", action="store_true", help="also print the types")
        parser.add_argument("-c", "--count-" + what, dest="count", action="store_true",
                            help="print the number only")  # fmt: skip
        parser.add_argument("--include-hidden-" + what, dest="hidden", action="store_true")

    def add_type(self, types: Types, kind: str) -> None:
        """Add the verb ``type``, which prints the types of a name such as of a topic."""

        def run(options: argparse.Namespace) -> None:
            with participant() as node:
                print("\n".join(named(kind, getattr(options, kind), lambda: types(node))))

        self.add("type", run, f"print the type of {'an' if kind == 'action' else 'a'} {kind}", kind)

    def add_find(self, types: Types, kind: str) -> None:
        """Add the verb ``find``, which prints the names of a type."""

        def run(options: argparse.Namespace) -> None:
            found = discovered(types, options.spin_time).items()
            print("\n".join(sorted(name for name, kinds in found if options.type in kinds)))

        self.add("find", run, f"list the {kind}s of a type", "type", discovers=True)
