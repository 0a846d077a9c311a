# SPDX-License-Identifier: Apache-2.0
"""Words that the rules of :mod:`motion_nodes.tasks.language` know, in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


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
