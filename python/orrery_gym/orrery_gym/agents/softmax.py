"""`SoftmaxAgent`: a linear policy that learns by REINFORCE, in numpy alone.

The chance of a node grows with the weighted sum of a few numbers about it (`features`). The weights are the same for all nodes, so
what was learned on one cluster can be tried on another one with the same resources.
"""

import numpy as np

from orrery_gym.agents.episodes import play


def features(observations):
    """Returns numbers about each node, with shape (environments, nodes, numbers).

    For each resource, what the pod would leave of it and its square; how unevenly it would be left; and whether the node is empty.
    """
    nodes, pods = observations["nodes"], observations["pod"]
    count = pods.shape[1]
    left = np.clip(nodes[:, :, :count] - pods[:, None, :], 0.0, 1.0)
    uneven = left.max(axis=2, keepdims=True) - left.min(axis=2, keepdims=True)
    empty = np.isclose(nodes[:, :, :count], nodes[:, :, count:]).all(axis=2, keepdims=True)
    return np.concatenate([left, left**2, uneven, empty], axis=2)


class SoftmaxAgent:
    def __init__(self, weights=None, seed=0):
        self.weights = weights
        # Sampled while it learns; afterwards the likeliest node.
        self.explores = False
        self._random = np.random.default_rng(seed)

    def act(self, observations, masks):
        chances = self._chances(features(observations), masks)
        if self.explores:
            drawn = self._random.random((len(chances), 1))
            actions = (chances.cumsum(axis=1) < drawn * chances.sum(axis=1, keepdims=True)).sum(axis=1)
        else:
            actions = chances.argmax(axis=1)
        return np.where(masks[:, :-1].any(axis=1), actions, masks.shape[1] - 1)

    def learn(self, env, rounds=30, rate=0.5, first_seed=1_000):
        """Plays `rounds` times an episode in each environment, and follows the gradient of the reward.

        All environments of a round play the same episode, so that what differs between their rewards is due to their actions.
        """
        self.explores = True
        for number in range(rounds):
            steps = []
            note = lambda *step: steps.append([np.copy(part) if part is not None else None for part in self._gradient(*step)])
            play(env, self, [first_seed + number] * env.num_envs, note)
            gradients, rewards, alive = (np.array(part) for part in zip(*steps))
            # What follows a decision is its return; the mean of the other environments at the same step is the baseline.
            returns = np.flip(np.flip(rewards * alive, 0).cumsum(0), 0)
            advantages = (returns - returns.mean(axis=1, keepdims=True)) * alive
            advantages /= advantages.std() + 1e-9
            gradient = (advantages[:, :, None] * gradients).sum(axis=(0, 1)) / alive.sum()
            self.weights = self.weights + rate * gradient / (np.linalg.norm(gradient) + 1e-9)
        self.explores = False
        return self

    def _chances(self, numbers, masks):
        if self.weights is None:
            self.weights = np.zeros(numbers.shape[2])
        scores = np.where(masks[:, :-1] > 0, numbers @ self.weights, -np.inf)
        best = scores.max(axis=1, keepdims=True)
        chances = np.exp(scores - np.where(np.isfinite(best), best, 0.0))
        return chances / np.maximum(chances.sum(axis=1, keepdims=True), 1e-300)

    def _gradient(self, observations, masks, actions, rewards, alive):
        """Returns the gradient of the logarithm of each action's chance: its numbers without the mean of all nodes' numbers."""
        numbers = features(observations)
        chances = self._chances(numbers, masks)
        nodes = np.minimum(actions, numbers.shape[1] - 1)
        taken = np.take_along_axis(numbers, nodes[:, None, None], axis=1)[:, 0]
        placed = (actions < numbers.shape[1])[:, None]
        return placed * (taken - (chances[:, :, None] * numbers).sum(axis=1)), rewards, alive
