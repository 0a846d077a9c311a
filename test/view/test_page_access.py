# SPDX-License-Identifier: Apache-2.0
"""Access to the page, its script, icons and port."""

import asyncio
import gzip
import socket
import urllib.error
import urllib.request
import zipfile
from contextlib import ExitStack

import pytest
import viser
import websockets
from raised_errors import about
from viser import _icons
from websockets.asyncio.client import connect
from websockets.datastructures import Headers
from websockets.http11 import Response

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.extras.viewer.browser import BrowserViewer, open_icons
from motion_nodes.extras.viewer.page_server import (
    ACTION_HEADER,
    ALIVE_PATH,
    RESUME_PATH,
    STOP_PATH,
    PageSettings,
    PortInUse,
    free_port,
    with_script,
)
from motion_nodes.extras.viewer.page_token import TOKEN_VARIABLE
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot


@pytest.fixture(scope="module")
def viewer():
    viewer = BrowserViewer([], PageSettings(0))
    yield viewer
    viewer.close()


def get(url: str, **headers: str) -> tuple[int, str, str]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers.get("Set-Cookie", ""), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, "", error.read().decode()


def test_scripts_of_the_page_alone_stop_and_resume():
    calls = []
    with BrowserViewer([], PageSettings(0), stops=True) as viewer:
        viewer.on_stop, viewer.on_resume = lambda: calls.append("stop"), lambda: calls.append("go")
        site, query = parts(viewer)
        own = {ACTION_HEADER: "1"}
        assert get(f"{site}{STOP_PATH}?{query}")[0] == 403
        assert get(f"{site}{STOP_PATH}", **own)[0] == 403
        assert get(f"{site}{STOP_PATH}?{query}", **own, Origin="http://other.org")[0] == 403
        assert calls == []
        assert get(f"{site}{STOP_PATH}?{query}", **own)[0] == 200
        assert get(f"{site}{RESUME_PATH}?{query}", **own)[0] == 200
        assert calls == ["stop", "go"]
    with BrowserViewer([], PageSettings(0)) as preview:
        site, query = parts(preview)
        assert get(f"{site}{STOP_PATH}?{query}", **own)[2] != "done\n"
        assert get(f"{site}{ALIVE_PATH}?{query}", **own)[2] == "done\n"


def opens(url: str, **headers: str) -> bool:
    async def attempt() -> bool:
        address = url.replace("http://", "ws://")
        try:
            async with connect(
                address, additional_headers=headers, subprotocols=["viser-v1.1.1"], open_timeout=10
            ):
                return True
        except websockets.exceptions.InvalidStatus as error:
            return error.response.status_code != 403

    return asyncio.run(attempt())


def parts(viewer: BrowserViewer) -> tuple[str, str]:
    site, _, query = viewer.url.partition("/?")
    return site, query


def test_the_address_opens_the_page_and_its_cookie_the_rest(viewer):
    site, _ = parts(viewer)
    status, cookie, body = get(viewer.url)
    assert status == 200
    assert "<html" in body.lower()
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    pair = cookie.partition(";")[0]
    assert get(site + "/", Cookie=pair)[0] == 200
    assert opens(site, Cookie=pair, Origin=site)


@pytest.mark.parametrize(
    "query", ["", "?token=", "?token=guess", "?token=%00%ff", "?token=a&token=b", "?other=1"]
)
def test_without_the_token_nothing_is_served(viewer, query):
    site, _ = parts(viewer)
    status, cookie, body = get(f"{site}/{query}")
    assert (status, cookie) == (403, "")
    assert "token" in body
    assert not opens(f"{site}/{query}")
    assert not opens(site, Cookie="motion_nodes=1; motion_nodes_" + site.rpartition(":")[2] + "=x")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:1", "http://localhost"]
)
def test_other_sites_open_no_socket_even_with_the_token(viewer, origin):
    assert not opens(viewer.url, Origin=origin)


def test_programs_without_a_browser_bring_the_token(viewer):
    assert opens(viewer.url)


def test_the_token_may_be_chosen_or_left_out(monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "chosen")
    viewer = BrowserViewer([], PageSettings(0))
    try:
        assert viewer.url.endswith("/?token=chosen")
    finally:
        viewer.close()
    viewer = BrowserViewer([], PageSettings(0, require_token=False))
    try:
        assert "token" not in viewer.url
        assert get(viewer.url)[0] == 200
        assert opens(viewer.url)
        assert not opens(viewer.url, Origin="http://evil.example")
    finally:
        viewer.close()


def test_other_servers_of_the_process_are_not_touched():
    before = websockets.asyncio.server.serve
    BrowserViewer([], PageSettings(0)).close()
    assert websockets.asyncio.server.serve is before


PAGE = b"<!doctype html><html><head><title>x</title></head><body></body></html>"


def response(body: bytes, kind: str, encoding: str) -> Response:
    headers = Headers({"Content-Type": kind, "Content-Length": str(len(body))})
    headers["Content-Encoding"] = encoding
    headers["Set-Cookie"] = "a=b"
    return Response(200, "OK", headers, body)


@pytest.mark.parametrize("compressed", [True, False])
def test_a_page_gets_the_script_once(compressed):
    body = gzip.compress(PAGE) if compressed else PAGE
    found = with_script(response(body, "text/html", "gzip" if compressed else "identity"), "a & b")
    page = gzip.decompress(found.body) if compressed else bytes(found.body)
    assert page.count(b"<script>") == 1
    inserted = page[page.index(b"<style>") : page.index(b"<title>")]
    assert page.replace(inserted, b"") == PAGE.replace(b">x<", b">a &amp; b<")
    assert page.startswith(b"<!doctype html><html><head><style>")
    assert found.headers["Content-Length"] == str(len(found.body))
    assert found.headers["Set-Cookie"] == "a=b"


def test_other_files_stay_as_they_are():
    script = response(b"const head = '<head>';", "application/javascript", "identity")
    assert with_script(script) is script


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


def test_icons_are_the_same_and_the_archive_is_closed_afterwards():
    names = (viser.Icon.HAND_STOP, viser.Icon.TARGET)
    expected = [_icons.svg_from_icon(name) for name in names]
    _icons.svg_from_icon.cache_clear()
    with open_icons():
        assert [_icons.svg_from_icon(name) for name in names] == expected
    assert _icons.zipfile is zipfile
    _icons.svg_from_icon.cache_clear()
    assert _icons.svg_from_icon(names[0]) == expected[0]
