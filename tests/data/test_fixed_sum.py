"""The sampler of the scenarios: proportions are uniform among all that have the given majority."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from majority.data.proportions import sample_proportions


def slice_points(n, s, rows, seed=0):
    """The sampler's points with x = p / m: uniform on {x in [0, 1]^n, sum = s} if it is right."""
    m = 1 / (1 + s)
    return sample_proportions(np.full(rows, m), n + 1, np.random.default_rng(seed))[:, 1:] / m


def slice_points_by_rejection(n, s, rows, seed=1):
    """n - 1 free uniforms, kept where the last coordinate falls into [0, 1]: uniform on the slice, exactly."""
    rng, kept, have = np.random.default_rng(seed), [], 0
    while have < rows:
        free = rng.random((20_000, n - 1))
        last = s - free.sum(axis=1)
        good = (last >= 0) & (last <= 1)
        kept.append(np.column_stack([free, last])[good])
        have += good.sum()
    return np.concatenate(kept)[:rows]


STATISTICS = {
    "first": lambda x: x[:, 0],
    "last": lambda x: x[:, -1],
    "largest": lambda x: x.max(axis=1),
    "smallest": lambda x: x.min(axis=1),
    "squares": lambda x: (x**2).sum(axis=1),
    "neighbours": lambda x: x[:, 0] * x[:, 1],
    "near one": lambda x: (x > 0.8).sum(axis=1) + 1e-6 * x[:, 0],
}


@pytest.mark.parametrize(("n", "s"), [(2, 0.3), (2, 1.7), (3, 1.5), (6, 4.1), (9, 2.5), (99, 46.3)])
def test_sampler_has_the_joint_distribution_of_rejection_sampling(n, s):
    ours, reference = slice_points(n, s, 8000), slice_points_by_rejection(n, s, 8000)
    for name, statistic in STATISTICS.items():
        assert ks_2samp(statistic(ours), statistic(reference)).pvalue > 1e-3, name
