# SPDX-License-Identifier: Apache-2.0
"""The web server of the page: port, access control, theme; prints nothing to the console.

Access needs a token in the page's address, and WebSockets come only from the page itself. Neither
other web sites open in the same browser nor other users of the computer may command the robots. The
address contains a token; opening it stores the token in a cookie that the browser sends with every
later request. Browsers report the site that opens a WebSocket (``Origin``); only the page's own
site is accepted. Without TLS the token can be read on the network (docs/security.md).

The TCP port is chosen here: viser itself would try a thousand ports without a message, and block
forever if the host cannot be bound.

A script of the page adds Esc in input fields, arrow keys, hold and release of sliders, and notices:
viser ignores hotkeys in input fields, which keep the focus after input; does not distinguish slider
drags from number input; keeps the last state on the page after the suite has ended; and shows no
panel without WebGL, so the WebGL notice contains the buttons to stop and to resume. Its notice on
software rendering stays over the scene and takes its clicks; here notices let the pointer through,
and that one closes by itself and is shown once per browser.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gzip
import html
import http
import http.cookies
import logging
import math
import re
import secrets
import socket
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import rich
import viser
import websockets.asyncio.server
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.extras.viewer import drive_panel
from motion_nodes.extras.viewer.page_token import page_token
from motion_nodes.extras.viewer.scene_setup import PHONE_WIDTH, SHEET

_LOGGER = logging.getLogger("motion_nodes.page")
# Browsers open connections in advance and drop them; that is no error, and no traceback.
_LOGGER.addFilter(lambda record: "opening handshake failed" not in record.getMessage())
_TAKEN = (errno.EADDRINUSE, errno.EACCES)
STOP_PATH, RESUME_PATH = "/motion_nodes/stop", "/motion_nodes/resume"
"""Paths that stop all robots and accept commands again."""
HOLD_PATH, RELEASE_PATH = "/motion_nodes/hold_slider", "/motion_nodes/release_slider"
"""Paths that report a slider that is held, twice a second, and its release."""
ALIVE_PATH = "/motion_nodes/alive"
"""Path that the page polls every few seconds to detect the end of the suite."""
ACTION_HEADER = "X-Motion-Nodes"
"""Header of requests for them: browsers send it across sites only if the server allows it."""
_HEAD = b"<head>"
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32' fill='none' "
    "stroke='%23228be6' stroke-width='4' stroke-linecap='round'%3E%3Cpath d='M4 29h14M11 29V19L20 7"
    "l8 6'/%3E%3Ccircle cx='11' cy='19' r='2'/%3E%3Ccircle cx='20' cy='7' r='2'/%3E%3C/svg%3E"
)
_SCRIPT = """<style>
.mantine-Notification-root { pointer-events: none; }
.mantine-Notification-root button { pointer-events: auto; }
.mantine-Paper-root[data-with-border]:has(> .mantine-Paper-root:first-child) {
  border-width: 1px 0 0; border-radius: 0; }
