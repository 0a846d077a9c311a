# SPDX-License-Identifier: Apache-2.0
"""MCP server over standard input and output.

Functions run in threads, so a long motion delays neither queries nor a stop. A canceled request and
a disconnected client cancel the running motion.
"""

from __future__ import annotations

import contextlib
import functools
import json
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from motion_nodes import __version__
from motion_nodes.errors import MotionError
from motion_nodes.extras.agent_tools.agent_functions import AgentFunctions
from motion_nodes.extras.agent_tools.function_table import (
    INSTRUCTIONS,
    AgentFunction,
    object_schema,
)

MAX_CALLS = 20
"""Max number of concurrent calls."""
ALWAYS = ("stop", "cancel")
"""Functions that are accepted beyond :data:`MAX_CALLS`."""


def serve(functions: AgentFunctions) -> None:
    """Serve on standard input and output until the client disconnects."""
    anyio.run(_serve, functions)


async def _serve(functions: AgentFunctions) -> None:
    server = server_of(functions)
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        functions.abort("the client disconnected")


def server_of(functions: AgentFunctions) -> Server[Any]:
    """Return an MCP server of functions, for any transport."""
    busy: list[object] = []

    async def list_functions(_ctx: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[_description(function) for function in functions.functions.values()]
        )

    async def call(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if len(busy) >= MAX_CALLS and params.name not in ALWAYS:
            return _failure(f"{MAX_CALLS} calls are under way; wait for their results")
        busy.append(ctx)
        try:
            return await _call(functions, ctx, params)
        finally:
            busy.remove(ctx)

    return Server(
        "motion_nodes",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_functions,
        on_call_tool=call,
    )


async def _call(
    functions: AgentFunctions, ctx: Any, params: types.CallToolRequestParams
) -> types.CallToolResult:
    lines = 0

    def report(text: str) -> None:
        nonlocal lines
        lines += 1
        send = functools.partial(ctx.session.report_progress, float(lines), message=text)
        # A disconnected client must not interrupt bringing the robot to rest.
        with contextlib.suppress(Exception):
            anyio.from_thread.run(send)

    def work() -> types.CallToolResult:
        try:
            data = functions.call(params.name, params.arguments or {}, report)
        except MotionError as error:
            return _failure(str(error), getattr(error, "code", ""))
        text = types.TextContent(type="text", text=json.dumps(data))
        return types.CallToolResult(content=[text], structured_content=data)

    try:
        return await anyio.to_thread.run_sync(
            work, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
    except anyio.get_cancelled_exc_class():
        if params.name in functions.functions and functions.functions[params.name].moves:
            functions.abort("the client canceled its request")
        raise


def _failure(text: str, code: str = "") -> types.CallToolResult:
    content = [types.TextContent(type="text", text=text)]
    data = {"error": text, "code": code} if code else None
    return types.CallToolResult(content=content, structured_content=data, is_error=True)


def _description(function: AgentFunction) -> types.Tool:
    reads = function.name in ("robot_state", "named_states", "planning_scene")
    return types.Tool(
        name=function.name,
        description=function.doc,
        input_schema=object_schema(function.all_arguments),
        annotations=types.ToolAnnotations(read_only_hint=reads, destructive_hint=function.moves),
    )
