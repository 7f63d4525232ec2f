"""Lets three agents play the same episodes of a study, and prints the mean of their rewards.

    python -m orrery_gym.agents STUDY [--rounds N] [--episodes N] [--environments N] [--seed N]
"""

import argparse
import sys

import numpy as np

from orrery_gym.agents import BestFitAgent, RandomAgent, SoftmaxAgent, play
from orrery_gym.process import OrreryError
from orrery_gym.vector import SchedulingVectorEnv


def main():
    parser = argparse.ArgumentParser(prog="python -m orrery_gym.agents", description=__doc__.splitlines()[0])
    parser.add_argument("study")
    parser.add_argument("--rounds", type=int, default=30, help="rounds of learning")
    parser.add_argument("--episodes", type=int, default=16, help="episodes in which agents are compared")
    parser.add_argument("--environments", type=int, default=16, help="environments that learn together")
    parser.add_argument("--seed", type=int, default=1, help="first seed of the episodes that are compared")
    options = parser.parse_args()
    seeds = np.arange(options.seed, options.seed + options.episodes)
    try:
        env = SchedulingVectorEnv(options.environments, options.study)
        learned = SoftmaxAgent().learn(env, options.rounds)
        env.close()
        env = SchedulingVectorEnv(options.episodes, options.study)
        for name, agent in [("random", RandomAgent()), ("best fit", BestFitAgent()), ("learned", learned)]:
            print(f"{name:10} {play(env, agent, seeds).mean():10.1f}")
        env.close()
    except OrreryError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