@media (max-width: PHONE_WIDTHpx) {
  .mantine-Paper-root[style*="min-height: 3.5em"] {
    width: 100% !important; max-height: SHEET% !important; }
  .mantine-Paper-root[style*="min-height: 3.5em"] [style*="width: 20em"] {
    width: 100% !important; }
}
</style><script>
new MutationObserver(() => {
  for (const notice of document.querySelectorAll(".mantine-Notification-root:not([data-met])")) {
    notice.dataset.met = "1";
    if (!notice.textContent.startsWith("Software WebGL")) continue;
    const seen = localStorage.getItem("software-webgl");
    localStorage.setItem("software-webgl", "1");
    setTimeout(() => notice.querySelector("button")?.click(), seen ? 0 : 8000);
  }
}).observe(document, {childList: true, subtree: true});
addEventListener("keydown", (event) => {
  const field = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key !== "Escape" || !event.isTrusted || !field) return;
  field.blur();
  const again = new KeyboardEvent("keydown", {key: "Escape", code: "Escape", bubbles: true});
  document.body.dispatchEvent(again);
}, true);
ARROW_KEYS
const report = (path) => fetch(path, {headers: {"ACTION_HEADER": "1"}}).catch(() => null);
let held = 0;
addEventListener("pointerdown", (event) => {
  if (!event.target.closest?.("[class*='Slider-root']")) return;
  clearInterval(held);
  report("HOLD_PATH");
  held = setInterval(report, 500, "HOLD_PATH");
}, true);
const released = () => {
  if (!held) return;
  clearInterval(held);
  held = 0;
  // The last value of the slider may arrive later, by some 10 ms.
  setTimeout(() => held || report("RELEASE_PATH"), 200);
};
addEventListener("pointerup", released, true);
addEventListener("pointercancel", released, true);
addEventListener("blur", released);
addEventListener("DOMContentLoaded", () => {
  const lost = document.createElement("div");
  lost.id = "no-connection";
  lost.hidden = true;
  lost.style = "position: fixed; inset: 0 0 auto 0; z-index: 9998; padding: 0.7em; " +
    "background: #ffd8d8; color: #222; font: 16px sans-serif";
  lost.append("No connection to the suite: the state shown is outdated. " +
    "After a restart, open the address that it prints.");
  document.body.append(lost);
  setInterval(async () => { lost.hidden = Boolean((await report("ALIVE_PATH"))?.ok); }, 3000);
  const canvas = document.createElement("canvas");
  if (canvas.getContext("webgl2") || canvas.getContext("webgl")) return;
  const notice = document.createElement("div");
  notice.id = "no-webgl";
  notice.style = "position: fixed; inset: 0 0 auto 0; z-index: 9999; padding: 1em; " +
    "background: #fff3cd; color: #222; font: 16px sans-serif";
  notice.append("This browser has no WebGL, which the page needs to draw robots and panel. " +
    "Enable hardware acceleration, or use another browser. ");
  const button = (label, path) => {
    const made = document.createElement("button");
    made.textContent = label;
    made.style = "margin-right: 1em; padding: 0.5em 1em";
    made.onclick = async () => {
      const answer = await report(path);
      state.textContent = answer?.ok ? label + ": sent" : label + ": no connection to the robots";
    };
    notice.append(made);
  };
  const state = document.createElement("span");
  button("Stop all robots", "STOP_PATH");
  button("Resume", "RESUME_PATH");
  notice.append(state);
  document.body.append(notice);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") notice.querySelector("button").click();
  });
});
</script>"""
_INSERTED = {
    "ARROW_KEYS": drive_panel.SCRIPT.strip(),
    "ACTION_HEADER": ACTION_HEADER,
    "STOP_PATH": STOP_PATH,
    "RESUME_PATH": RESUME_PATH,
    "HOLD_PATH": HOLD_PATH,
    "RELEASE_PATH": RELEASE_PATH,
    "ALIVE_PATH": ALIVE_PATH,
    "PHONE_WIDTH": f"{PHONE_WIDTH:.0f}",
    "SHEET": f"{100.0 * SHEET:.0f}",
}
_COOKIE = "motion_nodes"
_NO_TOKEN = (
    "Access denied: this page controls robots. Open the address printed at startup "
    "(http://...?token=...); the token changes with each start.\n"
)
_FOREIGN_ORIGIN = "Access denied: only the page itself may open this WebSocket.\n"
Handler = Callable[[Any, Request], Response | None]


class PortInUse(MotionError, OSError):
    """No port is free."""


def free_port(host: str, port: int, search: int) -> int:
    """Return the first free port.

    Args:
        host: address to listen on.
        port: first port to try; 0: chosen by the system.
        search: number of further ports to try.

    Raises:
        InvalidConfig: the port or search is out of range, or the host cannot be bound.
        PortInUse: all ports are in use.
    """
    if not 0 <= port <= 65535:
        raise InvalidConfig(
            f"port is {port}; it must be 0 (any free port) or 1 to 65535.", field="port"
        )
    if search < 0:
        raise InvalidConfig(f"port_search is {search}; it must be 0 or more.", field="port_search")
    last = min(port + search, 65535) if port else 0
    for candidate in range(port, last + 1):
        bound = _bind(host, candidate)
        if bound is not None:
            return bound
    tried = f"port {port} is" if last == port else f"ports {port} to {last} are"
    raise PortInUse(
        f"Cannot open the viewer's page: {tried} in use on {host}. Stop the program that listens "
        "there (perhaps another viewer), or choose another port; 0 selects any free port."
    )


def _bind(host: str, port: int) -> int | None:
    """Return the port if it can be bound, None if it is in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            # As asyncio does, so that a recently closed viewer does not block the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
            return int(probe.getsockname()[1])
    except OSError as error:
        if error.errno in _TAKEN:
            return None
        raise InvalidConfig(
            f"Cannot listen on host '{host}' ({error}). Use 127.0.0.1 for this machine only, or "
            "0.0.0.0 for all network interfaces.",
            field="host",
        ) from None


for _word, _script_text in _INSERTED.items():
    _SCRIPT = _SCRIPT.replace(_word, _script_text)


def with_script(response: Response, title: str = "motion_nodes") -> Response:
    """Return the response with the script, title and icon, if it is an HTML page with a head."""
    if not response.headers.get("Content-Type", "").startswith("text/html"):
        return response
    compressed = response.headers.get("Content-Encoding") == "gzip"
    body = _inserted(bytes(response.body), compressed, title)
    headers = Headers(
        (name, value)
        for name, value in response.headers.raw_items()
        if name.lower() != "content-length"
    )
    headers["Content-Length"] = str(len(body))
    return Response(response.status_code, response.reason_phrase, headers, body)


