# SPDX-License-Identifier: Apache-2.0
"""The shipped policy opens the drawer, evaluated at once and through the player."""

from motion_nodes.learning.export import load_exported
from motion_nodes.learning.mujoco_env import MujocoEnv
from motion_nodes.learning.tasks.registry import make_task
from motion_nodes.learning.trainer import evaluate
from motion_nodes.model.loader import load_robot
from motion_nodes.policies.observations import PolicyInputs
from motion_nodes.policies.policy_files import load_policy
from motion_nodes.policies.published import SHIPPED, shipped_network


def test_drawer_is_opened():
    task = make_task("drawer")
    file = shipped_network("franka_drawer")
    assert file.stat().st_size < 150_000
    result = evaluate(load_exported(file, task), MujocoEnv(task, 20, seed=77))
    assert result.success >= 0.95


def test_drawer_is_opened_through_the_player():
    """Measurements by name in the robot's order, joint targets back: nothing else is shared."""
    task, robot = make_task("drawer"), load_robot("franka")
    runner = load_policy("franka_drawer", robot)
    assert runner.spec.observation_width == 31
    env = MujocoEnv(task, 1, seed=78)
    env.reset()
    for _ in range(task.episode_steps - 1):
        view = env._view()
        terms = {
            "drawer_position": task.opening(view)[0],
            "drawer_velocity": view.v[0, task._drawer_v],
            "handle_from_tool": task.handle_from_tool(view)[0],
        }
        inputs = PolicyInputs(task.positions(view)[0], task.velocities(view)[0], terms=terms)
        targets = runner.step(inputs)
        # What a drive receives; the environment's actions are not used.
        raw = (targets.position[:7] - task.positions(view)[0, :7]) / task.scale
        grip = 1.0 if targets.position[7] > 0.02 else -1.0
        step = env.step([[*raw, grip]])
    assert step.success.all()


def test_all_shipped_policies_are_there():
    assert all(shipped_network(name).is_file() for name in SHIPPED)
