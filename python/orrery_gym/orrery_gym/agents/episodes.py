"""Plays whole episodes."""

import numpy as np


def play(env, agent, seeds, on_step=None):
    """Plays an episode with each of `seeds`, of which there are as many as environments. Returns the sum of rewards of each.

    `on_step(observations, masks, actions, rewards, alive)` sees each step; environments that have ended are not alive.
    """
    observations, infos = env.reset(seed=[int(seed) for seed in seeds])
    alive, totals = np.ones(env.num_envs, dtype=bool), np.zeros(env.num_envs)
    while alive.any():
        masks = infos["action_mask"]
        actions = agent.act(observations, masks)
        after, rewards, terminated, truncated, infos = env.step(actions)
        if on_step is not None:
            on_step(observations, masks, actions, rewards, alive)
        totals += np.where(alive, rewards, 0.0)
        # An episode that has ended begins anew in the background, and does not count.
        alive = alive & ~(terminated | truncated)
        observations = after
    return totals
