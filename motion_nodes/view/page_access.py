# SPDX-License-Identifier: Apache-2.0
"""Access control of the page: a token in its address, and sockets only from the page itself.

A page that drives robots must not be driven by other web sites that are open in the same browser,
nor by other users of the computer. The address holds a token; opening it stores the token in a
cookie, which every later request brings along. Browsers state with each WebSocket which site opened
it (``Origin``); only the page's own is accepted. Without TLS the token can be read on the network
(docs/security.md).
"""

from __future__ import annotations

import contextlib
import http
import http.cookies
import secrets
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import websockets.asyncio.server
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

_COOKIE = "motion_nodes"
_CLOSED = (
    "This page moves robots. Open the address that was printed when it started "
    "(http://...?token=...); each start of the suite has another token.\n"
)
_FOREIGN = "This socket may only be opened by the page itself.\n"

Handler = Callable[[Any, Request], Response | None]


class PageAccess:
    """Decides which requests a page's server answers."""

    def __init__(self, token: str | None) -> None:
        """Create the access control.

        Args:
            token: that requests must bring; None accepts requests without one.
        """
        self.token = token

    def guard(self, handler: Handler | None) -> Handler:
        """Return a handler of ``websockets`` that passes accepted requests on to ``handler``."""

        def process(connection: Any, request: Request) -> Response | None:
            refused = self._refuse(request)
            if refused is not None:
                return refused
            response = None if handler is None else handler(connection, request)
            if response is not None and self._in_address(request):
                response.headers["Set-Cookie"] = (
                    f"{self._cookie_name(request)}={self.token}; Path=/; HttpOnly; SameSite=Strict"
                )
                response.headers["Referrer-Policy"] = "no-referrer"
            return response

        return process

    def _refuse(self, request: Request) -> Response | None:
        host = _header(request, "Host")
        origin = _header(request, "Origin")
        if origin and urllib.parse.urlsplit(origin).netloc.lower() != host.lower():
            return _answer(_FOREIGN)
        if self.token is None or self._in_address(request) or self._in_cookie(request):
            return None
        return _answer(_CLOSED)

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
        """Return a name of this server's own: cookies are shared by all ports of a host."""
        port = _header(request, "Host").rpartition(":")[2]
        return f"{_COOKIE}_{port}" if port.isdecimal() else _COOKIE


@contextlib.contextmanager
def guarded_servers(access: PageAccess) -> Iterator[None]:
    """Put access control before servers of ``websockets`` that are started meanwhile.

    viser starts its own and has no option for it.
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
    """Return a header's value, empty where there is none or there are several."""
    values = request.headers.get_all(name)
    return values[0] if len(values) == 1 else ""


def _answer(text: str) -> Response:
    body = text.encode()
    headers = Headers({"Content-Type": "text/plain", "Content-Length": str(len(body))})
    return Response(http.HTTPStatus.FORBIDDEN, "Forbidden", headers, body)
