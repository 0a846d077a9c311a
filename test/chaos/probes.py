# SPDX-License-Identifier: Apache-2.0
"""Requests lifecycle states of nodes, and measures response times."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lifecycle_msgs.srv import GetState
from ros_client import RosClient

INTERVAL = 0.1
"""[s] Between two probes."""
GAP = 0.3
"""[s] Between two looks for answers, which come each 0.02 s unless this process does not run."""
RENEW = 2.0
"""[s] While a suite comes up, a request without an answer is sent again after so long."""


@dataclass
class _Asked:
    future: Any
    at: float


class Probes:
    """Probes the nodes of a suite."""

    def __init__(
        self, client: RosClient, nodes: Mapping[str, Sequence[str]], longest_wait: float
    ) -> None:
        """Prepare.

        Args:
            client: node of the test.
            nodes: names of nodes by process.
            longest_wait: timeout of a response [s].
        """
        self._client, self._nodes, self._longest = client, nodes, longest_wait
        self._clients = {
            node: client.node.create_client(GetState, f"{node}/get_state")
            for members in nodes.values() for node in members
        }  # fmt: skip
        self.worst = (0.0, "")
        """Longest wait for an answer in time [s], and for whose."""
        self._asked: dict[str, _Asked] = {}
        self._turn = 0

    def begin(self, patience: float = 1.0) -> None:
        """Begin without requests; ``patience`` is a factor of the timeout."""
        for node, asked in self._asked.items():
            self._clients[node].remove_pending_request(asked.future)
        self._asked.clear()
        self._late: dict[str, float] = {}
        self._limit = patience * self._longest
        self._due = 0.0
        self._received = time.monotonic()

    def poll(self, processes: Iterable[str]) -> None:
        """Receive responses, and send a request to one more node of these processes when due."""
        now = time.monotonic()
        self._receive(now)
        if now < self._due:
            return
        self._due = now + INTERVAL
        nodes = [node for process in sorted(processes) for node in self._nodes[process]]
        if not nodes:
            return
        self._turn += 1
        node = nodes[self._turn % len(nodes)]
        if node not in self._asked and self._clients[node].service_is_ready():
            self._asked[node] = _Asked(self._clients[node].call_async(GetState.Request()), now)

    def failures(self) -> list[str]:
        """Wait for pending responses; return a text for each late or missing one."""
        end = time.monotonic() + 5.0 * self._limit
        while self._asked and time.monotonic() < end:
            self._client.spin(0.02)
            self._receive(time.monotonic())
        texts = [f"{node} answered after {waited:.2f} s" for node, waited in self._late.items()]
        texts += [f"{node} did not answer" for node in self._asked]
        self.begin()
        return texts

    def wait_until_active(self, patience: float) -> dict[str, str]:
        """Wait until all nodes are active; return the states of those that are not."""
        self.begin()
        end = time.monotonic() + patience
        missing = dict.fromkeys(self._clients, "no answer")
        while missing and time.monotonic() < end:
            for node in list(missing):
                state = self._state(node)
                if state == "active":
                    del missing[node]
                elif state:
                    missing[node] = state
            self._client.spin(0.05)
        self.begin()
        return missing

    def _state(self, node: str) -> str:
        """Return a new state of a node, or an empty text before its response."""
        asked = self._asked.get(node)
        if asked is not None and asked.future.done():
            del self._asked[node]
            answer = asked.future.result()
            return "" if answer is None else str(answer.current_state.label)
        if asked is not None and time.monotonic() - asked.at > RENEW:
            self._clients[node].remove_pending_request(asked.future)
            del self._asked[node]
        if node not in self._asked and self._clients[node].service_is_ready():
            future = self._clients[node].call_async(GetState.Request())
            self._asked[node] = _Asked(future, time.monotonic())
        return ""

    def _receive(self, now: float) -> None:
        """Receive responses; time in which this process itself did not run does not count."""
        gap, self._received = now - self._received, now
        if gap > GAP:
            for asked in self._asked.values():
                asked.at += gap
        for node, asked in list(self._asked.items()):
            waited = now - asked.at
            if asked.future.done():
                del self._asked[node]
                self.worst = max(self.worst, (waited, node))
                if waited > self._limit:
                    self._late[node] = waited
