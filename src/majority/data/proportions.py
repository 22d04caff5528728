"""Class proportions of a bag with a given majority, drawn uniformly, and the counts that are nearest to them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

TABLE_ENTRIES = 2_000_000  # the most entries of the sampler's table in memory: 16 MB


def sample_proportions(majorities: ArrayLike, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Draw class proportions with these maxima, 1/C to 1: (b,) -> (b, C), the majority in column 0.

    The other columns are uniform on {0 <= p_j <= m, sum = 1 - m}. They are drawn without rejection.

    >>> proportions = sample_proportions([0.2, 0.5, 1.0], n_classes=5, rng=np.random.default_rng(0))
    >>> proportions.shape, proportions[:, 0].tolist(), proportions.sum(axis=1).round(9).tolist()
    ((3, 5), [0.2, 0.5, 1.0], [1.0, 1.0, 1.0])
    >>> proportions[0].round(9).tolist()
    [0.2, 0.2, 0.2, 0.2, 0.2]
    """
    top = np.asarray(majorities, dtype=float)
    others = n_classes - 1
    sums = np.clip((1 - top) / top, 0, others)  # of the other proportions, in units of the majority
    proportions = np.empty((len(top), n_classes))
    proportions[:, 0] = top
    rows = max(1, TABLE_ENTRIES // (others * (others // 2 + 2)))
    for start in range(0, len(top), rows):
        chunk = slice(start, start + rows)
        proportions[chunk, 1:] = top[chunk, None] * _fixed_sum_points(sums[chunk], others, rng)
    return proportions


def round_counts(proportions: ArrayLike, size: int | np.ndarray) -> np.ndarray:
    """Round by largest remainder: (b, C) proportions -> (b, C) counts that sum to `size`, each within 1 of size * p.

    `size` is one number, or one number per row. Equal remainders favour the earlier column, so that a majority in
    column 0 may be tied but is never overtaken.

    >>> round_counts([[0.5, 0.25, 0.25], [0.36, 0.34, 0.3]], size=6).tolist()
    [[3, 2, 1], [2, 2, 2]]
    """
    shares = np.asarray(proportions, dtype=float)
    sizes = np.broadcast_to(size, len(shares))[:, None]  # (b, 1)
    exact = sizes * shares
    counts = np.floor(exact).astype(np.int64)
    missing = sizes - counts.sum(axis=1, keepdims=True)  # (b, 1)
    by_remainder = np.argsort(counts - exact, axis=1, kind="stable")
    gets_one = np.empty_like(counts)
    np.put_along_axis(gets_one, by_remainder, np.arange(counts.shape[1]) < missing, axis=1)
    return counts + gets_one


def _fixed_sum_points(sums: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw points that are uniform on the slices {x in [0, 1]^n, sum x = s}: (b,) sums -> (b, n).

    Seen from its centre, where every x_i is s/n, a slice is a union of cones over its facets x_i = 0 and x_i = 1. The
    facets are such slices too: choose a facet by the volume of its cone, move the fraction r = U^(1/(n-1)) of the way
    to it, and repeat inside it. The heights of the cones are in the ratio s/n to 1 - s/n; the volume of a facet is a
    density of the sum of n - 1 uniform numbers.
    """
    mirrored = sums > n / 2
    sums = np.where(mirrored, n - sums, sums)  # at most half of the chosen facets are x_i = 1: a smaller table
    density = _uniform_sum_densities(sums, n)
    rows = np.arange(len(sums))
    at_one = np.zeros(len(sums), dtype=np.int64)  # facets x_i = 1 chosen so far
    shift, scale = np.zeros(len(sums)), np.ones(len(sums))  # of the current facet inside the slice
    points = np.empty((len(sums), n))
    for left in range(n, 1, -1):
        rest = sums - at_one
        to_zero = rest * density[left - 1, rows, at_one]
        to_one = (left - rest) * density[left - 1, rows, at_one + 1]
        volume = to_zero + to_one
        chance = (rest > left / 2).astype(float)  # if both volumes are 0, only this facet is left
        np.divide(to_one, volume, out=chance, where=volume > 0)
        facet = rng.random(len(sums)) < chance  # 1: the facet is x_i = 1
        r = rng.random(len(sums)) ** (1 / (left - 1))
        centre = (1 - r) * rest / left
        points[:, left - 1] = shift + scale * (centre + r * facet)
        shift += scale * centre
        scale *= r
        at_one += facet
    points[:, 0] = shift + scale * (sums - at_one)
    points = np.clip(np.where(mirrored[:, None], 1 - points, points), 0, 1)
    return rng.permuted(points, axis=1)


def _uniform_sum_densities(sums: np.ndarray, n: int) -> np.ndarray:
    """Entry [m, row, j]: the density at sums[row] - j of the sum of m uniform numbers, m = 1 ... n - 1.

    Densities are known up to one factor per (m, row). No term of
    f_m(t) = [t f_{m-1}(t) + (m - t) f_{m-1}(t - 1)] / (m - 1) is negative, so that nothing cancels.
    """
    j = np.arange(int(sums.max()) + 2)
    t = sums[:, None] - j  # (b, J)
    table = np.zeros((max(n, 2), *t.shape))
    table[1] = np.floor(sums)[:, None] == j
    for m in range(2, n):
        table[m] = t * table[m - 1]
        table[m, :, :-1] += (m - t[:, :-1]) * table[m - 1, :, 1:]
        top = table[m].max(axis=1, keepdims=True)
        table[m] /= np.where(top > 0, top, 1)  # prevents underflow for hundreds of classes
    return table
