# SPDX-License-Identifier: Apache-2.0
"""The MCP server with a real client in memory: lists, results, errors, stops and cancellations."""

import threading
from typing import Any

import anyio
import pytest
from agent_tools.test_agent_functions import ROBOT, FakeLink
from mcp import Client

from motion_nodes.extras.agent_tools.agent_functions import AgentFunctions
from motion_nodes.extras.agent_tools.function_table import FUNCTIONS
from motion_nodes.extras.agent_tools.mcp_server import MAX_CALLS, server_of


@pytest.fixture
def link():
    return FakeLink()


@pytest.fixture
def functions(link):
    return AgentFunctions(ROBOT, link)


def test_functions_are_listed_called_and_refused(functions):
    async def session() -> None:
        async with Client(server_of(functions)) as client:
            listed = (await client.list_tools()).tools
            assert {tool.name for tool in listed} == set(FUNCTIONS)
            moving = {tool.name for tool in listed if tool.annotations.destructive_hint}
            assert moving == {f.name for f in FUNCTIONS.values() if f.moves}
            state = await client.call_tool("robot_state", {})
            assert state.structured_content["robot"] == "franka"
            for name, given in (("move_to_state", {"state": "redy"}), ("fly", {})):
                refused = await client.call_tool(name, given)
                assert refused.is_error
                assert refused.content[0].text

    anyio.run(session)


def test_a_stop_is_answered_while_all_other_calls_wait(functions, link):
    release = threading.Event()
    link.positions = lambda: release.wait(30.0) and {}  # type: ignore[assignment,return-value]

    async def session() -> None:
        async with Client(server_of(functions)) as client:
            async with anyio.create_task_group() as waiting:
                for _ in range(MAX_CALLS):
                    waiting.start_soon(client.call_tool, "robot_state", {})
                await anyio.wait_all_tasks_blocked()
                with anyio.fail_after(20.0):
                    busy = await client.call_tool("planning_scene", {})
                    stopped = await client.call_tool("stop", {})
                release.set()
            assert busy.is_error
            assert stopped.structured_content["stopped"] == ["at rest"]

    anyio.run(session)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_canceled_request_cancels_its_motion(functions, link, leaves):
    async def session() -> None:
        async with Client(server_of(functions)) as client:
            given: dict[str, Any] = {"state": "ready"}
            dry = (await client.call_tool("move_to_state", given)).structured_content
            link.finish.clear()
            given |= {"dry_run": False, "token": dry["token"]}
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.call_tool, "move_to_state", given)
                    await anyio.to_thread.run_sync(link.begun.wait, 10.0)
                    scope.cancel()
            if not leaves:
                await anyio.to_thread.run_sync(link.finish.wait, 10.0)

    anyio.run(session)
    assert link.finish.wait(10.0)
    assert link.done == ["canceled"]
