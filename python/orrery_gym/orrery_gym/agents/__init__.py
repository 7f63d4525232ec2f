"""Agents to compare with: a random one, best fit, and one that learns.

An agent has `act(observations, masks)`, which returns an action for each of several environments.
"""

from orrery_gym.agents.best_fit import BestFitAgent
from orrery_gym.agents.episodes import play
from orrery_gym.agents.random import RandomAgent
from orrery_gym.agents.softmax import SoftmaxAgent

__all__ = ["BestFitAgent", "RandomAgent", "SoftmaxAgent", "play"]
