# SPDX-License-Identifier: Apache-2.0
"""A cable between two network interfaces, as a process: forwards, drops and delays frames.

The kernel's emulation (``tc netem``) is a module that many systems lack. Reads lines ``LOSS DELAY``
(share of frames, seconds), ``cut``, or ``unicast`` (no multicast from then on, as in many office
networks) from its standard input and ends with it.
"""

import contextlib
import heapq
import os
import random
import select
import socket
import sys
import time

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
ALL_PROTOCOLS = 3
LARGEST = 1 << 17
"""[byte] Of a frame with its header; the kernel joins datagrams into larger ones."""
BUFFER = 1 << 22
MULTICAST = b"\x01\x00\x5e"
"""How Ethernet addresses of IPv4 multicast begin."""
VNET_HEADER = 10
"""[byte] Of what precedes a frame."""


def open_end(interface: str) -> socket.socket:
    """Return a socket that receives and sends frames on an interface."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    # Frames between namespaces carry incomplete checksums, which only this header handles.
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    end.bind((interface, 0))
    end.setblocking(False)
    return end


class Cable:
    """Forwards in both directions."""

    def __init__(self, ends: tuple[str, str], seed: int) -> None:
        """Connect two interfaces."""
        first, second = (open_end(name) for name in ends)
        self._other = {first: second, second: first}
        self._rng = random.Random(seed)
        self._loss, self._delay = 0.0, 0.0
        self._multicast = True
        self._late: list[tuple[float, int, socket.socket, bytes]] = []
        self._count = 0

    def obey(self, line: str) -> None:
        """Execute a line of the input."""
        if line == "cut":
            self._loss = 1.0
        elif line == "unicast":
            self._multicast = False
        elif line:
            self._loss, self._delay = (float(word) for word in line.split())

    def run(self) -> None:
        """Forward until standard input ends."""
        unread = b""
        while True:
            wait = max(0.0, self._late[0][0] - time.monotonic()) if self._late else 1.0
            ready, _, _ = select.select([0, *self._other], [], [], wait)
            for source in ready:
                if source == 0:
                    part = os.read(0, 4096)
                    if not part:
                        return
                    *lines, unread = (unread + part).split(b"\n")
                    for line in lines:
                        self.obey(line.decode())
                else:
                    self._receive(source)
            now = time.monotonic()
            while self._late and self._late[0][0] <= now:
                _, _, end, frame = heapq.heappop(self._late)
                _send(end, frame)

    def _receive(self, source: socket.socket) -> None:
        target = self._other[source]
        with contextlib.suppress(BlockingIOError, OSError):
            for _ in range(64):
                frame = source.recv(LARGEST)
                if not self._multicast and frame.startswith(MULTICAST, VNET_HEADER):
                    continue
                if self._loss and self._rng.random() < self._loss:
                    continue
                if self._delay:
                    self._count += 1
                    due = time.monotonic() + self._delay * self._rng.uniform(0.5, 1.5)
                    heapq.heappush(self._late, (due, self._count, target, frame))
                else:
                    _send(target, frame)


def _send(end: socket.socket, frame: bytes) -> None:
    with contextlib.suppress(OSError):
        end.send(frame)


if __name__ == "__main__":
    Cable((sys.argv[1], sys.argv[2]), int(sys.argv[3])).run()
