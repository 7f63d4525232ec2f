"""The spaces of an environment, and how a block becomes an observation and an info."""

import numpy as np
from gymnasium import spaces

# Fields of a block that an agent observes.
OBSERVED = ("nodes", "pod", "queue")

# Largest seed that a request can hold.
MAX_SEED = 2**63 - 1


def observation_space(layout):
    """Returns the space of observations. Shares of resources lie between 0 and 1; the queue is counted in pods and seconds."""
    bounds = {"nodes": (0.0, 1.0), "pod": (0.0, 1.0), "queue": (-np.inf, np.inf)}
    return spaces.Dict(
        {name: spaces.Box(*bounds[name], shape=layout.fields[name][1], dtype=np.float32) for name in OBSERVED}
    )


def action_space(layout):
    """Returns the space of actions: a node by its index, or the number of nodes to let the pod wait."""
    return spaces.Discrete(len(layout.nodes) + 1)


def observations(layout, blocks):
    """Returns the observations of blocks, one array for each field."""
    return {name: layout.read(blocks, name) for name in OBSERVED}


def masks(layout, blocks):
    """Returns for each action whether it can be taken."""
    return layout.read(blocks, "mask").astype(np.int8)


def metrics(layout, block):
    """Returns the metrics at the end of an episode by name, without those that have no meaning in it."""
    values = block[layout.fields["metrics"][0]]
    return {name: float(value) for name, value in zip(layout.metrics, values) if not np.isnan(value)}


def checked_seed(seed):
    """Returns a seed that a request can hold, or raises."""
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed {seed}: must be between 0 and {MAX_SEED}")
    return seed


def board(layout, observation, mask):
    """Returns a table of the nodes: the share of each resource that is taken, and whether the pod of the decision fits."""
    count = len(layout.resources)
    free, allocatable = observation["nodes"][:, :count], observation["nodes"][:, count:]
    taken = 1 - np.divide(free, allocatable, out=np.ones_like(free), where=allocatable > 0)
    pending, waited_s, _, time_s = observation["queue"]
    asked = ", ".join(
        f"{name} {share * scale:g}"
        for name, share, scale in zip(layout.resources, observation["pod"], layout.scales)
        if share > 0
    )
    width = max(len(name) for name in layout.nodes)
    lines = [f"{time_s:.0f} s  {pending:.0f} pods wait, this one for {waited_s:.0f} s: {asked}"]
    lines.append(f"{'':{width}}  {'  '.join(f'{name:>8}' for name in layout.resources)}  fits")
    for name, shares, there, fits in zip(layout.nodes, taken, allocatable.any(axis=1), mask):
        cells = "  ".join(f"{share:8.0%}" for share in shares) if there else "is gone"
        lines.append(f"{name:{width}}  {cells}  {'yes' if fits else ''}".rstrip())
    return "\n".join(lines)
