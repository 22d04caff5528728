"""Segments: every operation against a loop over the bags, on both paths."""

import itertools
import math

import numpy as np
import pytest
import torch

from majority.data.segments import Segments

REFERENCES = {  # for one bag (size, ...)
    "sum": lambda bag: sum(bag),
    "mean": lambda bag: sum(bag) / len(bag),
    "max": lambda bag: torch.stack(list(bag)).max(dim=0).values,
    "logsumexp": lambda bag: sum(row.exp() for row in bag).log(),
    "softmax": lambda bag: torch.stack([row.exp() / sum(other.exp() for other in bag) for row in bag]),
    "gram": lambda bag: sum(torch.outer(row, row) for row in bag),
}
SIZES = {
    "ragged": [3, 1, 4, 2],
    "two large": [1, 70],
    "equal": [3, 3, 3],
    "single instances": [1, 1, 1],
    "one bag": [5],
    "one instance": [1],
}


def make_segments(sizes, scattered):
    """`scattered` takes the path of ragged bags for all sizes."""
    segments = Segments(sizes)
    if scattered:
        segments.size = None
    return segments


def random_values(sizes, shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sum(sizes), *shape, generator=generator, dtype=torch.float64)


def loop(name, values, sizes):
    bags = [REFERENCES[name](bag) for bag in values.split(sizes)]
    return torch.cat(bags) if name == "softmax" else torch.stack(bags)


SHAPES = [(), (4,), (2, 3)]
every_operation = pytest.mark.parametrize("name", REFERENCES)


def cases(name):
    """Shapes of the values, sizes of the bags, and the path."""
    return itertools.product(SHAPES[1:2] if name == "gram" else SHAPES, SIZES.values(), (False, True))


@every_operation
def test_operation_and_gradient_equal_those_of_a_loop(name):
    for shape, sizes, scattered in cases(name):
        values = random_values(sizes, shape).requires_grad_()
        out, expected = getattr(make_segments(sizes, scattered), name)(values), loop(name, values, sizes)
        torch.testing.assert_close(out, expected)
        weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        (gradient,) = torch.autograd.grad(out, values, weights)
        (expected_gradient,) = torch.autograd.grad(expected, values, weights)
        torch.testing.assert_close(gradient, expected_gradient)


def some_rows(sizes, seed=0):
    """A mask that leaves at least one row of each bag."""
    rng = np.random.default_rng(seed)
    masks = [rng.permutation(np.arange(size) < rng.integers(1, size + 1)) for size in sizes]
    return torch.from_numpy(np.concatenate(masks))


@every_operation
def test_rows_that_are_not_kept_change_nothing(name):
    """Neither the results nor the gradients, even if these rows hold huge values."""
    for shape, sizes, scattered in cases(name):
        keep = some_rows(sizes)
        values = random_values(sizes, shape)
        values[~keep] = 1e200
        values.requires_grad_()
        segments = make_segments(sizes, scattered)
        segments.keep = keep
        out = getattr(segments, name)(values)
        expected = getattr(make_segments(segments.kept_sizes.tolist(), scattered), name)(values[keep])
        torch.testing.assert_close(out[keep] if name == "softmax" else out, expected)
        assert name != "softmax" or not out[~keep].any()
        out.square().sum().backward()
        assert values.grad.isfinite().all()
        assert not values.grad[~keep].any()


def test_ids_and_spread_repeat_each_bag():
    for shape, sizes, scattered in cases("sum"):
        segments = make_segments(sizes, scattered)
        assert segments.ids.tolist() == [i for i, size in enumerate(sizes) for _ in range(size)]
        assert (len(segments), segments.n, segments.sizes.tolist()) == (len(sizes), sum(sizes), sizes)
        values = random_values([len(sizes)], shape).requires_grad_()
        spread = segments.spread(values)
        assert torch.equal(spread, torch.stack([values[i] for i in segments.ids]))
        spread.sum().backward()
        assert torch.equal(values.grad, torch.tensor(sizes).view(-1, *[1] * len(shape)).expand_as(values).double())


def test_equal_maxima_share_the_gradient():
    for scattered in (False, True):
        values = torch.tensor([1.0, 1.0, 0.0, 2.0], requires_grad=True)
        make_segments([2, 2], scattered).max(values).sum().backward()
        assert values.grad.tolist() == [0.5, 0.5, 0.0, 1.0]


def test_logsumexp_of_minus_infinity():
    for scattered in (False, True):
        low = -torch.inf
        values = torch.tensor([[low, low], [low, 0.0], [1.0, low], [2.0, 3.0]])
        out = make_segments([2, 2], scattered).logsumexp(values)
        torch.testing.assert_close(out, torch.tensor([[low, 0.0], [float(np.logaddexp(1, 2)), 3.0]]))

        values = torch.tensor([low, 0.0, 1.0, 2.0], requires_grad=True)
        make_segments([2, 2], scattered).logsumexp(values).sum().backward()
        torch.testing.assert_close(values.grad, torch.tensor([0.0, 1.0, *torch.tensor([1.0, 2.0]).softmax(0)]))


def test_huge_values_stay_finite():
    for name, size, scattered in itertools.product(("logsumexp", "softmax"), (1e4, 1e30), (False, True)):
        values = torch.tensor([size, -size, -size, -size, 0.0, size], requires_grad=True)
        out = getattr(make_segments([2, 2, 2], scattered), name)(values)
        expected = {"logsumexp": [size, math.log(2) - size, size], "softmax": [1.0, 0.0, 0.5, 0.5, 0.0, 1.0]}[name]
        torch.testing.assert_close(out, torch.tensor(expected))
        out.sum().backward()
        assert values.grad.isfinite().all()
