# SPDX-License-Identifier: Apache-2.0
"""Access control of the page: a token in its address, and WebSockets only from the page itself.

Neither other web sites open in the same browser nor other users of the computer may command the
robots. The address contains a token; opening it stores the token in a cookie that the browser sends
with every later request. Browsers report the site that opens a WebSocket (``Origin``); only the
page's own site is accepted. Without TLS the token can be read on the network (docs/security.md).
"""

from __future__ import annotations

import contextlib
import http
import http.cookies
import secrets
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import websockets.asyncio.server
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from motion_nodes.view.page_script import ACTION_HEADER, with_script

_COOKIE = "motion_nodes"
_NO_TOKEN = (
    "Access denied: this page controls robots. Open the address printed at startup "
    "(http://...?token=...); the token changes with each start.\n"
)
_FOREIGN_ORIGIN = "Access denied: only the page itself may open this WebSocket.\n"

Handler = Callable[[Any, Request], Response | None]


class PageAccess:
    """Accepts or rejects the requests of a page's server."""

    def __init__(
        self, token: str | None, actions: Mapping[str, Callable[[], object]] | None = None
    ) -> None:
        """Create the access control.

        Args:
            token: required of every request; None: not required.
            actions: called for requests of these paths that scripts of the page send; other sites
                cannot send their header.
        """
        self.token = token
        self._actions = dict(actions or {})

    def guard(self, handler: Handler | None) -> Handler:
        """Return a ``process_request`` handler that passes accepted requests on to ``handler``.

        Args:
            handler: of the server; None: accepted requests get the default response.
        """

        def process(connection: Any, request: Request) -> Response | None:
            rejection = self._rejection(request)
            if rejection is not None:
                return rejection
            action = self._actions.get(urllib.parse.urlsplit(request.path).path)
            if action is not None:
                if _header(request, ACTION_HEADER) != "1":
                    return _forbidden(_FOREIGN_ORIGIN)
                action()
                return _text(http.HTTPStatus.OK, "OK", "done\n")
            response = None if handler is None else handler(connection, request)
            if response is None:
                return None
            response = with_script(response)
            if self._in_address(request):
                response.headers["Set-Cookie"] = (
                    f"{self._cookie_name(request)}={self.token}; Path=/; HttpOnly; SameSite=Strict"
                )
                response.headers["Referrer-Policy"] = "no-referrer"
            return response

        return process

    def _rejection(self, request: Request) -> Response | None:
        host = _header(request, "Host")
        origin = _header(request, "Origin")
        if origin and urllib.parse.urlsplit(origin).netloc.lower() != host.lower():
            return _forbidden(_FOREIGN_ORIGIN)
        if self.token is None or self._in_address(request) or self._in_cookie(request):
            return None
        return _forbidden(_NO_TOKEN)

    def _in_address(self, request: Request) -> bool:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(request.path).query)
        return self._equal(query.get("token", [""])[0])

    def _in_cookie(self, request: Request) -> bool:
        cookies: http.cookies.SimpleCookie = http.cookies.SimpleCookie()
        with contextlib.suppress(http.cookies.CookieError):
            cookies.load(_header(request, "Cookie"))
        found = cookies.get(self._cookie_name(request))
        return found is not None and self._equal(found.value)

    def _equal(self, given: str) -> bool:
        return self.token is not None and secrets.compare_digest(
            given.encode(errors="replace"), self.token.encode()
        )

    @staticmethod
    def _cookie_name(request: Request) -> str:
        """Return a name that is unique to this server: all ports of a host share cookies."""
        port = _header(request, "Host").rpartition(":")[2]
        return f"{_COOKIE}_{port}" if port.isdecimal() else _COOKIE


@contextlib.contextmanager
def guarded_servers(access: PageAccess) -> Iterator[None]:
    """Add access control to all ``websockets`` servers started within the context.

    viser starts its own server and offers no option for this.

    Args:
        access: the access control to add.
    """
    module = websockets.asyncio.server
    serve = module.serve

    def guarded(*args: Any, process_request: Handler | None = None, **options: Any) -> Any:
        return serve(*args, process_request=access.guard(process_request), **options)

    module.serve = guarded  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        module.serve = serve  # type: ignore[misc]


def _header(request: Request, name: str) -> str:
    """Return a header's value; empty if it is absent or repeated."""
    values = request.headers.get_all(name)
    return values[0] if len(values) == 1 else ""


def _forbidden(text: str) -> Response:
    return _text(http.HTTPStatus.FORBIDDEN, "Forbidden", text)


def _text(status: http.HTTPStatus, reason: str, text: str) -> Response:
    body = text.encode()
    headers = Headers({"Content-Type": "text/plain", "Content-Length": str(len(body))})
    return Response(status, reason, headers, body)
