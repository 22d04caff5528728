"""What the reference of single bags does not show of heads that pool features."""

import pytest
import torch

from majority import InputError
from majority.data.segments import Segments
from majority.nn.heads.feature_pool import p_norm
from majority.nn.methods import create_head


def test_p_norm_has_the_right_gradient_and_none_if_nothing_is_positive():
    features = torch.randn(9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: p_norm(x, Segments([3, 1, 5])), features)
    dead = torch.zeros(3, 2, requires_grad=True)
    p_norm(dead, Segments([2, 1])).sum().backward()
    assert (dead.grad == 0).all()


def test_p_norm_neither_overflows_nor_underflows():
    pooled = p_norm(torch.tensor([[1e20, 1e-20], [1e20, 1e-20]]), Segments([2]))
    torch.testing.assert_close(pooled, 2**0.25 * torch.tensor([[1e20, 1e-20]]))


def test_additive_batch_norm_of_one_instance_keeps_its_statistics():
    head = create_head("additive", 6, 5).train()
    before = {name: value.clone() for name, value in head.state_dict().items()}
    head(torch.randn(1, 6), Segments([1]))
    assert all(torch.equal(value, before[name]) for name, value in head.state_dict().items())
    head(torch.randn(2, 6), Segments([1, 1]))
    assert not torch.equal(head.score[1].running_mean, before["score.1.running_mean"])


def test_the_p_of_a_norm_is_an_option():
    features = torch.rand(7, 3, dtype=torch.float64)
    for method, pool in (
        ("feature-pnorm", lambda piece, p: torch.linalg.vector_norm(piece, ord=p, dim=0)),
        ("feature-lse", lambda piece, p: (p * piece).exp().sum(dim=0).log()),
    ):
        for p in (1, 2.5, 20):
            head = create_head(method, 3, 2, p=p).double()
            pooled = torch.stack([pool(piece, p) for piece in features.split([3, 4])])
            expected = head.classifier(pooled).log_softmax(dim=1)
            torch.testing.assert_close(head(features, Segments([3, 4])).bag_log_probs, expected)
    for method, p in (("feature-pnorm", 0.5), ("feature-pnorm", 1e6), ("feature-mean", 4)):
        with pytest.raises(InputError, match="p="):
            create_head(method, 3, 2, p=p)
