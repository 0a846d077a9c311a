# SPDX-License-Identifier: Apache-2.0
"""The tab of tasks, without a page: sent commands, and the displayed status of a task server."""

import json

import pytest
from view.test_browser_viewer import Record, as_page, refresh

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.tasks.task_plan import InvalidPlan, TaskProgress, parse_plan
from motion_nodes.extras.viewer.suite_panels import SENTENCE, shown
from motion_nodes.extras.viewer.ui_commands import TaskCommand
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

PLAN = [
    {"skill": "pick", "args": {"object": "cube"}},
    {"skill": "place", "args": {"object": "cube", "location": "tray"}},
]
RUNNING = {
    "task": "put the cube into the tray", "number": 1, "state": "running", "reason": "",
    "plan": PLAN, "step": 1, "phase": "let down", "events": ["pick(cube) done"],
    "objects": ["cube", "tray"], "held": "cube",
}  # fmt: skip


def progress(**changed):
    return TaskProgress.of(json.dumps(RUNNING | changed))


@pytest.fixture
def viewer(open_viewer):
    return open_viewer(ViewedRobot.of(load_robot("franka"), in_suite=True))


@pytest.fixture
def sent(viewer):
    record = viewer.on_task = Record()
    return record


def panel(viewer):
    return viewer._robots["franka"].tasks


def show(viewer, **changed):
    viewer.robot("franka").update_task(progress(**changed))
    refresh(viewer)


def press(viewer, button):
    as_page(viewer, panel(viewer).verbs, value=button)


def choose(viewer, skill, **args):
    as_page(viewer, panel(viewer).choice, value=skill)
    for name, value in args.items():
        as_page(viewer, panel(viewer).arguments[name], value=value)


def test_sentences_are_planned_executed_and_stopped(viewer, sent):
    press(viewer, "Execute task")
    refresh(viewer)
    assert "Type a task" in panel(viewer).status.content
    as_page(viewer, panel(viewer).sentence, value=" pick up the cube ")
    for button in ("Plan task", "Execute task", "Stop task"):
        press(viewer, button)
    sent.wait_for(lambda calls: len(calls) == 3)
    assert [call[1] for call in sent.calls] == [
        TaskCommand("plan", "pick up the cube"),
        TaskCommand("execute", "pick up the cube"),
        TaskCommand("stop"),
    ]


@pytest.mark.parametrize(("held", "skills"), [(None, ["pick", "place"]), ("cube", ["place"])])
def test_skills_become_plans_with_what_they_need(viewer, sent, held, skills):
    show(viewer, state="succeeded", held=held)
    choose(viewer, "place", object="cube", location="tray")
    press(viewer, "Execute task")
    sent.wait_for(lambda calls: len(calls) == 1)
    plan = parse_plan(sent.calls[0][1].task)
    assert [step.skill for step in plan] == skills
    assert plan[-1].args == {"object": "cube", "location": "tray"}


def test_arguments_are_those_of_the_skill_and_objects_those_of_the_scene(viewer):
    show(viewer)
    choose(viewer, "push")
    fields = panel(viewer).arguments
    assert {name for name, field in fields.items() if field.visible} == {"object", "direction"}
    assert not panel(viewer).sentence.visible
    assert tuple(fields["object"].options) == ("cube", "tray")
    as_page(viewer, fields["object"], value="tray")
    show(viewer, objects=["ball", "cube", "tray"])
    assert fields["object"].value == "tray", "the selection is kept"
    choose(viewer, SENTENCE)
    assert not any(field.visible for field in fields.values())
    assert panel(viewer).sentence.visible


def test_clicked_objects_are_arguments(viewer, sent):
    def click(*names):
        for name in names:
            panel(viewer).picked(name)

    show(viewer, state="succeeded", held=None, objects=["red_cube", "tray"])
    as_page(viewer, panel(viewer).sentence, value="put the")
    click("red_cube", "moon")
    assert panel(viewer).sentence.value == "put the red cube"
    choose(viewer, "place")
    click("red_cube", "tray")
    press(viewer, "Execute task")
    sent.wait_for(lambda calls: len(calls) == 1)
    assert parse_plan(sent.calls[0][1].task)[-1].args == {"object": "red_cube", "location": "tray"}
    click("tray", "red_cube")
    fields = panel(viewer).arguments
    assert (fields["object"].value, fields["location"].value) == ("tray", "red_cube")
    # Drawn objects can be clicked for both tabs.
    assert panel(viewer).picked in viewer._robots["franka"].planning.objects.on_pick


def test_a_task_under_way_is_not_replaced(viewer, sent):
    show(viewer)
    as_page(viewer, panel(viewer).sentence, value="go home")
    press(viewer, "Execute task")
    refresh(viewer)
    assert "under way" in panel(viewer).status.content
    press(viewer, "Stop task")
    sent.wait_for(lambda calls: calls and calls[-1][1].verb == "stop")
    assert len(sent.calls) == 1


def test_a_plan_that_waits_is_confirmed(viewer, sent):
    show(viewer)
    assert not panel(viewer).confirm.visible
    show(viewer, state="waiting for ~/confirm", step=0)
    assert panel(viewer).confirm.visible
    as_page(viewer, panel(viewer).confirm, value=True)
    sent.wait_for(lambda calls: calls and calls[-1][1].verb == "confirm")
    show(viewer, state="succeeded", step=2)
    assert not panel(viewer).confirm.visible


def test_steps_have_a_status():
    def statuses(text):
        steps = [line for line in text.splitlines() if line.startswith("- ")]
        return [line.partition(": **")[2].removesuffix("**") for line in steps]

    assert statuses(shown(progress())) == ["done", "let down"]
    assert statuses(shown(progress(phase=""))) == ["done", "running"]
    for state, expected in (
        ("succeeded", ["done", "done"]),
        ("failed", ["done", "failed"]),
        ("planned", ["", ""]),
        ("waiting for ~/confirm", ["", ""]),
    ):
        done = 2 if state == "succeeded" else 1
        text = shown(progress(state=state, step=done, reason="it was dropped"))
        assert statuses(text) == expected
        assert "it was dropped" in text.splitlines()


def test_foreign_text_is_not_markup(viewer):
    show(viewer, task="<img src=x>", events=["[a](b)"], reason="`y`")
    status, log = panel(viewer).status.content, panel(viewer).log.content
    assert r"\<img" in status
    assert r"\`y\`" in status
    assert r"\[a\]\(b\)" in log


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "3", "[]", '{"plan": [{"skill": "fly"}]}', '{"step": null}', '{"step": Infinity}',
        '{"events": 5}', '{"objects": {}}',
    ],
)  # fmt: skip
def test_what_is_no_status_is_refused(text):
    with pytest.raises(InvalidPlan):
        TaskProgress.of(text)


def test_robots_without_fingers_have_no_tasks(open_viewer):
    viewer = open_viewer(ViewedRobot.of(load_robot("ur5e"), in_suite=True))
    assert viewer._robots["ur5e"].tasks is None
    viewer.robot("ur5e").update_task(progress())
    viewer.robot("ur5e").set_task_message("none")
