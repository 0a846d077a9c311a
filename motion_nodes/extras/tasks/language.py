# SPDX-License-Identifier: Apache-2.0
"""Sentences to plans by rules, in English and Chinese, without a network; objects by description.

A sentence is split into clauses; each clause has a verb and names of known objects and places. A
pronoun refers to the object of the previous clause. Anything else is rejected with the words that
are understood; nothing is guessed.

``the red cube``, ``the smaller box``, ``the left cup``, ``the box behind the can``: words of names
select candidates; a color, a size or a position excludes those that do not have it. Directions are
those of the robot's base frame: forward x, left y. A property that no candidate has, or several
candidates that fit, are errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from motion_nodes.core.robot.colors import NAMES as COLOR_NAMES
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.extras.tasks.task_codes import TaskCode, TaskError
from motion_nodes.extras.tasks.task_plan import DIRECTIONS, Plan, PlanStep
from motion_nodes.extras.tasks.world_state import ObjectState, WorldState, half_extents

BREAKS = re.compile(
    r"[.;,!?。；，！？、\n]"  # noqa: RUF001
    r"|\b(?:and then|then|afterwards|after that|and)\b|然后|接着|再|并且|并|之后",
    re.IGNORECASE,
)
_NUMBER = r"(-?\d+(?:\.\d+)?)\s*m?\s*"
_COMMA = r"[,，]\s*"  # noqa: RUF001
POINT = re.compile(rf"[(（]?\s*{_NUMBER}{_COMMA}{_NUMBER}(?:{_COMMA}{_NUMBER})?[)）]?")  # noqa: RUF001
"""Coordinates x, y or x, y, z [m]."""
POINT_MARK = re.compile(r"@(p+)")
"""Placeholder for coordinates while a sentence is parsed."""
NEGATION = re.compile(
    r"\b(?:not|cannot|\w+n['’]t|dont|never|without|except|instead of|neither|nor|unless|avoid)\b"  # noqa: RUF001
    r"|不要|不许|不准|(?<!能)不能|(?<![特分])别|禁止|除了",
    re.IGNORECASE,
)
"""Words of a sentence that excludes something, which no plan does."""
FILLER = re.compile(
    r"\b(?:carefully|gently|slowly|quickly|now|as well|too|also|thanks|thank you|ok|okay|for me)\b"
    r"|谢谢|小心|慢慢|轻轻|好吗|吧|一下",
    re.IGNORECASE,
)
"""Words of a clause of their own that ask for nothing else."""
PRONOUN = re.compile(r"\b(?:it|that|this)\b|它|其", re.IGNORECASE)
WITH = re.compile(r"\b(?:with|using)\b|用", re.IGNORECASE)
"""Words before the object with which a surface is wiped."""
TAKE_TO = re.compile(r"\b(?:take|get|fetch)\b.*\b(?:to|onto|into)\b", re.IGNORECASE)
ONTO = re.compile(
    r"\b(?:on top of|on|onto|in|into|at|to|upon|inside|over)\b|到|在|入|进|上", re.IGNORECASE
)
NOUNS = (
    "object", "thing", "one", "cube", "block", "box", "ball", "sphere", "cup", "mug", "glass",
    "bottle", "bowl", "plate", "dish", "can", "tin", "cylinder", "tray", "sponge", "cloth", "shelf",
    "rack", "drawer", "handle", "table", "desk",
)  # fmt: skip
"""Nouns after which a position describes an object."""
WORDS: Mapping[str, Sequence[str]] = {
    "red": ("红色", "红"), "green": ("绿色", "绿"), "blue": ("蓝色", "蓝"),
    "yellow": ("黄色", "黄"), "white": ("白色", "白"), "black": ("黑色", "黑"),
    "orange": ("橙色", "橙"), "purple": ("紫色", "紫", "violet"), "brown": ("棕色", "棕"),
    "gray": ("灰色", "灰", "grey"),
    "cube": ("方块", "立方体", "block"), "box": ("盒子", "箱子", "盒"), "ball": ("球",),
    "cup": ("杯子", "水杯", "杯", "mug", "glass"), "bottle": ("瓶子", "瓶"),
    "bowl": ("碗",), "plate": ("盘子", "盘", "dish"), "table": ("桌子", "桌", "desk"),
    "shelf": ("架子", "货架", "书架", "rack"), "can": ("罐子", "罐", "tin"),
    "water": ("水",), "tray": ("托盘",), "left": ("左",), "right": ("右",),
    "forward": ("前", "away"), "backward": ("后", "back"), "kitchen": ("厨房",),
    "door": ("门",), "drawer": ("抽屉",), "handle": ("拉手", "knob"),
    "sponge": ("海绵", "cloth", "抹布"), "cylinder": ("圆柱",), "sphere": ("球体",),
}  # fmt: skip
"""Words of names with their translations and synonyms."""
EQUAL_SIZE = 0.03
"""Relative difference of sizes below which neither object is the smaller one."""
EQUAL_PLACE = 0.01
"""Distance below which neither object is further left, or nearer [m]."""
BESIDE = 0.3
"""Max distance of an object ``next to`` another one, between their centers [m]."""
# ---- inside

_UNNAMED = re.compile(r"object_\d+")
"""Names of detected objects that nobody named."""
_SHAPES = {
    "box": Box, "cube": Box, "block": Box, "can": Cylinder, "cylinder": Cylinder,
    "tin": Cylinder, "ball": Sphere, "sphere": Sphere,
}  # fmt: skip
"""Shape of objects by their noun."""


@dataclass(frozen=True)
class Verb:
    """A verb of a skill."""

    skill: str
    """Name of the skill."""
    pattern: re.Pattern[str]


def _verb(skill: str, english: str, chinese: str) -> Verb:
    return Verb(skill, re.compile(rf"\b(?:{english})\b|{chinese}", re.IGNORECASE))


VERBS = (
    _verb("pour", "pour|empty", "倒入|倒进|倒到|倒"),
    _verb("push", "push|slide|shove", "推"),
    _verb("wipe", "wipe|clean|polish|scrub", "擦拭|擦干净|擦|抹"),
    _verb("open_drawer", "open|pull open", "打开|拉开"),
    _verb("handover", "hand(?: over)?|give|pass", "递给|递|交给|给"),
    _verb(
        "place",
        "place|put|set|drop|stack|move|bring|carry",
        "放回|放置|放到|放在|放|摆|移到|移动到|拿到|送到",
    ),
    _verb(
        "pick",
        "pick(?: up)?|grasp|grab|take|lift|get|fetch|hold",
        "抓取|抓住|抓起|抓|拿起|拿|取|捡起|捡|夹",
    ),
    _verb(
        "navigate",
        "go to|drive(?: to)?|navigate(?: to)?|move to|travel to",
        "导航到|开到|去到|前往|走到|移动至|去",
    ),
    _verb("locate", "locate|find|look for|where is|search(?: for)?", "定位|找到|寻找|找"),
    _verb("home", "home|return home|go home", "回家|复位|回零|回到初始"),
)
"""Where several begin at the same place, the first one of this list counts."""


class Position(NamedTuple):
    """A position among several objects, or of one relative to another."""

    english: Sequence[str]
    chinese: Sequence[str]
    axis: tuple[float, float, float]
    """Direction in the base frame; zero: towards the origin."""
    largest: bool = True


POSITIONS: Mapping[str, Position] = {
    "left": Position(("left", "leftmost"), ("左边的", "左侧的", "最左"), (0.0, 1.0, 0.0)),
    "right": Position(("right", "rightmost"), ("右边的", "右侧的", "最右"), (0.0, -1.0, 0.0)),
    "front": Position(("front", "foremost"), ("前面的", "前边的"), (-1.0, 0.0, 0.0)),
    "back": Position(("back", "rear", "hindmost"), ("后面的", "后边的"), (1.0, 0.0, 0.0)),
    "top": Position(("top", "topmost", "upper"), ("上面的", "上边的"), (0.0, 0.0, 1.0)),
    "bottom": Position(("bottom", "lower", "lowest"), ("下面的", "下边的"), (0.0, 0.0, -1.0)),
    "near": Position(("near", "nearest", "nearer", "closest", "closer"), ("最近的", "近的"),
                     (0.0, 0.0, 0.0)),
    "far": Position(("far", "farthest", "furthest", "farther"), ("最远的", "远的"),
                    (0.0, 0.0, 0.0), largest=False),
}  # fmt: skip
"""As seen from the base: what is in front is nearer to it."""


class Relation(NamedTuple):
    """A relation of an object to another one."""

    words: str
    pattern: re.Pattern[str]
    axis: tuple[float, float, float] = (0.0, 0.0, 0.0)


def _relation(
    words: str, english: str, axis: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> Relation:
    return Relation(words, re.compile(rf"\b(?:{english})\b", re.IGNORECASE), axis)


RELATIONS: Mapping[str, Relation] = {
    "behind": _relation("behind", "behind|in back of", (1.0, 0.0, 0.0)),
    "before": _relation("in front of", "in front of", (-1.0, 0.0, 0.0)),
    "left of": _relation("left of", "(?:to |on )?(?:the )?left(?: side)? of", (0.0, 1.0, 0.0)),
    "right of": _relation("right of", "(?:to |on )?(?:the )?right(?: side)? of", (0.0, -1.0, 0.0)),
    "under": _relation("under", "under(?:neath)?|below|beneath", (0.0, 0.0, -1.0)),
    "beside": _relation("next to", "next to|beside|near(?:est)?(?: to)?|closest to"),
    "on": _relation("on", "that (?:is|stands|lies) on|standing on|lying on"),
}
"""Relations between two objects, by their keys."""


class Size(NamedTuple):
    """A comparison of sizes."""

    words: Sequence[str]
    measure: str
    """``volume``, ``height`` or ``width``."""
    largest: bool


SIZES = (
    Size(("big", "bigger", "biggest", "large", "larger", "largest", "大"), "volume", True),
    Size(("small", "smaller", "smallest", "little", "tiny", "小"), "volume", False),
    Size(("tall", "taller", "tallest", "high", "higher", "highest", "高"), "height", True),
    Size(("short", "shorter", "shortest", "low", "lower", "flat", "flattest", "矮"), "height",
         False),
    Size(("wide", "wider", "widest", "thick", "thicker", "宽"), "width", True),
    Size(("narrow", "narrower", "thin", "thinner", "thinnest", "slim", "窄"), "width", False),
)  # fmt: skip
"""Words that compare the candidates with each other."""


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
