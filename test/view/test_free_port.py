# SPDX-License-Identifier: Apache-2.0
"""Ports in use, and hosts that do not exist."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import ExitStack

import pytest
from raised_errors import about

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.extras.viewer.page_server import PageSettings, PortInUse, free_port
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

HOST = "127.0.0.1"


def listen(port=0):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((HOST, port))
    server.listen(1)
    return server


def block_of_free_ports(count):
    """Return the first of ``count`` consecutive free ports."""
    for start in range(21000, 60000, 97):
        with ExitStack() as stack:
            try:
                for port in range(start, start + count):
                    stack.enter_context(listen(port))
            except OSError:
                continue
            return start
    raise AssertionError("no free ports")


def test_free_port_is_taken_as_given():
    port = block_of_free_ports(1)
    assert free_port(HOST, port, 0) == port
    # The port is not kept open.
    assert free_port(HOST, port, 0) == port


def test_next_free_port_is_found():
    port = block_of_free_ports(4)
    with listen(port), listen(port + 1):
        assert free_port(HOST, port, 10) == port + 2


def test_all_ports_taken_is_one_clear_sentence():
    port = block_of_free_ports(2)
    with listen(port), listen(port + 1):
        for search, ports in ((0, f"{port}"), (1, f"{port} to {port + 1}")):
            # Commands print errors of this class without a traceback.
            with pytest.raises(MotionError, match=ports) as caught:
                free_port(HOST, port, search)
            assert type(caught.value) is PortInUse
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "port", "search", "text"),
    [
        (HOST, -1, 0, "port"),
        (HOST, 70000, 0, "port"),
        (HOST, 8080, -1, "port_search"),
        ("203.0.113.7", 8080, 0, "host"),
        ("no such host", 8080, 0, "host"),
    ],
)
def test_settings_that_cannot_work(host, port, search, text):
    with pytest.raises(InvalidConfig, check=about(text)):
        free_port(host, port, search)


def test_second_viewer_takes_the_next_port_and_both_serve(open_viewer, toy):
    port = block_of_free_ports(3)
    first = open_viewer(ViewedRobot(toy), page=PageSettings(port))
    second = open_viewer(ViewedRobot(toy), page=PageSettings(port))
    assert first.url.startswith(f"http://{HOST}:{port}/?token=")
    assert second.url.startswith(f"http://{HOST}:{port + 1}/?token=")
    for viewer in (first, second):
        with urllib.request.urlopen(viewer.url, timeout=10) as answer:
            assert b"<title>" in answer.read()


def test_viewer_without_search_says_that_the_port_is_in_use(open_viewer, toy):
    with listen() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"port {port}"):
            open_viewer(ViewedRobot(toy), page=PageSettings(port, port_search=0))


def test_port_is_free_again_after_close(open_viewer, toy):
    port = block_of_free_ports(1)
    for _ in range(3):
        viewer = open_viewer(ViewedRobot(toy), page=PageSettings(port, port_search=0))
        viewer.close()
    assert free_port(HOST, port, 0) == port
