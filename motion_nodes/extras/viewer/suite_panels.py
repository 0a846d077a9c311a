# SPDX-License-Identifier: Apache-2.0
"""Panels of the whole suite: health of its nodes, simulation, stop and resume; scaling; tasks."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import viser

from motion_nodes.extras.tasks.task_plan import DIRECTIONS, RUNNING, SKILLS, TaskProgress, steps_for
from motion_nodes.extras.viewer.joint_panel import show_value
from motion_nodes.extras.viewer.panel_style import (
    SECONDARY,
    bar_style,
    by_user,
    keep_in_range,
    on_loop,
    plain,
    row_style,
    show_text,
)
from motion_nodes.extras.viewer.ui_commands import TASK_VERBS, MotionScaling, TaskCommand

SENTENCE = "sentence"
"""Choice of the task in words."""
NONE = "(no objects)"
NO_EXAMPLE = "(choose one)"
MAX_EVENTS = 8
"""Number of shown events."""
MIN_PERCENT, STEP_PERCENT = 1.0, 5.0
"""Smallest scaling factor, and the step of the arrows of its field [%]."""
ARM_SKILLS = tuple(name for name in SKILLS if name != "navigate")
"""Skills of an arm on a fixed base."""


class TaskPanel:
    """Sends tasks, and shows the progress of the task server.

    Args:
        gui: viser's panel; elements are added to the active container.
        commanded: called on viser's event loop.
    """

    def __init__(self, gui: viser.GuiApi, commanded: Callable[[TaskCommand], None]) -> None:
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
        self.choice.on_update(on_loop(self._chosen))
        self.examples.on_update(by_user(self._example_chosen))
        self.verbs.on_click(by_user(self._pressed))
        self.confirm.on_click(by_user(lambda: commanded(TaskCommand("confirm"))))

    def set_progress(self, progress: TaskProgress) -> None:
        """Store the newest status of the task server."""
        self._progress, self._text = progress, ""

    def set_message(self, text: str) -> None:
        """Store why a command was not sent, shown in place of the progress until it changes."""
        self._text = text

    def picked(self, name: str) -> None:
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

    def _chosen(self) -> None:
        choice, self._picks = str(self.choice.value), 0
        self.sentence.visible = self.examples.visible = choice == SENTENCE
        needed = () if choice == SENTENCE else SKILLS[choice].arguments
        for name, dropdown in self.arguments.items():
            dropdown.visible = any(argument.name == name for argument in needed)

    def _example_chosen(self) -> None:
        if self.examples.value != NO_EXAMPLE:
            show_value(self.sentence, str(self.examples.value))

    def _pressed(self) -> None:
        verb = TASK_VERBS[str(self.verbs.value)]
        task = "" if verb == "stop" else self._task()
        if verb != "stop" and not task:
            self._text = "Type a task, such as: put the red cube on the shelf"
        elif verb != "stop" and self._progress is not None and self._progress.state == RUNNING:
            self._text = "Another task is under way; press Stop first"
        else:
            self._text = ""
            self._commanded(TaskCommand(verb, task))
        self.refresh()

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


SILENT_AFTER = 4.0
"""Nodes report at 1 Hz; without a report for this time [s] a node is shown as silent."""
REMOVED_AFTER = 60.0
"""Without a report for this time [s] a node is removed from the table."""
MAX_NODES = 60
DEBOUNCE = 2.5
"""Warnings that are shorter than this [s], such as of one late message, are not summarized."""
MAX_NAMED = 3
"""Max number of nodes named in the summary."""
SUPERVISOR = "supervisor: "
"""Beginning of the names under which processes are reported."""
PAUSE, CONTINUE = "Pause", "Continue"
"""Labels of the first button."""


@dataclass(frozen=True)
class Health:
    """The report of one node."""

    name: str
    """Name of the node."""
    level: str
    """``OK``, ``WARN``, ``ERROR`` or ``STALE``."""
    text: str
    """Its status message."""


class HealthPanel:
    """Shows reports as a table, highest severity first; accepts them from any thread.

    Args:
        gui: viser's panel.
    """

    def __init__(self, gui: viser.GuiApi) -> None:
        """Add the folder, hidden until a report is received."""
        self._lock = threading.Lock()
        self._newest: dict[str, tuple[Health, float]] = {}
        self._warned: dict[str, float] = {}
        """Times [s] since which nodes warn without a break."""
        self._folder = gui.add_folder("Nodes", expand_by_default=False, visible=False)
        with self._folder:
            self.table = gui.add_markdown("")

    def set_reports(self, reports: Iterable[Health]) -> None:
        """Store reports; each replaces the previous one of its node."""
        now = time.monotonic()
        with self._lock:
            for report in reports:
                if report.name in self._newest or len(self._newest) < MAX_NODES:
                    self._newest[report.name] = (report, now)
                    if report.level == "WARN":
                        self._warned.setdefault(report.name, now)
                    else:
                        self._warned.pop(report.name, None)

    def summary(self) -> str:
        """Return a summary such as ``"1 WARN of 8 nodes: move_group"``; empty before any report.

        Warnings count once they last ``DEBOUNCE``; all others at once.
        """
        reports = self._reports()
        if not reports:
            return ""
        lasting = time.monotonic() - DEBOUNCE
        levels = [
            "OK"
            if report.level == "WARN" and self._warned.get(report.name, -math.inf) > lasting
            else report.level
            for report in reports
        ]
        # Supervisors report about processes; `motion up` counts nodes, too.
        count = sum(not report.name.startswith(SUPERVISOR) for report in reports)
        bad = [level for level in ("ERROR", "WARN", "STALE", "SILENT") if level in levels]
        if not bad:
            return f"{count} nodes OK"
        named = [r.name for r, level in zip(reports, levels, strict=True) if level in bad]
        more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
        counts = ", ".join(f"{levels.count(level)} {level}" for level in bad)
        return f"{counts} of {count} nodes: {', '.join(named[:MAX_NAMED])}{more}"

    def refresh(self) -> None:
        """Update the table; on viser's event loop."""
        reports = self._reports()
        lines = ["| Level | Node | Status |", "|:-|:-|:-|"]
        for report in reports:
            level = report.level if report.level == "OK" else f"**{plain(report.level)}**"
            lines.append(f"| {level} | {plain(report.name)} | {plain(report.text)} |")
        text = "\n".join(lines) if reports else ""
        if text != self.table.content:
            self.table.content, self._folder.visible = text, bool(text)

    def _reports(self) -> list[Health]:
        """Return the newest report of each node, highest severity first."""
        now = time.monotonic()
        with self._lock:
            self._newest = {
                name: (report, received)
                for name, (report, received) in self._newest.items()
                if now - received < REMOVED_AFTER
            }
            found = [
                report
                if now - received < SILENT_AFTER
                else Health(report.name, "SILENT", f"no report for {now - received:.0f} s")
                for report, received in self._newest.values()
            ]
        order = {"ERROR": 0, "SILENT": 1, "STALE": 1, "WARN": 2}
        return sorted(found, key=lambda report: (order.get(report.level, 3), report.name))


