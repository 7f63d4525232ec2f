"""Gymnasium environments in which an agent schedules the pods of an Orrery study."""

import gymnasium

from orrery_gym.environment import SchedulingEnv
from orrery_gym.process import OrreryError
from orrery_gym.vector import SchedulingVectorEnv

__all__ = ["OrreryError", "SchedulingEnv", "SchedulingVectorEnv"]

gymnasium.register(
    id="orrery/Scheduling-v0",
    entry_point="orrery_gym.environment:SchedulingEnv",
    vector_entry_point="orrery_gym.vector:SchedulingVectorEnv",
)
