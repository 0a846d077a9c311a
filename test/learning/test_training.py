# SPDX-License-Identifier: Apache-2.0
"""Training on a closed-form environment: learning, seeds, resuming, invalid values."""

import dataclasses
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from closed_form_env import BrokenEnv, PointEnv

from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.learning.learners import PpoConfig, PpoLearner, SacConfig, TrainingDiverged
from motion_nodes.extras.learning.trainer import (
    Evaluation,
    Trainer,
    TrainingConfig,
    evaluate,
    new_trainer,
)
from motion_nodes.extras.learning.training_run import (
    CURVE,
    BestPolicy,
    Budget,
    InvalidCheckpoint,
    append_csv,
    load_policy,
    load_trainer,
    open_run,
    read_csv,
    run,
    save_checkpoint,
    single_threaded_blas,
)

CONFIG = TrainingConfig(
    num_envs=16,
    rollout_steps=16,
    hidden=(16, 16),
    ppo=PpoConfig(learning_rate=3e-3, target_kl=0.02, gamma=0.9),
)

STEPS = 256
"""Steps of all environments per update."""


@pytest.fixture
def threads():
    with ThreadPoolExecutor(2) as executor, single_threaded_blas():
        yield executor


SAC = TrainingConfig(
    algorithm="sac", num_envs=8, shards=2, rollout_steps=16, hidden=(32, 32), activation="relu",
    sac=SacConfig(warm_up=128, updates_per_step=0.25, batch=64, replay=2000, action_limit=1.0),
)  # fmt: skip
BOTH = pytest.mark.parametrize("config", [CONFIG, SAC], ids=["ppo", "sac"])


def trained(executor, iterations, config=CONFIG):
    trainer = new_trainer(PointEnv, config)
    for _ in range(iterations):
        trainer.iterate(executor)
    return trainer


@BOTH
def test_learns_the_point_task(threads, config):
    before = evaluate(trained(threads, 0, config).policy, PointEnv(50, 9))
    after = evaluate(
        trained(threads, 30 if config is CONFIG else 16, config).policy, PointEnv(50, 9)
    )
    assert after.mean_return > 0.4 * before.mean_return  # both are negative
    assert after.success == 1.0 > before.success


@BOTH
def test_same_seed_same_numbers_on_any_executor(threads, config):
    by_threads = trained(threads, 3, config).learner.flat
    with ProcessPoolExecutor(1) as processes:
        by_processes = trained(processes, 3, config).learner.flat
    np.testing.assert_array_equal(by_threads, by_processes)
    other = trained(threads, 3, TrainingConfig(**{**vars(config), "seed": 1})).learner.flat
    assert np.abs(by_threads - other).max() > 0.0


@BOTH
def test_resumed_run_equals_an_uninterrupted_one(threads, tmp_path, config):
    straight = trained(threads, 4, config)
    save_checkpoint(trained(threads, 2, config), tmp_path / "c.npz")
    resumed = load_trainer(tmp_path / "c.npz", PointEnv, "point")
    figures = [resumed.iterate(threads) for _ in range(2)]
    np.testing.assert_array_equal(straight.learner.flat, resumed.learner.flat)
    np.testing.assert_array_equal(straight.norm.mean, resumed.norm.mean)
    assert figures[-1].steps == straight.steps == 4 * config.num_envs * config.rollout_steps


def test_run_writes_checkpoint_and_curve(threads, tmp_path):
    trainer = open_run(tmp_path / "run", PointEnv, "point", CONFIG, resume=False)
    seen = []
    run(trainer, tmp_path / "run", Budget(steps=600), threads, lambda p, spent: seen.append(spent))
    assert seen[-1] >= 1.0 > seen[0]
    rows = (tmp_path / "run" / "curve.csv").read_text().splitlines()
    assert len(rows) == 1 + 3
    assert "<svg" in (tmp_path / "run" / "curve.svg").read_text()
    with pytest.raises(InvalidConfig):
        open_run(tmp_path / "run", PointEnv, "point", CONFIG, resume=False)
    assert open_run(tmp_path / "run", PointEnv, "point", CONFIG, resume=True).iteration == 3


def test_the_curve_of_a_resumed_run_continues_at_its_checkpoint(threads, tmp_path):
    trainer = open_run(tmp_path / "run", PointEnv, "point", CONFIG, resume=False)
    run(trainer, tmp_path / "run", Budget(steps=3 * STEPS), threads)
    curve = tmp_path / "run" / CURVE
    later = dataclasses.replace(read_csv(curve)[-1], iteration=4, steps=123_456_789)
    append_csv(curve, later)
    assert read_csv(curve)[-1].steps == later.steps
    curve.write_text(curve.read_text() + "5,20")  # the process was killed
    resumed = open_run(tmp_path / "run", PointEnv, "point", CONFIG, resume=True)
    assert [row.iteration for row in read_csv(curve)] == [1, 2, 3]
    run(resumed, tmp_path / "run", Budget(steps=4 * STEPS), threads)
    assert [row.iteration for row in read_csv(curve)] == [1, 2, 3, 4]