class SimulationPanel:
    """Pauses and resets the simulation.

    Args:
        gui: viser's panel.
        pause: called with whether to pause or to continue.
        reset: called when Reset is pressed.
    """

    def __init__(
        self, gui: viser.GuiApi, pause: Callable[[bool], None], reset: Callable[[], None]
    ) -> None:
        self._paused, self._text = False, ""
        with gui.add_folder("Simulation", expand_by_default=False):
            self.pause = gui.add_button(
                PAUSE, color=SECONDARY, hint="Pauses simulated time and with it all robots."
            )
            self.reset = gui.add_button(
                "Reset", color=SECONDARY, icon=viser.Icon.RESTORE,
                hint="Returns all robots to their initial poses, at rest, and time to 0. "
                "Odometry continues.",
            )  # fmt: skip
            self._line = gui.add_markdown("", visible=False)
        self.pause.on_click(lambda _: pause(not self._paused))
        self.reset.on_click(lambda _: reset())

    def set_state(self, paused: bool, text: str | None = None) -> bool:
        """Store the state of the simulation and the line below the buttons.

        Args:
            paused: whether simulated time is paused.
            text: the line; None: unchanged.

        Returns:
            Whether something changed.
        """
        text = self._text if text is None else text
        new = (paused, text) != (self._paused, self._text)
        self._paused, self._text = paused, text
        return new

    def refresh(self) -> None:
        """Update the elements; on viser's event loop."""
        self.pause.label = CONTINUE if self._paused else PAUSE
        show_text(self._line, plain(self._text))


