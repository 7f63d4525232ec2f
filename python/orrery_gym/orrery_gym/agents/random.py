"""`RandomAgent`: each node that fits has the same chance."""

import numpy as np


class RandomAgent:
    def __init__(self, seed=0):
        self._random = np.random.default_rng(seed)

    def act(self, observations, masks):
        nodes = masks[:, :-1]
        # Waits only where nothing fits: after the end of an episode.
        chances = np.where(nodes > 0, self._random.random(nodes.shape), -1.0)
        return np.where(nodes.any(axis=1), chances.argmax(axis=1), nodes.shape[1])
