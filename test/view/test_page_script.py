# SPDX-License-Identifier: Apache-2.0
"""The script of the Esc key is in the page only, compressed or not."""

from __future__ import annotations

import gzip

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Response

from motion_nodes.extras.viewer.page_server import with_script

PAGE = b"<!doctype html><html><head><title>x</title></head><body></body></html>"


def response(body: bytes, kind: str, encoding: str) -> Response:
    headers = Headers({"Content-Type": kind, "Content-Length": str(len(body))})
    headers["Content-Encoding"] = encoding
    headers["Set-Cookie"] = "a=b"
    return Response(200, "OK", headers, body)


@pytest.mark.parametrize("compressed", [True, False])
def test_a_page_gets_the_script_once(compressed: bool) -> None:
    body = gzip.compress(PAGE) if compressed else PAGE
    found = with_script(response(body, "text/html", "gzip" if compressed else "identity"), "a & b")
    page = gzip.decompress(found.body) if compressed else bytes(found.body)
    assert page.count(b"<script>") == 1
    inserted = page[page.index(b"<style>") : page.index(b"<title>")]
    assert page.replace(inserted, b"") == PAGE.replace(b">x<", b">a &amp; b<")
    assert page.startswith(b"<!doctype html><html><head><style>")
    assert found.headers["Content-Length"] == str(len(found.body))
    assert found.headers["Set-Cookie"] == "a=b"


def test_other_files_stay_as_they_are() -> None:
    script = response(b"const head = '<head>';", "application/javascript", "identity")
    assert with_script(script) is script
