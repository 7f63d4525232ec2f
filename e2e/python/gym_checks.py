"""Checks the Gymnasium environment with a study. The first argument is the study; the variable ORRERY names the program."""

import hashlib
import sys
import tempfile
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env

import orrery_gym
from orrery_gym.agents import BestFitAgent, RandomAgent, SoftmaxAgent, play

STUDY = Path(sys.argv[1])
NAME = "orrery/Scheduling-v0"


def trajectory(env, seed, limit=None):
    """Plays an episode at random, and returns the hash of all that was observed, its length, and the last info."""
    seen, draw = hashlib.sha256(), np.random.default_rng(7)
    observation, info = env.reset(seed=seed)
    steps = 0
    while True:
        for name in sorted(observation):
            seen.update(observation[name].tobytes())
        seen.update(info["action_mask"].tobytes())
        action = draw.choice(np.flatnonzero(info["action_mask"][:-1]))
        observation, reward, terminated, truncated, info = env.step(action)
        seen.update(np.float64(reward).tobytes())
        steps += 1
        if terminated or truncated or steps == limit:
            return seen.hexdigest(), steps, info


def is_a_gymnasium_environment():
    with gym.make(NAME, study=STUDY) as env, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the queue has no bounds, and the checker would rather have some
        check_env(env.unwrapped)
        assert env.observation_space["nodes"].shape == (6, 6) and env.action_space.n == 7
        assert env.unwrapped.layout.resources == ["cpu", "memory", "pods"]


def the_same_seed_gives_the_same_bytes():
    with gym.make(NAME, study=STUDY) as one, gym.make(NAME, study=STUDY) as other:
        first, steps, info = trajectory(one, 3)
        assert steps >= 40 and info["metrics"]["pods-finished"] == 40, (steps, info)
        short = trajectory(other, 3, limit=12)
        assert short[0] == trajectory(one, 3, limit=12)[0] != trajectory(one, 4, limit=12)[0]
        assert first == trajectory(other, 3)[0]


def what_is_seen_follows_from_actions():
    with gym.make(NAME, study=STUDY, render_mode="ansi") as env:
        before, info = env.reset(seed=1)
        assert before["nodes"].min() == 1.0 and info["seed"] == 1 and info["action_mask"].all()
        assert "node-5        0%        0%        0%  yes" in env.render(), env.render()
        after, reward, *_, info = env.step(2)
        # The node has what it had without what the pod asked for; the others are untouched.
        assert np.allclose(after["nodes"][2, :3], 1.0 - before["pod"]), after
        assert np.delete(after["nodes"], 2, axis=0).min() == 1.0
        # Nothing has waited: the pod got its node at once, and the binding is not waited for.
        assert reward == 0.0 and after["queue"][0] == 1 and after["queue"][3] > before["queue"][3]
        # Waiting costs a point for each minute, until something changes.
        _, reward, *_, info = env.step(6)
        assert reward < 0.0, reward


def many_environments_are_stepped_together():
    with gym.make(NAME, study=STUDY) as env:
        env.reset(seed=5)
        alone = [env.step(action)[0]["nodes"] for action in (0, 1)]
    for processes in (1, 2):
        env = gym.make_vec(NAME, num_envs=3, study=STUDY, processes=processes)
        observations, infos = env.reset(seed=[4, 5, 5])
        assert observations in env.observation_space and infos["action_mask"].shape == (3, 7)
        for action, wanted in enumerate(alone):
            observations, rewards, terminated, truncated, infos = env.step(np.full(3, action))
            assert (observations["nodes"][1] == wanted).all() and (observations["nodes"][2] == wanted).all()
        assert rewards.shape == terminated.shape == truncated.shape == (3,)
        env.close()


def changed(old, new):
    """Writes the study with another text, and returns its path."""
    path, text = Path(tempfile.mkdtemp()) / "study.yaml", STUDY.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def an_agent_learns():
    seeds = np.arange(1, 5)
    env = gym.make_vec(NAME, num_envs=4, study=changed("count: 40", "count: 24"))
    learned = SoftmaxAgent(seed=1).learn(env, rounds=3)
    rewards = {
        agent.__class__.__name__: play(env, agent, seeds).mean() for agent in (RandomAgent(1), BestFitAgent(), learned)
    }
    env.close()
    print(rewards)
    assert rewards["RandomAgent"] < rewards["BestFitAgent"] and rewards["RandomAgent"] < rewards["SoftmaxAgent"]


def fails(text, work):
    try:
        work()
    except (orrery_gym.OrreryError, ValueError) as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"expected: {text}")


def mistakes_are_told():
    def refused(old, new):
        study = changed(old, new)
        return lambda: gym.make(NAME, study=study)

    fails("no-such-program: no such program; set ORRERY", lambda: gym.make(NAME, study=STUDY, orrery="no-such-program"))
    fails("no-such-study.yaml", lambda: gym.make(NAME, study="no-such-study.yaml"))
    fails('reward[0].term: Unsupported value: "happiness"', refused("term: pending", "term: happiness"))
    fails("--policy: Required value: the study has several: default, b", refused("- name: default", "- name: default\n- name: b"))
    fails("--cluster=b: must be one of six-nodes", lambda: gym.make(NAME, study=STUDY, cluster="b"))
    fails("seed -1: must be between", lambda: orrery_gym.SchedulingVectorEnv(1, STUDY).reset(seed=[-1]))
    env = orrery_gym.SchedulingEnv(STUDY)
    env.reset(seed=1)
    fails("action 8: must be between 0 and 6", lambda: env.step(8))
    fails("the environment is closed", lambda: env.reset(seed=1))
    env = orrery_gym.SchedulingEnv(STUDY)
    env.reset(seed=1)
    env._process._process.kill()
    fails("orrery has ended with status -9", lambda: env.step(0))


for check in (
    is_a_gymnasium_environment,
    the_same_seed_gives_the_same_bytes,
    what_is_seen_follows_from_actions,
    many_environments_are_stepped_together,
    an_agent_learns,
    mistakes_are_told,
):
    check()
    print(f"{check.__name__}: ok")
