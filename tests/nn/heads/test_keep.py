"""Instances that are not kept: the bag output and losses of every head equal those of bags without them."""

import numpy as np
import pytest
import torch
from cases import each

from majority.data.background import Background
from majority.data.segments import Segments
from majority.data.targets import Target
from majority.nn.methods import METHODS, create_head

D, C = 6, 5
# Instances attend to each other, kept or not: an instance left out of the sum is still in the bag.
BETWEEN_INSTANCES = {"additive-transmil"}
EXACT = [name for name in METHODS if name not in BETWEEN_INSTANCES]
SIZES = {"ragged": [3, 1, 7, 2], "equal": [4, 4, 4]}
every_size = each(sizes=SIZES.values())


def make_case(name, sizes, **options):
    """A head in eval mode (in training, the batch norm inside `additive` sees all instances), features, a mask."""
    rng = np.random.default_rng(3)
    torch.manual_seed(0)
    head = create_head(name, D, C, **options).double().eval()
    keep = np.concatenate([rng.permutation(np.arange(size) < (size + 1) // 2) for size in sizes])
    features = torch.from_numpy(rng.normal(size=(sum(sizes), D)))
    target = Target.of(torch.from_numpy(rng.integers(1, C, len(sizes))), C)
    target = target._replace(instance_labels=torch.from_numpy(rng.integers(C, size=len(keep))))
    return head, features, torch.from_numpy(keep), target


def check_agreement(head, features, keep, target, sizes):
    segments = Segments(sizes, keep=keep)
    fewer = Segments(segments.kept_sizes.tolist())
    of_fewer = Target(target.allowed, instance_labels=target.instance_labels[keep])
    output, expected = head(features, segments), head(features[keep], fewer)
    torch.testing.assert_close(output.bag_log_probs, expected.bag_log_probs)
    torch.testing.assert_close(output.instance_log_probs[keep], expected.instance_log_probs)
    losses, expected_losses = head.losses(output, segments, target), head.losses(expected, fewer, of_fewer)
    torch.testing.assert_close(losses, expected_losses)
    return losses


@every_size
@pytest.mark.parametrize("name", EXACT)
def test_outputs_equal_those_of_bags_without_the_dropped_rows(name, sizes):
    check_agreement(*make_case(name, sizes), sizes)


@every_size
@pytest.mark.parametrize("name", ["count", "soft-count", "count-only", "log-mean", "adjusted-mean", "vote"])
def test_outputs_equal_those_of_bags_without_the_dropped_rows_with_a_background(name, sizes):
    check_agreement(*make_case(name, sizes, background=Background(0)), sizes)


@every_size
@pytest.mark.parametrize("background", [None, Background(0)])
def test_the_winner_share_is_estimated_from_the_kept_rows(sizes, background):
    head, features, keep, target = make_case("adjusted-mean", sizes, background=background)
    segments = Segments(sizes, keep=keep)
    shares = []
    for rows, of_rows in ((features, segments), (features[keep], Segments(segments.kept_sizes.tolist()))):
        head.train().loss.winner_share.fill_(0.2)
        head.losses(head(rows, of_rows), of_rows, target)
        shares.append(head.loss.winner_share.clone())
    torch.testing.assert_close(shares[0], shares[1])


def test_the_share_of_a_background_is_that_of_all_instances():
    """On purpose: the prior is about all instances, also those that are not counted."""
    head, features, keep, target = make_case("count", [4, 4, 4], background=Background(0, share=0.3))
    output, plain = head(features, Segments([4, 4, 4], keep=keep)), head(features, Segments([4, 4, 4]))
    head_alone, *_ = make_case("count", [4, 4, 4], background=Background(0))
    prior = [head.losses(out, None, target) - head_alone.losses(out, None, target) for out in (output, plain)]
    torch.testing.assert_close(prior[0], prior[1])


@every_size
@pytest.mark.parametrize("name", METHODS)
def test_extreme_dropped_rows_leave_gradients_finite(name, sizes):
    head, features, keep, target = make_case(name, sizes)
    head.float()
    features = torch.where(keep.unsqueeze(1), features, 1e15).float().requires_grad_()
    segments = Segments(sizes, keep=keep)
    losses = head.losses(head(features, segments), segments, target)
    losses.sum().backward()
    assert losses.isfinite().all()
    assert features.grad.isfinite().all()
    assert all(weight.grad.isfinite().all() for weight in head.parameters() if weight.grad is not None)
