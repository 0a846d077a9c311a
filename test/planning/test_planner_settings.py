# SPDX-License-Identifier: Apache-2.0
"""Planner settings from strings."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.planning.planners import PlannerSettings, default_settings
from motion_nodes.core.planning.tree_search import MAX_COUNT, MAX_NODES, new_tree
from motion_nodes.errors import InvalidConfig


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
def store():
    return PlannerSettings(lambda: {"RRT": Settings(), "Direct": Zone()})


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


@pytest.mark.parametrize("planner", default_settings())
def test_reported_values_are_accepted(planner):
    settings = PlannerSettings(default_settings)
    settings.set(planner, "", settings.words(planner, ""), replace=True)
    assert settings.settings(planner, "") == default_settings()[planner]


@pytest.mark.parametrize(
    ("planner", "words"),
    [
        ("RRTConnect", {"distance_metric_weights": '["a"]'}),
        ("RRTConnect", {"distance_metric_weights": "[[1, 2], [3]]"}),
        ("RRTConnect", {"max_iterations": "1e30"}),
        ("RRTConnect", {"max_iterations": "1" + "0" * 400}),
        ("RRTConnect", {"step_size": "1" + "0" * 400}),
        ("RRTConnect", {"max_sampling": "1e30"}),
        ("RRT", {"max_iterations": "1e12"}),
        ("RRTstar", {"distance_metric_weights": "[0]"}),
        ("AnytimeRRTConnect", {"shortening/jumps": "1000000000"}),
        ("TaskSpaceRRT", {"max_iterations": "1e12"}),
        ("TaskSpaceRRT", {"task_space_limits": "[1]"}),
        ("TaskSpaceRRT", {"task_space_planning_params/gradient_substep_size": "0"}),
        ("TaskSpaceRRT", {"task_space_planning_params/max_extension_substeps_near_target": "1e9"}),
        ("CBiRRT", {"max_nodes": "1e12"}),
    ],
)
def test_values_that_would_stop_a_planner_are_refused(planner, words):
    settings = PlannerSettings(default_settings)
    with pytest.raises(InvalidConfig, match=next(iter(words)).split("/")[-1]):
        settings.set(planner, "arm", words, replace=False)


def test_fractions_with_a_bounded_sum_are_set_together():
    settings = PlannerSettings(default_settings)
    block = "task_space_planning_params/task_space"
    words = {f"{block}_exploitation_fraction": "0.95", f"{block}_exploration_fraction": "0.05"}
    settings.set("TaskSpaceRRT", "", words, replace=False)
    task = settings.settings("TaskSpaceRRT", "").task_space_planning_params
    assert task.task_space_exploitation_fraction == 0.95


def test_a_tree_for_many_iterations_does_not_use_all_memory():
    tree = new_tree(np.zeros(7), 2 * MAX_COUNT + 1, 0)
    assert len(tree.nodes) == len(tree.parent) == MAX_NODES
