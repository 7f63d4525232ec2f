"""`SchedulingEnv`: one decision at a time, each the node of one pod."""

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from orrery_gym import spaces
from orrery_gym.process import RESET, STEP, Process


class SchedulingEnv(gymnasium.Env):
    """An agent places the pods of a study.

    `study` is the file. `cluster`, `workload`, `faults` and `policy` name the parts of a study that has several. `orrery` is the path
    of the program, if it is neither in the variable ORRERY nor in PATH.

    An action that the mask excludes lets the pod wait. An equal seed gives an equal episode.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(self, study, cluster=None, workload=None, faults=None, policy=None, orrery=None, render_mode=None):
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode {render_mode!r}: must be None or 'ansi'")
        self.render_mode = render_mode
        self._process = Process(
            study, orrery=orrery, cluster=cluster, workload=workload, faults=faults, policy=policy
        )
        self.layout = self._process.layout
        self.observation_space = spaces.observation_space(self.layout)
        self.action_space = spaces.action_space(self.layout)
        self._block = None
        self._has_ended = True

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31)) if seed is None else spaces.checked_seed(seed)
        self._ask(RESET, drawn)
        observation, info = self._observation(), self._info()
        info["seed"] = drawn
        return observation, info

    def step(self, action):
        if self._has_ended:
            raise ResetNeeded("the episode has ended: reset the environment first")
        self._ask(STEP, int(action))
        return self._observation(), self._number("reward"), *self._ends(), self._info()

    def render(self):
        if self.render_mode is None or self._block is None:
            return None
        return spaces.board(self.layout, self._observation(), self._mask())

    def close(self):
        self._process.close()

    def _ask(self, operation, value):
        self._process.send(np.array([[operation, value]]))
        self._block = self._process.receive()
        self._has_ended = any(self._ends())

    def _number(self, name):
        return float(self._block[0, self.layout.fields[name][0]][0])

    def _ends(self):
        return self._number("terminated") > 0, self._number("truncated") > 0

    def _observation(self):
        return {name: value[0] for name, value in spaces.observations(self.layout, self._block).items()}

    def _mask(self):
        return spaces.masks(self.layout, self._block)[0]

    def _info(self):
        info = {"action_mask": self._mask(), "time_s": self._number("time")}
        if self._has_ended:
            info["metrics"] = spaces.metrics(self.layout, self._block[0])
        return info
