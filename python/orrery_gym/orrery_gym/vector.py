"""`SchedulingVectorEnv`: many episodes at a time, in one process or in a few."""

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from orrery_gym import spaces
from orrery_gym.process import RESET, SKIP, STEP, Process


class SchedulingVectorEnv(VectorEnv):
    """Steps `num_envs` environments together. `processes` of them share the work, one for each core at most.

    The step after the end of an episode begins the next one with a seed that is drawn, and gives no reward.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1, "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        num_envs=1,
        study=None,
        cluster=None,
        workload=None,
        faults=None,
        policy=None,
        orrery=None,
        render_mode=None,
        processes=1,
    ):
        if study is None:
            raise ValueError("study: must be the path of a study")
        if not 1 <= processes <= num_envs:
            raise ValueError(f"processes {processes}: must be between 1 and num_envs, {num_envs}")
        self.num_envs, self.render_mode = num_envs, render_mode
        choice = {"cluster": cluster, "workload": workload, "faults": faults, "policy": policy}
        shares = [len(part) for part in np.array_split(np.arange(num_envs), processes)]
        self._processes = []
        try:
            for share in shares:
                self._processes.append(Process(study, share, orrery, **choice))
        except BaseException:
            self.close_extras()
            raise
        self.layout = self._processes[0].layout
        self.single_observation_space = spaces.observation_space(self.layout)
        self.single_action_space = spaces.action_space(self.layout)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._blocks = None
        self._ended = np.ones(num_envs, dtype=bool)

    def reset(self, *, seed=None, options=None):
        is_one = isinstance(seed, (int, np.integer))
        super().reset(seed=int(seed) if is_one else None)
        mask = (options or {}).get("reset_mask")
        mask = np.ones(self.num_envs, dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
        if seed is None:
            seeds = [None] * self.num_envs
        elif is_one:
            seeds = [int(seed) + index for index in range(self.num_envs)]
        else:
            seeds = list(seed)
            if len(seeds) != self.num_envs:
                raise ValueError(f"seed: must have {self.num_envs} members, and has {len(seeds)}")
        commands = np.full((self.num_envs, 2), (SKIP, 0), dtype=np.int64)
        for index in np.flatnonzero(mask):
            one = seeds[index]
            commands[index] = (RESET, self._drawn() if one is None else spaces.checked_seed(int(one)))
        self._ask(commands)
        return spaces.observations(self.layout, self._blocks), self._infos()

    def step(self, actions):
        if self._blocks is None:
            raise RuntimeError("reset the environments first")
        commands = np.empty((self.num_envs, 2), dtype=np.int64)
        commands[:, 0], commands[:, 1] = STEP, actions
        for index in np.flatnonzero(self._ended):
            commands[index] = (RESET, self._drawn())
        self._ask(commands)
        rewards = self.layout.read(self._blocks, "reward").astype(np.float64)
        return spaces.observations(self.layout, self._blocks), rewards, *self._ends(), self._infos()

    def render(self):
        if self.render_mode is None or self._blocks is None:
            return None
        observed, masks = spaces.observations(self.layout, self._blocks), spaces.masks(self.layout, self._blocks)
        one = lambda index: {name: value[index] for name, value in observed.items()}
        return tuple(spaces.board(self.layout, one(index), masks[index]) for index in range(self.num_envs))

    def close_extras(self, **kwargs):
        for process in self._processes:
            process.close()

    def _drawn(self):
        return int(self.np_random.integers(2**31))

    def _ask(self, commands):
        # All processes work before the first one is waited for.
        at = 0
        for process in self._processes:
            process.send(commands[at : at + process.environments])
            at += process.environments
        answers = [process.receive() for process in self._processes]
        self._blocks = answers[0] if len(answers) == 1 else np.concatenate(answers)
        self._ended = np.logical_or(*self._ends())

    def _ends(self):
        return tuple(self.layout.read(self._blocks, name) > 0 for name in ("terminated", "truncated"))

    def _infos(self):
        infos = {
            "action_mask": spaces.masks(self.layout, self._blocks),
            "time_s": self.layout.read(self._blocks, "time"),
        }
        if self._ended.any():
            all_metrics = np.full(self.num_envs, None, dtype=object)
            for index in np.flatnonzero(self._ended):
                all_metrics[index] = spaces.metrics(self.layout, self._blocks[index])
            infos["metrics"], infos["_metrics"] = all_metrics, self._ended.copy()
        return infos