def test_the_best_policy_is_kept_also_over_a_resume(threads, tmp_path):
    trainer = open_run(tmp_path / "run", PointEnv, "point", CONFIG, resume=False)
    scores = iter((0.2, 0.8, 0.5, 0.8, 0.7))
    asked = []

    def evaluated(policy):
        asked.append(policy)
        return Evaluation(10, 0.0, next(scores), 5.0)

    best = BestPolicy(tmp_path / "run", evaluated)
    for _ in range(3):
        trainer.iterate(threads)
        best.update(trainer)
        best.update(trainer)
    assert len(asked) == 3
    resumed = BestPolicy(tmp_path / "run", evaluated)  # evaluates the kept one first
    trainer.iterate(threads)
    resumed.update(trainer)
    kept = load_policy(resumed.file, "point")
    np.testing.assert_array_equal(kept.flat, asked[1].flat)
    np.testing.assert_array_equal(asked[3].flat, asked[1].flat)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda parts: parts["rewards"].__setitem__(1, np.nan),
        lambda parts: parts["observations"].__setitem__((2, 0), np.inf),
        lambda parts: parts["final_observations"].__setitem__((0, 0), np.nan),
        lambda parts: parts.update(rewards=parts["rewards"][:, None]),
        lambda parts: parts.update(observations=parts["observations"][:, :1]),
    ],
)
def test_values_that_are_not_finite_or_of_wrong_shape(threads, spoil):
    trainer = Trainer(lambda n, seed: BrokenEnv(n, seed, spoil), CONFIG)
    before = trainer.learner.flat.copy()
    with pytest.raises(TrainingDiverged):
        trainer.iterate(threads)
    np.testing.assert_array_equal(before, trainer.learner.flat)


def test_kl_stop_and_gradient_norm(threads):
    """A huge step size is stopped in the first pass, and the parameters stay finite."""
    config = TrainingConfig(
        **{**vars(CONFIG), "ppo": PpoConfig(learning_rate=1.0, target_kl=1e-3, epochs=10)}
    )
    trainer = trained(threads, 1, config)
    assert trainer.learner.adam.updates == config.ppo.minibatches
    assert trainer.learner.learning_rate < 1.0
    assert np.isfinite(trainer.learner.flat).all()


def test_single_step_batch_is_no_special_case():
    trainer = Trainer(PointEnv, TrainingConfig(num_envs=1, shards=1, rollout_steps=1))
    with ThreadPoolExecutor(1) as executor:
        trainer.iterate(executor)
    assert np.isfinite(trainer.learner.flat).all()


def test_checkpoints_of_others_are_rejected(threads, tmp_path):
    file = tmp_path / "c.npz"
    save_checkpoint(trained(threads, 0), file)
    assert load_policy(file, "point").net.observation_size == 2
    with pytest.raises(InvalidCheckpoint):
        load_policy(file, "reach")
    with pytest.raises(InvalidCheckpoint):
        load_policy(tmp_path / "missing.npz")

    class Wider(PointEnv):
        observation_size = 3

        def observe(self):
            return np.zeros((self.num_envs, 3))

    with pytest.raises(InvalidCheckpoint):
        load_trainer(file, Wider, "point")


class Bomb:
    """Would run code when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def test_pickles_are_never_loaded(tmp_path):
    plain, archive = tmp_path / "a.npz", tmp_path / "b.npz"
    plain.write_bytes(pickle.dumps(Bomb()))
    np.savez(archive, about=np.array([Bomb()], dtype=object))
    truncated, text = tmp_path / "c.npz", tmp_path / "d.npz"
    truncated.write_bytes(archive.read_bytes()[:100])
    text.write_text("hello")
    for file in (plain, archive, truncated, text):
        with pytest.raises(InvalidCheckpoint):
            load_policy(file)


@pytest.mark.parametrize(
    "damage",
    [
        lambda a: a.pop("flat"),
        lambda a: a.update(flat=a["flat"][:-1]),
        lambda a: a.update(norm_variance=-a["norm_variance"]),
        lambda a: a.update(norm_mean=np.zeros(3)),
        lambda a: a.update(norm_count=np.array(np.nan)),
        lambda a: a.update(about=np.array('{"format": 1, "task": "point"}')),
        lambda a: a.update(about=np.array("[]")),
        lambda a: a.update(about=np.array('{"format": 99, "task": "point"}')),
    ],
)
def test_damaged_checkpoints_are_rejected(threads, tmp_path, damage):
    file = tmp_path / "c.npz"
    save_checkpoint(trained(threads, 0), file)
    with np.load(file) as archive:
        arrays = dict(archive)
    damage(arrays)
    np.savez(file, **arrays)
    with pytest.raises(InvalidCheckpoint):
        load_policy(file, "point")
    with pytest.raises(InvalidCheckpoint):
        load_trainer(file, PointEnv, "point")


def test_checkpoint_with_parameters_that_are_not_finite(threads, tmp_path):
    trainer = trained(threads, 0)
    trainer.learner.flat[3] = np.nan
    save_checkpoint(trainer, tmp_path / "c.npz")
    with pytest.raises(InvalidCheckpoint):
        load_policy(tmp_path / "c.npz")


@pytest.mark.parametrize("values", [{}, {"seconds": -1.0}, {"steps": 0}, {"seconds": float("nan")}])
def test_invalid_budget(values):
    with pytest.raises(InvalidConfig):
        Budget(**values)


def test_learner_keeps_finite_parameters():
    trainer = Trainer(PointEnv, CONFIG)
    learner = PpoLearner(trainer.learner.net, trainer.learner.flat, CONFIG.ppo)
    from motion_nodes.extras.learning.learners import TrainingBatch

    bad = TrainingBatch(
        np.zeros((4, 2), np.float32), np.zeros((4, 1), np.float32),
        *(np.full(4, np.nan, np.float32) for _ in range(4)),
    )  # fmt: skip
    with pytest.raises(TrainingDiverged), np.errstate(invalid="ignore"):
        learner.update(bad, np.random.default_rng(0))
    np.testing.assert_array_equal(learner.flat, trainer.learner.flat)
