# SPDX-License-Identifier: Apache-2.0
"""Planner settings from strings."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from raised_errors import about

from motion_nodes.errors import InvalidConfig
from motion_nodes.planning.planner_settings import PlannerSettings


@dataclass(frozen=True)
class Zone:
    size: float = 0.05


@dataclass(frozen=True)
class Settings:
    step_size: float = 0.3
    tries: int = 100
    checked: bool = True
    frame: str = ""
    weights: tuple[float, ...] = ()
    zone: Zone = field(default_factory=Zone)

    def __post_init__(self) -> None:
        if self.step_size <= 0.0:
            raise InvalidConfig("step_size must be above 0")


@pytest.fixture
def store() -> PlannerSettings:
    return PlannerSettings({"RRT": Settings(), "Direct": Zone()})


def test_words_and_values(store):
    assert store.words("RRT", "arm") == {
        "step_size": "0.3", "tries": "100", "checked": "true", "frame": "", "weights": "[]",
        "zone/size": "0.05",
    }  # fmt: skip
    words = {"step_size": "0.5", "tries": "7", "checked": "False", "frame": "hand",
             "weights": "[3, 2.5]", "zone/size": "1"}  # fmt: skip
    store.set("RRT", "arm", words, replace=False)
    assert store.settings("RRT", "arm") == Settings(0.5, 7, False, "hand", (3, 2.5), Zone(1.0))
    assert store.settings("RRT", "gripper") == Settings()


def test_settings_of_a_group_go_over_those_of_all(store):
    store.set("RRT", "", {"step_size": "0.1", "tries": "5"}, replace=False)
    store.set("RRT", "arm", {"tries": "9"}, replace=False)
    assert store.settings("RRT", "arm") == Settings(0.1, 9)
    assert store.settings("RRT", "gripper") == Settings(0.1, 5)
    store.set("RRT", "", {"tries": "6"}, replace=True)
    assert store.settings("RRT", "gripper") == Settings(0.3, 6)


@pytest.mark.parametrize(
    "words",
    [
        {"step_size": "fast"},
        {"step_size": "-1"},
        {"step_size": "true"},
        {"tries": "1.5"},
        {"checked": "maybe"},
        {"weights": "3"},
        {"stepsize": "0.1"},
        {"zone": "{}"},
    ],
)
def test_a_wrong_word_changes_nothing(store, words):
    with pytest.raises(InvalidConfig, match=next(iter(words)).split("/")[-1]):
        store.set("RRT", "arm", {"tries": "5"} | words, replace=False)
    assert store.settings("RRT", "arm") == Settings()


def test_unknown_planners_are_refused(store):
    assert store.planners == ("RRT", "Direct")
    with pytest.raises(InvalidConfig, check=about("RRTT")):
        store.settings("RRTT", "arm")