@functools.lru_cache(maxsize=4)  # the page has some megabytes
def _inserted(body: bytes, compressed: bool, title: str) -> bytes:
    page = gzip.decompress(body) if compressed else body
    head, end, rest = page.partition(b"</head>")
    head = re.sub(rb"<title>.*?</title>", f"<title>{html.escape(title)}</title>".encode(), head)
    head = re.sub(rb'(rel="icon"\s+href=)"[^"]*"', rb'\1"' + _ICON.encode() + b'"', head)
    page = head + end + rest
    page = page.replace(_HEAD, _HEAD + _SCRIPT.encode(), 1)
    return gzip.compress(page, compresslevel=6) if compressed else page


class PageAccess:
    """Accepts or rejects the requests of a page's server."""

    def __init__(
        self,
        token: str | None,
        actions: Mapping[str, Callable[[], object]] | None = None,
        title: str = "motion_nodes",
    ) -> None:
        """Create the access control.

        Args:
            token: required of every request; None: not required.
            actions: called for requests of these paths that scripts of the page send; other sites
                cannot send their header.
            title: of the browser's tab.
        """
        self.token, self._title = token, title
        self._actions = {ALIVE_PATH: lambda: None, **(actions or {})}

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
            response = with_script(response, self._title)
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
def _guarded_servers(access: PageAccess) -> Iterator[None]:
    """Guard all ``websockets`` servers started within the context: viser has no option for it."""
    module = websockets.asyncio.server
    serve = module.serve

    def guarded(*args: Any, process_request: Handler | None = None, **options: Any) -> Any:
        options.setdefault("logger", _LOGGER)
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


@contextlib.contextmanager
def quiet_viser() -> Iterator[None]:
    """Suppress viser's console output; the program prints the address itself."""
    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before


@dataclass(frozen=True)
class PageSettings:
    """Where a page is served, and how it looks."""

    port: int = 8080
    """TCP port; 0: any free port."""
    host: str = "127.0.0.1"
    """Address to listen on; ``0.0.0.0``: all network interfaces."""
    port_search: int = 10
    """Number of further ports to try if ``port`` is in use."""
    title: str = "motion_nodes"
    """Title of the panel."""
    rate: float = 30.0
    """Max number of scene updates per second [Hz]."""
    dark: bool = False
    """Use the dark theme."""
    shadows: bool = True
    """Enable shadows and reflections; turn off on machines without a graphics card."""
    require_token: bool = True
    """Serve only requests with the token of the page's address."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate) and 0.0 < self.rate <= 240.0):
            raise InvalidConfig(
                f"rate is {self.rate} Hz; it must be above 0 and at most 240.", field="rate"
            )


def set_theme(server: viser.ViserServer, dark: bool) -> None:
    """Apply the dark or light theme to all pages of a server."""
    # No share button: it would make the robots controllable from the internet.
    server.gui.configure_theme(
        dark_mode=dark, show_logo=False, show_share_button=False, control_width="large"
    )


class ServedPage:
    """A page that viser serves on a free port; a context manager.

    Args:
        page: address and look.
        actions: called for requests of these paths, see :class:`.PageAccess`.

    Raises:
        InvalidConfig: the host or port cannot be used.
        PortInUse: no port is free.
    """

    def __init__(
        self, page: PageSettings, actions: Mapping[str, Callable[[], object]] | None = None
    ) -> None:
        host, port, last = page.host, page.port, page.port + page.port_search
        chosen = free_port(host, port, page.port_search)
        self._token = page_token() if page.require_token else None
        with quiet_viser(), _guarded_servers(PageAccess(self._token, actions, page.title)):
            self._server = viser.ViserServer(
                host=host, port=chosen, label=page.title, verbose=False
            )
        taken = self._server.get_port()
        if taken != chosen and port and not port <= taken <= last:
            # Another program bound the port after the check, and viser chose a different one.
            ServedPage.close(self)
            raise PortInUse(
                f"Port {chosen} on {host} was bound by another program; start the viewer again."
            )
        set_theme(self._server, page.dark)

    @property
    def url(self) -> str:
        """Address of the page, with the actual port and the token."""
        host = self._server.get_host()
        if host in ("", "0.0.0.0", "::"):
            host = "localhost"
        host = f"[{host}]" if ":" in host else host
        address = f"http://{host}:{self._server.get_port()}"
        return address if self._token is None else f"{address}/?token={self._token}"

    def close(self) -> None:
        """Stop the server and release its port."""
        with quiet_viser():
            self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
