# SPDX-License-Identifier: Apache-2.0
"""Tasks in a real browser: typed or chosen, watched and stopped."""

import pytest
from browser.chromium import PAGE_LIMIT, wait_for

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.tasks.task_plan import TaskProgress, parse_plan
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.ui_commands import TaskCommand
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

pytestmark = pytest.mark.timeout(900)
PLAN = parse_plan(
    [
        {"skill": "pick", "args": {"object": "red_cube"}},
        {"skill": "place", "args": {"object": "red_cube", "location": "tray"}},
    ]
)
IDLE = TaskProgress(objects=("red_cube", "tray"))


@pytest.fixture(scope="module")
def viewer(page):
    robots = [ViewedRobot.of(load_robot("franka"), in_suite=True)]
    with BrowserViewer(robots, PageSettings(port=0, shadows=False)) as opened:
        page.open(opened.url)
        wait_for(lambda: opened.client_count == 1, "the page is connected")
        yield opened


@pytest.fixture
def sent(viewer):
    """Commands that the page sends during one test."""
    commands: list[TaskCommand] = []
    viewer.on_task = lambda _, command: commands.append(command)
    viewer.robot("franka").update_task(IDLE)
    return commands


def test_a_sentence_is_typed_executed_watched_and_stopped(page, viewer, sent):
    page.tab("Tasks")
    page.wait_for_text("Execute task", PAGE_LIMIT)
    page.type_text("Sentence", "put the red cube into the tray")
    sentence = viewer._robots["franka"].tasks.sentence
    wait_for(lambda: str(sentence.value).endswith("tray"), "the sentence is typed")
    page.click("Execute task")
    wait_for(lambda: sent, "the task is sent")
    assert sent == [TaskCommand("execute", "put the red cube into the tray")]
    running = TaskProgress(sent[0].task, "running", plan=PLAN, step=1, phase="let down",
                           objects=IDLE.objects, held="red_cube")  # fmt: skip
    viewer.robot("franka").update_task(running)
    page.wait_for_text("place(red_cube, tray): let down", PAGE_LIMIT)
    assert "pick(red_cube): done" in page.text()
    page.click("Stop task")
    wait_for(lambda: sent[-1].verb == "stop", "the stop is sent")
