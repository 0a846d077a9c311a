# SPDX-License-Identifier: Apache-2.0
"""Tasks on the panel: a sentence or a skill with arguments; the plan and its progress."""

from __future__ import annotations

import json
from collections.abc import Callable

import viser

from motion_nodes.extras.tasks.task_plan import DIRECTIONS, SKILLS
from motion_nodes.extras.tasks.task_progress import RUNNING, TaskProgress, steps_for
from motion_nodes.extras.viewer.joint_panel import show_value
from motion_nodes.extras.viewer.panel_style import plain
from motion_nodes.extras.viewer.ui_commands import TASK_VERBS, TaskCommand

SENTENCE = "sentence"
"""Choice of the task in words."""
NONE = "(no objects)"
NO_EXAMPLE = "(choose one)"
MAX_EVENTS = 8
"""Number of shown events."""
ARM_SKILLS = tuple(name for name in SKILLS if name != "navigate")
"""Skills of an arm on a fixed base."""


class TaskPanel:
    """Sends tasks, and shows the progress of the task server.

    Args:
        gui: viser's panel; elements are added to the active container.
        commanded: called on viser's event loop.
    """

    def __init__(self, gui: viser.GuiApi, commanded: Callable[[TaskCommand], None]) -> None:
        """Add the elements."""
        self._commanded = commanded
        self._progress: TaskProgress | None = None
        self._text = ""
        self.choice = gui.add_dropdown(
            "Task", (SENTENCE, *ARM_SKILLS), hint="A task in words, or one skill."
        )
        self.sentence = gui.add_text(
            "Sentence",
            "",
            hint="Such as: put the red cube on the shelf. English or Chinese. A click on an object "
            "in the scene adds its name; with a skill it is the next argument.",
        )
        self._picks = 0
        """Number of clicked objects since a skill was chosen."""
        names = {a.name: a for skill in ARM_SKILLS for a in SKILLS[skill].arguments}
        self.arguments = {
            name: gui.add_dropdown(
                name.capitalize(),
                DIRECTIONS if argument.kind == "direction" else (NONE,),
                hint=argument.doc,
                visible=False,
            )
            for name, argument in names.items()
        }
        self.examples = gui.add_dropdown(
            "Examples",
            (NO_EXAMPLE,),
            hint="Sentences that fit the objects; a choice fills the field.",
        )
        self.verbs = gui.add_button_group("Run", tuple(TASK_VERBS))
        self.confirm = gui.add_button(
            "Confirm plan", color="green", visible=False, hint="Executes the plan shown below."
        )
        self.status = gui.add_markdown(
            "No task server: start the robot with `motion up ROBOT --tasks`."
        )
        with gui.add_folder("Log", expand_by_default=False):
            self.log = gui.add_markdown("")
        self.choice.on_update(self._chosen)
        self.examples.on_update(self._example_chosen)
        self.verbs.on_click(self._pressed)
        self.confirm.on_click(self._confirmed)

    def set_progress(self, progress: TaskProgress) -> None:
        """Store the newest status of the task server."""
        self._progress, self._text = progress, ""

    def set_message(self, text: str) -> None:
        """Store why a command was not sent, shown in place of the progress until it changes."""
        self._text = text

    async def picked(self, name: str) -> None:
        """Use an object of the task server that was clicked in the scene.

        Its name is added to the sentence; with a skill, it is the next argument that is an object.
        """
        choice = str(self.choice.value)
        if self._progress is None or name not in self._progress.objects:
            return
        if choice == SENTENCE:
            words = name.replace("_", " ")
            show_value(self.sentence, f"{self.sentence.value.rstrip()} {words}".lstrip())
            return
        fields = [a.name for a in SKILLS[choice].arguments if a.kind != "direction"]
        if fields:
            show_value(self.arguments[fields[self._picks % len(fields)]], name)
            self._picks += 1

    def refresh(self) -> None:
        """Update the panel; on viser's event loop."""
        progress = self._progress
        text = plain(self._text) or (self.status.content if progress is None else shown(progress))
        if text != self.status.content:
            self.status.content = text
        if progress is None:
            return
        log = "\n".join(f"- {plain(event)}" for event in progress.events[-MAX_EVENTS:])
        if log != self.log.content:
            self.log.content = log
        if self.confirm.visible != progress.waits:
            self.confirm.visible = progress.waits
        sentences = (NO_EXAMPLE, *progress.examples)
        if tuple(self.examples.options) != sentences:
            self.examples.options = sentences
        options = progress.objects or (NONE,)
        for name, dropdown in self.arguments.items():
            if name != "direction" and tuple(dropdown.options) != options:
                chosen = dropdown.value
                dropdown.options = options
                if chosen in options:
                    dropdown.value = chosen

    async def _chosen(self, _: object) -> None:
        choice, self._picks = str(self.choice.value), 0
        self.sentence.visible = self.examples.visible = choice == SENTENCE
        needed = () if choice == SENTENCE else SKILLS[choice].arguments
        for name, dropdown in self.arguments.items():
            dropdown.visible = any(argument.name == name for argument in needed)

    async def _example_chosen(self, event: viser.GuiEvent[viser.GuiDropdownHandle[str]]) -> None:
        chosen = str(self.examples.value)
        if event.client is not None and chosen != NO_EXAMPLE:
            show_value(self.sentence, chosen)

    async def _pressed(self, event: viser.GuiEvent[viser.GuiButtonGroupHandle]) -> None:
        if event.client is None:
            return
        verb = TASK_VERBS[str(event.target.value)]
        task = "" if verb == "stop" else self._task()
        if verb != "stop" and not task:
            self._text = "Type a task, such as: put the red cube on the shelf"
        elif verb != "stop" and self._progress is not None and self._progress.state == RUNNING:
            self._text = "Another task is under way; press Stop first"
        else:
            self._text = ""
            self._commanded(TaskCommand(verb, task))
        self.refresh()

    async def _confirmed(self, event: viser.GuiEvent[viser.GuiButtonHandle]) -> None:
        if event.client is not None:
            self._commanded(TaskCommand("confirm"))

    def _task(self) -> str:
        """Return the task: a sentence, or a plan as JSON."""
        choice = str(self.choice.value)
        if choice == SENTENCE:
            return str(self.sentence.value).strip()
        args = {a.name: str(self.arguments[a.name].value) for a in SKILLS[choice].arguments}
        held = None if self._progress is None else self._progress.held
        return json.dumps([step.as_data() for step in steps_for(choice, args, held)])


