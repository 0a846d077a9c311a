# SPDX-License-Identifier: Apache-2.0
"""Sentences to plans by rules, in English and Chinese, without a network.

A sentence is split into clauses; each clause has a verb and names of known objects and places. A
pronoun refers to the object of the previous clause. Anything else is rejected with the words that
are understood; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from motion_nodes.extras.tasks.object_descriptions import (
    BREAKS,
    FILLER,
    NEGATION,
    ONTO,
    POINT,
    POINT_MARK,
    PRONOUN,
    TAKE_TO,
    VERBS,
    WITH,
    NotUnderstood,
    Verb,
    candidates,
    object_of,
    relations_in,
    spellings,
    without_positions,
    words_of,
)
from motion_nodes.extras.tasks.task_codes import TaskCode
from motion_nodes.extras.tasks.task_plan import DIRECTIONS, Plan, PlanStep
from motion_nodes.extras.tasks.world_state import WorldState, half_extents

MAX_SENTENCE = 2000
"""Max number of characters of a sentence."""


def parse_sentence(sentence: str, state: WorldState) -> Plan:
    """Return the plan that a sentence describes.

    Args:
        sentence: English or Chinese.
        state: with the known names.

    Raises:
        NotUnderstood: names the part, and what would be understood.
    """
    if not isinstance(sentence, str) or not sentence.strip():
        raise NotUnderstood("the sentence is empty; try 'put the red cube on the shelf'")
    if len(sentence) > MAX_SENTENCE:
        raise NotUnderstood(f"the sentence has {len(sentence)} characters; at most {MAX_SENTENCE}")
    negated = NEGATION.search(sentence)
    if negated:
        raise NotUnderstood(
            f"'{negated[0]}' says what not to do, which is not understood; say only what to do"
        )
    # Decimal points and commas of coordinates separate no clauses.
    points: list[str] = []
    text = POINT.sub(lambda found: _keep_point(found, points), _without_polite_words(sentence))
    reader = _SentenceReader(state, points)
    for clause in BREAKS.split(text):
        if clause.strip():
            reader.read(clause.strip())
    if not reader.steps and reader.held_already:
        held = f"the gripper already holds '{reader.held_already}'"
        raise NotUnderstood(held, TaskCode.ALREADY_HELD)
    if not reader.steps:
        raise NotUnderstood(f"'{sentence}' contains no task; verbs: {_verb_words()}")
    return tuple(reader.steps)


def example_sentences(state: WorldState) -> list[str]:
    """Return sentences that fit the known objects: small ones are moved, large ones carry them."""
    sizes = {name: float(max(half_extents(item.shape))) for name, item in state.objects.items()}
    order = sorted(sizes, key=lambda name: (sizes[name], name))
    movable = [name for name in order if state.objects[name].movable]
    small = [name for name in movable if name != state.held]
    if state.held is None and not small:
        return []
    if state.held is not None and state.held not in sizes:
        return ["go home"]  # another client attached what no sentence can name
    taken = state.held or small[0]
    large = [name for name in reversed(order) if name != taken]
    words = {name: name.replace("_", " ") for name in order}
    found = [f"put the {words[taken]} on the {words[large[0]]}"] if large else []
    if state.held is None:
        found += [f"pick up the {words[name]}" for name in small[-2:-1] or small[:1]]
        found.append(f"push the {words[taken]} to the left")
    return [*found, "go home"]


class _SentenceReader:
    """Reads clauses one after the other."""

    def __init__(self, state: WorldState, points: Sequence[str] = ()) -> None:
        self._state, self._points = state, points
        self._last: str | None = None
        self._holding = state.held
        self.steps: list[PlanStep] = []
        self.held_already = ""
        """Object that a clause picks although it is held, which needs no step."""

    def read(self, clause: str) -> None:
        """Add the steps of a clause."""
        verb = self._verb(clause)
        if verb is None:
            if self.steps and not FILLER.sub("", clause).strip():
                return
            raise NotUnderstood(f"no verb in '{clause}'; verbs: {_verb_words()}")
        getattr(self, f"_{verb.skill}")(clause)

    def _verb(self, clause: str) -> Verb | None:
        found = [(m.start(), i, v) for i, v in enumerate(VERBS) if (m := v.pattern.search(clause))]
        if not found:
            return None
        verb = min(found)[2]
        skills = {entry[2].skill for entry in found}
        if verb.skill == "pick" and TAKE_TO.search(clause) and self._has_object(clause):
            return next(v for v in VERBS if v.skill == "place")
        if verb.skill == "pick" and skills & {"place", "pour"} and not self._is_plain_pick(clause):
            # "拿杯子放到桌上": the second verb is the action.
            return next(v for v in VERBS if v.skill in skills & {"place", "pour"})
        if verb.skill == "place" and "navigate" in skills and not self._has_object(clause):
            return next(v for v in VERBS if v.skill == "navigate")
        return verb

    def _has_object(self, clause: str) -> bool:
        """Return whether a clause names the object before the place."""
        what, where = self._split(clause)
        return bool(where) and bool(
            self._names(what, tuple(self._state.objects)) or PRONOUN.search(what)
        )

    def _is_plain_pick(self, clause: str) -> bool:
        return len(self._names(clause, self._state.locations)) < 2

    def _home(self, clause: str) -> None:
        self.steps.append(PlanStep("home", {}))

    def _locate(self, clause: str) -> None:
        self.steps.append(PlanStep("locate", {"object": self._object(clause)}))

    def _pick(self, clause: str) -> None:
        # "the cup on the table": the first name is the target.
        what, _ = self._split(clause)
        named = self._names(what, tuple(self._state.objects))
        name = self._object(what if named else clause)
        if self._holding == name:
            self.held_already = name
        self._fetch(name)

    def _place(self, clause: str) -> None:
        what, where = self._split(clause)
        if not where:
            raise NotUnderstood(
                f"where to in '{clause}'? Known: {', '.join(self._state.locations) or 'nothing'}"
            )
        name = self._object(what, self._holding)
        self._fetch(name)
        point = POINT_MARK.search(where)
        location = self._points[len(point[1]) - 1] if point else self._one(
            where, self._state.locations, "location", other_than=name
        )  # fmt: skip
        self.steps.append(PlanStep("place", {"object": name, "location": location}))
        self._holding = None

    def _pour(self, clause: str) -> None:
        what, where = self._split(clause)
        source = self._object(what, self._holding)
        target = self._one(where or clause, tuple(self._state.objects), "object", other_than=source)
        self._fetch(source)
        self.steps.append(PlanStep("pour", {"source": source, "target": target}))

    def _push(self, clause: str) -> None:
        words = words_of(without_positions(clause))
        towards = [d for d in DIRECTIONS if any(word in words for word in spellings(d))]
        if len(towards) != 1:
            raise NotUnderstood(f"which way in '{clause}'? One of {', '.join(DIRECTIONS)}")
        self.steps.append(
            PlanStep("push", {"object": self._object(clause), "direction": towards[0]})
        )

    def _wipe(self, clause: str) -> None:
        objects = tuple(self._state.objects)
        mark = WITH.search(clause)
        before, after = (clause[: mark.start()], clause[mark.end() :]) if mark else (clause, "")
        found = (v.pattern.search(after) for v in VERBS if v.skill == "wipe")
        verb = next(filter(None, found), None)
        if mark and verb and not self._names(before, objects):
            # "用海绵擦桌子": the verb divides what it is wiped with from what is wiped.
            before, after = after[verb.start() :], after[: verb.start()]
        tool = self._object(after) if mark else self._holding
        surface = self._one(before, objects, "object", other_than=tool or "")
        if tool is None:
            raise NotUnderstood(f"with what in '{clause}'? Such as: wipe the table with the sponge")
        self._fetch(tool)
        self.steps.append(PlanStep("wipe", {"object": tool, "surface": surface}))

    def _open_drawer(self, clause: str) -> None:
        named = self._names(clause, tuple(self._state.objects))
        # "open the drawer" may name drawer_handle.
        name = self._object(clause if named else f"{clause} handle")
        self.steps.append(PlanStep("open_drawer", {"object": name}))

    def _handover(self, clause: str) -> None:
        name = self._object(clause, self._holding)
        self._fetch(name)
        self.steps.append(PlanStep("handover", {"object": name}))
        self._holding = None

    def _navigate(self, clause: str) -> None:
        location = self._one(clause, self._state.locations, "location")
        if location in self._state.objects:
            self._last = location
        self.steps.append(PlanStep("navigate", {"location": location}))

    # ---- names

    def _fetch(self, name: str) -> None:
        self._last = name
        if self._holding != name:
            self.steps.append(PlanStep("pick", {"object": name}))
            self._holding = name

    def _split(self, clause: str) -> tuple[str, str]:
        """Divide a clause at the preposition before its last name: what, and where to."""
        relations = relations_in(clause)  # "the box in front of the can" is no place
        splits = [
            m
            for m in ONTO.finditer(clause)
            if not any(begin <= m.start() < end for begin, end in relations)
            and (
                self._names(clause[m.end() :], self._state.locations)
                or POINT_MARK.search(clause[m.end() :])
            )
        ]
        if not splits:
            return clause, ""
        at = splits[-1]
        return clause[: at.start()], clause[at.end() :]

    def _object(self, text: str, default: str | None = None) -> str:
        names = self._names(text, tuple(self._state.objects))
        if not names:
            if PRONOUN.search(text) and self._last is not None:
                return self._last
            if default is not None and not _unknown_noun(text):
                return default
        return self._one(text, tuple(self._state.objects), "object")

    def _one(
        self,
        text: str,
        names: Sequence[str],
        kind: Literal["object", "location"],
        other_than: str = "",
    ) -> str:
        found = object_of(text, names, self._state, other_than, kind)
        self._last = found if kind == "object" else self._last
        return found

    def _names(self, text: str, names: Sequence[str]) -> list[str]:
        return candidates(text, names, self._state)


def _keep_point(found: re.Match[str], points: list[str]) -> str:
    """Append a point to a list; return its placeholder, whose length is the number of points."""
    points.append(",".join(f"{float(number):g}" for number in found.groups() if number))
    return f" @{'p' * len(points)} "


def _unknown_noun(text: str) -> bool:
    return bool(re.search(r"\bthe\s+\w+", text, re.IGNORECASE))


def _without_polite_words(sentence: str) -> str:
    polite = r"\b(?:please|could you|can you|would you|i want you to|kindly)\b|请|把|将|帮我|麻烦"
    return re.sub(polite, " ", sentence, flags=re.IGNORECASE)


def _verb_words() -> str:
    return ", ".join(sorted({verb.skill for verb in VERBS}))
