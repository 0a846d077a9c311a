# SPDX-License-Identifier: Apache-2.0
"""Configuration files of the task-space planner: all keys, unknown keys, invalid values."""

from __future__ import annotations

from pathlib import Path

import pytest

from motion_nodes.core.planning.planners import connecting
from motion_nodes.core.planning.task_space_rrt import (
    RrtConfig,
    param_names,
    read_rrt_config,
    rrt_config,
)
from motion_nodes.errors import InvalidConfig, InvalidDescription

FRANKA = """
seed: 654321
step_size: 0.1
max_iterations: 40000
max_sampling: 9000
distance_metric_weights: [3.0, 2.0, 2.0, 1.5, 1.5, 1.0, 1.0]
task_space_frame_name: panda_rightfinger
task_space_limits: [[0.0, 0.7], [-0.6, 0.6], [0.0, 0.8]]
cuda_tree_params:
    max_num_nodes: 10000
    max_buffer_size: 30
    num_nodes_cpu_gpu_crossover: 3000
c_space_planning_params:
    exploration_fraction: 0.25
task_space_planning_params:
    x_target_zone_tolerance: 0.06
    orientation_target_zone_tolerance: 0.08
    x_target_final_tolerance: 1e-5
    orientation_target_final_tolerance: 0.004
    translation_gradient_weight: 2.0
    orientation_gradient_weight: 0.25
    nn_translation_distance_weight: 3.0
    nn_orientation_distance_weight: 0.5
    task_space_exploitation_fraction: 0.7
    task_space_exploration_fraction: 0.2
    max_extension_substeps_away_from_target: 7
    max_extension_substeps_near_target: 40
    extension_substep_target_region_scale_factor: 3
    unexploited_nodes_culling_scalar: 0.5
    gradient_substep_size: 0.03
enable_self_collision_checking: false
"""


def test_every_key_of_a_file_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "rrt.yaml"
    file.write_text(FRANKA)
    config, notes = read_rrt_config(file)
    assert config.seed == 654321
    assert config.step_size == 0.1
    assert config.max_iterations == 40000
    assert config.max_sampling == 9000
    assert config.distance_metric_weights == (3.0, 2.0, 2.0, 1.5, 1.5, 1.0, 1.0)
    assert config.task_space_frame_name == "panda_rightfinger"
    assert config.task_space_limits == ((0.0, 0.7), (-0.6, 0.6), (0.0, 0.8))
    assert config.c_space_planning_params.exploration_fraction == 0.25
    assert not config.enable_self_collision_checking
    task = config.task_space_planning_params
    assert task.translation_target_zone_tolerance == 0.06
    assert task.translation_target_final_tolerance == 1e-5
    assert task.extension_substep_target_region_scale_factor == 3.0
    assert task.max_extension_substeps_near_target == 40
    # No value is left at its default: each key has an effect.
    default = RrtConfig()
    for name in param_names():
        block, _, leaf = name.rpartition("/")
        owner, other = (getattr(c, block) if block else c for c in (config, default))
        assert getattr(owner, leaf) != getattr(other, leaf), name
    assert len(notes) == 1
    assert "cuda_tree_params" in notes[0]


def test_settings_for_joint_targets_come_along() -> None:
    config, _ = rrt_config(
        {"step_size": 0.2, "cspace_planning_params": {"exploration_fraction": 0.9}}, "x"
    )
    chosen = connecting(config)
    assert (chosen.step_size, chosen.exploration_fraction) == (0.2, 0.9)
    assert chosen.max_iterations == 50_000


def test_unknown_keys_are_noted_with_the_nearest_word() -> None:
    config, notes = rrt_config({"step_sise": 0.2, "other": {"x": 1}}, "my.yaml")
    assert config == RrtConfig()
    assert len(notes) == 2
    assert "my.yaml: step_sise" in notes[0]
    assert "'step_size'" in notes[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1),
        ("step_size", 0.0),
        ("step_size", float("nan")),
        ("step_size", "fast"),
        ("step_size", True),
        ("max_iterations", 0),
        ("max_iterations", 1.5),
        ("max_sampling", 0),
        ("distance_metric_weights", [1.0, -1.0]),
        ("task_space_frame_name", 3),
        ("task_space_limits", [[0, 1], [0, 1]]),
        ("task_space_limits", [[1, 0], [0, 1], [0, 1]]),
        ("enable_self_collision_checking", "maybe"),
        ("c_space_planning_params/exploration_fraction", 1.1),
        ("task_space_planning_params/task_space_exploitation_fraction", 0.95),
        ("task_space_planning_params/max_extension_substeps_near_target", -1),
        ("task_space_planning_params/extension_substep_target_region_scale_factor", 0.9),
        ("task_space_planning_params/unexploited_nodes_culling_scalar", -1.0),
        ("task_space_planning_params/gradient_substep_size", 0.0),
        ("task_space_planning_params/x_target_zone_tolerance", 0.0),
        ("task_space_planning_params", 1),
        ("no_such/step_size", 1),
    ],
)
def test_values_that_are_not_allowed_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidConfig, match=name.rpartition("/")[2].replace("x_target", "target")):
        RrtConfig().with_param(name, value)


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("step_size: [")
    with pytest.raises(InvalidDescription, match=r"broken\.yaml"):
        read_rrt_config(broken)
    with pytest.raises(InvalidDescription, match=r"none\.yaml"):
        read_rrt_config(tmp_path / "none.yaml")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("step_size: -1")
    with pytest.raises(InvalidConfig):
        read_rrt_config(wrong)