class StopPanel:
    """Stop is always visible, Resume only while the robots are stopped.

    Args:
        gui: viser's panel.
        stop: called on viser's event loop when Stop or Esc is pressed.
        resume: called on viser's event loop when Resume is pressed.
    """

    def __init__(
        self, gui: viser.GuiApi, stop: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        self._reason = ""
        self.stop = gui.add_button(
            "Stop all robots", color="red", hint="Latched until Resume is pressed. Key: Esc"
        )
        self.resume = gui.add_button(
            "Resume",
            color="green",
            visible=False,
            hint="Commands are accepted again; interrupted motions are not continued",
        )
        self.line = gui.add_markdown("", visible=False)
        gui.add_html(bar_style(self.stop, self.resume))
        self.key = gui.add_command(
            "Stop all robots", description="Latched until Resume is pressed", hotkey="escape"
        )
        self.stop.on_click(on_loop(stop))
        self.key.on_trigger(on_loop(stop))
        self.resume.on_click(on_loop(resume))

    def set_reason(self, reason: str) -> bool:
        """Store the reason of the stop, empty while not stopped; return whether it changed."""
        new = reason != self._reason
        self._reason = reason
        return new

    def refresh(self) -> None:
        """Update the line and the button; on viser's event loop."""
        reason = self._reason
        content = f"**{plain(reason)}**" if reason else ""
        if content != self.line.content:
            self.line.content = content
            self.line.visible = self.resume.visible = bool(reason)


class ScalingPanel:
    """One pair of scaling factors for all robots, on one row that stays visible.

    Args:
        gui: viser's panel; elements are added to the active container.
    """

    def __init__(self, gui: viser.GuiApi) -> None:
        hint = "for plans and named states of all robots, as a part of the robot's limits."
        self.velocity = gui.add_number(
            "Velocity [%]", 100.0, min=MIN_PERCENT, max=100.0, step=STEP_PERCENT,
            hint=f"Velocity scaling {hint}",
        )  # fmt: skip
        self.acceleration = gui.add_number(
            "Accel. [%]", 100.0, min=MIN_PERCENT, max=100.0, step=STEP_PERCENT,
            hint=f"Acceleration scaling {hint}",
        )  # fmt: skip
        keep_in_range(self.velocity, self.acceleration)
        gui.add_html(row_style((self.velocity, self.acceleration)))

    @property
    def scaling(self) -> MotionScaling:
        """The factors; those of values that are out of range are bounded."""
        return MotionScaling(_factor(self.velocity.value), _factor(self.acceleration.value))


def _factor(percent: object) -> float:
    """Return the factor of a field's contents [%]; of contents that are no number, the smallest."""
    # While a number is typed, pages send what the field contains, such as 0 or an empty text.
    value = float(percent) if isinstance(percent, int | float) else math.nan
    if not math.isfinite(value):
        value = MIN_PERCENT
    return min(max(value, MIN_PERCENT), 100.0) / 100.0
