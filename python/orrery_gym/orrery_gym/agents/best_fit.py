"""`BestFitAgent`: the node with the least left of what the pod asks for, after the pod is placed."""

import numpy as np


class BestFitAgent:
    def act(self, observations, masks):
        nodes, pods = observations["nodes"], observations["pod"]
        left = nodes[:, :, : pods.shape[1]] - pods[:, None, :]
        total = (left * (pods[:, None, :] > 0)).sum(axis=2)
        total = np.where(masks[:, :-1] > 0, total, np.inf)
        return np.where(masks[:, :-1].any(axis=1), total.argmin(axis=1), nodes.shape[1])