def shown(progress: TaskProgress) -> str:
    """Return a status as Markdown: the state, the tree of steps as it runs, reason, objects."""
    task = f": {plain(progress.task)}" if progress.task else ""
    plans = f" (plan {progress.plans})" if progress.plans > 1 else ""
    lines = [f"**{plain(progress.state)}**{task}{plans}", ""]
    begun = progress.state not in ("planned", "idle") and not progress.waits
    for i, step in enumerate(progress.plan):
        mark, status = "\u25cb", ""
        if begun and i < progress.step:
            mark, status = "\u2713", "done"
        elif begun and i == progress.step:
            running = progress.state == RUNNING
            mark = "\u25b6" if running else "\u2717"
            status = plain(progress.phase or "running") if running else "failed"
            status += f", attempt {progress.attempt}" if progress.attempt > 1 else ""
        lines.append(f"- {mark} {plain(str(step))}" + (f": **{status}**" if status else ""))
    if progress.reason:
        code = f" ({plain(progress.code)})" if progress.code else ""
        lines += ["", f"{plain(progress.reason)}{code}"]
    lines += ["", f"Objects: {', '.join(map(plain, progress.objects)) or 'none'}"]
    if progress.held:
        lines += ["", f"holds {plain(progress.held)}"]
    return "\n".join(lines)
