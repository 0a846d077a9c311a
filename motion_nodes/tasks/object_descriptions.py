# SPDX-License-Identifier: Apache-2.0
"""Objects by description: names, colors, sizes, and relations, in English and Chinese.

``the red cube``, ``the smaller box``, ``the left cup``, ``the box behind the can``. Words of names
select candidates; a color, a size or a position excludes those that do not have it. Directions are
those of the robot's base frame: forward x, left y. Nothing is guessed: a property that no candidate
has, or several candidates that fit, are errors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from motion_nodes.model.colors import NAMES as COLOR_NAMES
from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.tasks.language_words import (
    NOUNS,
    POSITIONS,
    RELATIONS,
    SIZES,
    WORDS,
)
from motion_nodes.tasks.task_codes import TaskCode, TaskError
from motion_nodes.tasks.world_state import ObjectState, WorldState, half_extents

EQUAL_SIZE = 0.03
"""Relative difference of sizes below which neither object is the smaller one."""
EQUAL_PLACE = 0.01
"""Distance below which neither object is further left, or nearer [m]."""
BESIDE = 0.3
"""Max distance of an object ``next to`` another one, between their centers [m]."""


class _Phrase(NamedTuple):
    """A phrase without its relation to another object."""

    phrase: str
    relation: str
    """Key of :data:`RELATIONS`; empty without one."""
    reference: str
    """Phrase of the other object."""


class NotUnderstood(TaskError, ValueError):
    """A sentence without a known verb, or with names that are not known or not unique."""

    def __init__(self, text: str, code: TaskCode = TaskCode.NOT_UNDERSTOOD) -> None:
        """Create the error from a sentence and its code."""
        super().__init__(text, code)


def object_of(
    text: str,
    names: Sequence[str],
    state: WorldState,
    other_than: str = "",
    kind: Literal["object", "location"] = "object",
) -> str:
    """Return the name of the object that a phrase describes.

    Args:
        text: phrase, such as ``the left cup`` or ``the box behind the can``.
        names: candidates; those of places have no properties.
        state: objects with their poses, shapes and colors.
        other_than: name that is not meant.
        kind: what the names are, for the error.

    Raises:
        NotUnderstood: no candidate or several fit; its code tells which.
    """
    shown = text.strip()
    phrase, relation, reference = _relation_in(text, names, state)
    found = [name for name in candidates(phrase, names, state) if name != other_than]
    if not found:
        known = ", ".join(names) or "none"
        code = TaskCode.UNKNOWN_OBJECT if kind == "object" else TaskCode.UNKNOWN_LOCATION
        raise NotUnderstood(f"no known {kind} in '{shown}'. Known: {known}", code)
    found = _of_color(phrase, found, state, shown)
    if relation:
        others = [name for name in names if name not in found]
        at = state.objects.get(object_of(reference, others, state))
        found = _related(found, relation, at, state)
        if not found:
            raise NotUnderstood(
                f"no object in '{shown}' is {RELATIONS[relation].words} the other one",
                TaskCode.UNKNOWN_OBJECT,
            )
    found = _of_position(phrase, _of_size(phrase, found, state), state)
    if len(found) == 1:
        return found[0]
    raise NotUnderstood(
        f"which object in '{shown}': {', '.join(found)}?", TaskCode.AMBIGUOUS_OBJECT
    )


def names_in(text: str, names: Sequence[str]) -> list[str]:
    """Return the names that match a text best: those of which it contains most words."""
    plain, words = text.lower(), words_of(text)
    scores = {name: _score(name, plain, words) for name in names}
    best = max(scores.values(), default=0.0)
    return [name for name, score in scores.items() if score == best > 0.0]


def relations_in(text: str) -> list[tuple[int, int]]:
    """Return where relations between objects stand in a text, as begin and end."""
    return [found.span() for e in RELATIONS.values() for found in e.pattern.finditer(text)]


def candidates(text: str, names: Sequence[str], state: WorldState) -> list[str]:
    """Return the names in a text, or detected objects without a name whose shape it names."""
    return names_in(text, names) or _by_shape(text, names, state)


def without_positions(text: str) -> str:
    """Return a text without the positions that describe objects: ``the left cup``, not ``left``."""
    return _ADJECTIVE.sub(" ", text)


def words_of(text: str) -> set[str]:
    """Return the known words of a text, without the plural."""
    found = re.findall(r"[a-z0-9]+", text.lower())
    chinese = {w for others in WORDS.values() for w in others if _in_chinese(w, text)}
    return {*found, *(word.rstrip("s") for word in found), *chinese}


def spellings(word: str) -> tuple[str, ...]:
    """Return a word with its translations and synonyms."""
    for key, others in WORDS.items():
        if word == key or word in others:
            return (key, *others)
    return (word,)


def color_of(state: ObjectState) -> str:
    """Return the color of an object: as measured, or as its name states; empty if unknown."""
    parts = _parts(state.name)
    named = next((key for key in COLOR_NAMES if any(part in spellings(key) for part in parts)), "")
    return named or state.color


# ---- inside

_UNNAMED = re.compile(r"object_\d+")
"""Names of detected objects that nobody named."""
_SHAPES = {
    "box": Box, "cube": Box, "block": Box, "can": Cylinder, "cylinder": Cylinder,
    "tin": Cylinder, "ball": Sphere, "sphere": Sphere,
}  # fmt: skip
"""Shape of objects by their noun."""


def _by_shape(phrase: str, names: Sequence[str], state: WorldState) -> list[str]:
    """Return the objects without a name of their own whose shape a phrase names."""
    words = words_of(phrase)
    kinds = tuple({shape for noun, shape in _SHAPES.items() if words & set(spellings(noun))})
    return [
        name
        for name in names
        if name in state.objects
        and _UNNAMED.fullmatch(name)
        and isinstance(state.objects[name].shape, kinds)
    ]


_POSITION = "|".join(
    word for entry in POSITIONS.values() for word in sorted(entry.english, key=len, reverse=True)
)
# A position describes an object if a noun follows: "the left cup"; "to the left" is a direction.
_ADJECTIVE = re.compile(
    rf"\b(?:{_POSITION})\b(?=(?:\s+[a-z]+){{0,2}}\s+(?:{'|'.join(NOUNS)})s?\b)"
    rf"|(?:{'|'.join(word for entry in POSITIONS.values() for word in entry.chinese)})",
    re.IGNORECASE,
)


def _parts(name: str) -> list[str]:
    return [part for part in re.split(r"[_\s-]+|(?<=\D)(?=\d)", name.lower()) if part]


def _score(name: str, plain: str, words: set[str]) -> float:
    """Return the score of a name in a text: 1 per word if all occur, less if only some do."""
    if name.lower() in plain:
        return 10.0 + len(name)
    parts = _parts(name)
    known = [part for part in parts if any(word in words or _in_chinese(word, plain)
                                           for word in spellings(part))]  # fmt: skip
    if not known:
        return 0.0
    # The noun comes last; an adjective alone, such as a color, means no object.
    noun = next((part for part in reversed(parts) if not part.isdigit()), parts[-1])
    if noun not in known:
        return 0.0
    return len(known) + 0.5 * len(known) / len(parts)


def _in_chinese(word: str, text: str) -> bool:
    return not word.isascii() and word in text


def _relation_in(text: str, names: Sequence[str], state: WorldState) -> _Phrase:
    """Divide a phrase at a relation between two names."""
    for key, entry in RELATIONS.items():
        for found in entry.pattern.finditer(text):
            before, after = text[: found.start()], text[found.end() :]
            if candidates(before, names, state) and candidates(after, names, state):
                return _Phrase(before, key, after)
    return _Phrase(text, "", "")


def _of_color(phrase: str, names: list[str], state: WorldState, shown: str) -> list[str]:
    words = words_of(phrase)
    asked = [key for key in COLOR_NAMES if words & set(spellings(key))]
    known = {name: color_of(state.objects[name]) for name in names if name in state.objects}
    for color in asked:
        fits = [name for name in names if known.get(name) == color]
        # An object of unknown color may have it, unless another one is known to.
        fits = fits or [name for name in names if not known.get(name)]
        if not fits:
            others = ", ".join(names)
            raise NotUnderstood(
                f"no known object in '{shown}' is {color}: {others}", TaskCode.UNKNOWN_OBJECT
            )
        names = fits
    return names


def _of_size(phrase: str, names: list[str], state: WorldState) -> list[str]:
    words = words_of(phrase)
    for entry in SIZES:
        if words & set(entry.words) or any(_in_chinese(word, phrase) for word in entry.words):
            items = [state.objects[name] for name in names if name in state.objects]
            values = [_measure(item, entry.measure) for item in items]
            names = _extreme(names, values, entry.largest, EQUAL_SIZE * max(values, default=0.0))
    return names


def _of_position(phrase: str, names: list[str], state: WorldState) -> list[str]:
    for found in _ADJECTIVE.finditer(phrase):
        word = found[0].lower()
        entry = next(e for e in POSITIONS.values() if word in (*e.english, *e.chinese))
        places = [state.objects[name].X_WO[:3, 3] for name in names if name in state.objects]
        axis = np.array(entry.axis)
        along = [float(axis @ p) if axis.any() else -float(np.hypot(*p[:2])) for p in places]
        names = _extreme(names, along, entry.largest, EQUAL_PLACE)
    return names


def _extreme(names: list[str], values: list[float], largest: bool, margin: float) -> list[str]:
    """Return the names whose value is within a margin of the extreme one; all, if one has none."""
    if len(values) != len(names) or len(names) < 2:
        return names
    best = max(values) if largest else min(values)
    return [name for name, v in zip(names, values, strict=True) if abs(v - best) <= margin]


def _measure(item: ObjectState, measure: str) -> float:
    half = half_extents(item.shape)
    upright = np.abs(item.X_WO[:3, :3]) @ half
    if measure == "height":
        return float(upright[2])
    return float(max(upright[:2])) if measure == "width" else float(np.prod(half)) ** (1.0 / 3.0)


def _related(
    names: list[str], relation: str, at: ObjectState | None, state: WorldState
) -> list[str]:
    """Return the names in a relation to an object: the nearest one, and those as near."""
    if at is None:
        return []
    entry = RELATIONS[relation]
    offsets = {
        name: state.objects[name].X_WO[:3, 3] - at.X_WO[:3, 3]
        for name in names
        if name in state.objects
    }
    if relation == "beside":
        near = {n: float(np.hypot(*d[:2])) for n, d in offsets.items()}
        near = {n: distance for n, distance in near.items() if distance <= BESIDE}
    elif relation == "on":
        near = {n: 0.0 for n in offsets if _rests_on(state.objects[n], at)}
    else:
        axis = np.array(entry.axis)
        along = {n: float(axis @ d) for n, d in offsets.items()}
        near = {n: float(np.linalg.norm(offsets[n])) for n, a in along.items() if a > EQUAL_PLACE}
    best = min(near.values(), default=0.0)
    return [n for n, distance in near.items() if distance <= best + EQUAL_PLACE]


def _rests_on(item: ObjectState, below: ObjectState) -> bool:
    """Return whether an object stands on another one."""
    apart = np.abs(item.X_WO[:2, 3] - below.X_WO[:2, 3])
    reach = (np.abs(below.X_WO[:3, :3]) @ half_extents(below.shape))[:2]
    return bool((apart <= reach).all()) and abs(item.bottom - below.top) <= 2.0 * EQUAL_PLACE
