# SPDX-License-Identifier: Apache-2.0
"""Access to the page and its socket, by requests as of browsers and other clients."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

import pytest
import websockets
from websockets.asyncio.client import connect

from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import (
    ACTION_HEADER,
    ALIVE_PATH,
    RESUME_PATH,
    STOP_PATH,
    PageSettings,
)
from motion_nodes.extras.viewer.page_token import TOKEN_VARIABLE


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
