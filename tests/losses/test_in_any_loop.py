"""Losses and heads as others call them: logits or features, bag ids in any order, labels."""

import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from references import of_one_bag
from torch._subclasses.fake_tensor import FakeTensorMode

from majority import InputError, losses
from majority.nn.heads import Additive, AdditiveTransMIL, Attention, FeaturePool

N, B, C = 67, 7, 5
LOSSES = {
    "count": losses.CountLoss,
    "soft-count": losses.SoftCountLoss,
    "count-only": losses.CountOnlyLoss,
    "log-mean": losses.LogMeanLoss,
    "adjusted-mean": partial(losses.AdjustedMeanLoss, label_counts=[5, 1, 2, 2, 2]),
    "output-mean": losses.OutputMeanLoss,
    "vote": losses.VoteLoss,
    "naive": losses.NaiveLoss,
    "proportion": losses.ProportionLoss,
}


def make_case(kind=None, dtype=torch.float64, seed=0):
    """Random logits of ragged bags, shuffled, and labels; every bag has an instance, and one has no label."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.cat([torch.arange(B), torch.randint(B, (N - B,), generator=generator)])
    logits = 2 * torch.randn(N, C, generator=generator, dtype=dtype)
    labels = torch.tensor([0, 3, -1, 2, 4, 1, 1])
    if kind is losses.ProportionLoss:
        labels = torch.rand(B, C, generator=generator, dtype=dtype)
        labels = labels / labels.sum(dim=1, keepdim=True)
        labels[2] = 0
    weights = torch.rand(N, generator=generator, dtype=dtype) + 0.1
    return logits[ids.argsort()].requires_grad_(), ids[torch.randperm(N, generator=generator)], labels, weights


def test_a_loss_of_one_s_own_needs_only_its_prediction():
    class Mean(losses.BagLoss):
        def predict(self, logits, segments):
            log_probs = logits.log_softmax(dim=1)
            return losses.BagOutput(log_probs, segments.mean(log_probs.exp()).log())

    logits, ids, labels, _ = make_case()
    found = Mean(reduction="none")(logits, ids, labels)
    expected = [-logits[ids == bag].softmax(dim=1)[:, label].mean().log() for bag, label in enumerate(labels.tolist())]
    torch.testing.assert_close(found, torch.where(labels == -1, 0.0, torch.stack(expected)))


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_equals_its_reference(name):
    """In value, with every reduction, and in its gradient."""
    kind = LOSSES[name]
    logits, ids, labels, weights = make_case(kind)
    makes = {reduction: kind(reduction=reduction).double().eval() for reduction in ("none", "sum", "mean")}
    head = SimpleNamespace(classifier=SimpleNamespace(weight=torch.eye(C).double(), bias=None), loss=makes["none"])
    found = {reduction: loss_fn(logits, ids, labels, weights=weights) for reduction, loss_fn in makes.items()}
    for bag in range(B):
        rows = ids == bag
        if bag == 2:
            assert found["none"][bag] == 0
        elif name == "proportion":
            shares = (weights[rows, None] * logits[rows].softmax(dim=1)).sum(dim=0) / weights[rows].sum()
            torch.testing.assert_close(found["none"][bag], -(labels[bag] * shares.log()).sum())
        else:
            *_, expected = of_one_bag(name, head, logits[rows], int(labels[bag]), weights=weights[rows])
            torch.testing.assert_close(found["none"][bag], expected)
    torch.testing.assert_close(found["sum"], found["none"].sum())
    torch.testing.assert_close(found["mean"], found["sum"] / 6)
    few, fewer = (0.2 * logits.detach()[:12]).requires_grad_(), torch.cat([torch.arange(B), ids[:5]])
    loss_fn = makes["mean"]
    assert torch.autograd.gradcheck(lambda x: loss_fn(x, fewer, labels, weights=weights[:12]), few)


@pytest.mark.parametrize("name", ["count", "adjusted-mean", "vote"])
def test_masks_runners_up_and_a_background(name):
    logits, ids, labels, _ = make_case()
    loss_fn = LOSSES[name](reduction="none", background=4).eval()
    labels = labels.clamp(max=3)
    masks = torch.eye(C + 1, C, dtype=torch.bool)[labels]  # the last row, of -1, is empty
    plain = loss_fn(logits, ids, labels)
    assert torch.equal(loss_fn(logits, ids, masks), plain)
    masks[0, 1] = True
    either = loss_fn(logits, ids, masks)
    assert either[0] < plain[0]
    assert torch.equal(either[1:], plain[1:])
    ranked = loss_fn(logits, ids, labels, runner_up=torch.tensor([1, -1, -1, 0, 0, 3, -1]))
    assert (ranked > plain).tolist() == [True, False, False, True, True, True, False]


def test_precision():
    for kind in LOSSES.values():
        logits, ids, labels, _ = make_case(kind, torch.float32)
        expected = kind()(logits, ids, labels)
        assert expected.dtype == kind()(logits.half(), ids, labels).dtype == torch.float32
        assert kind()(logits.double(), ids, labels).dtype == torch.float64


class Mixing(losses.LogMeanLoss):
    def predict(self, logits, segments):
        return super().predict(logits @ torch.eye(C), segments)


def test_autocast_does_not_reach_into_a_loss():
    logits, ids, labels, _ = make_case(dtype=torch.float32)
    expected = losses.LogMeanLoss()(logits, ids, labels)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(Mixing()(logits, ids, labels), expected)


def test_no_value_is_read_on_the_host(monkeypatch):
    """Fake tensors have no values: to read one is an error."""
    monkeypatch.setattr(losses.BagLoss, "may_read", lambda loss, tensor: loss.check)  # as on a GPU
    for kind in LOSSES.values():
        given = make_case(kind, torch.float32)
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            logits, ids, labels, weights = (mode.from_tensor(part.detach()) for part in given)
            loss_fn = kind(check=True).to("cpu")
            with pytest.raises(RuntimeError):
                loss_fn(logits, ids, labels, weights=weights)
            loss_fn.check = False
            assert loss_fn(logits, ids, labels, weights=weights).shape == ()


@pytest.mark.parametrize("name", ["count", "adjusted-mean", "vote", "proportion"])
def test_a_compiled_step_has_no_graph_break(name):
    kind = LOSSES[name]
    logits, ids, labels, weights = make_case(kind, torch.float32)
    torch._dynamo.reset()
    compiled = torch.compile(kind(), fullgraph=True, backend="aot_eager")
    found, expected = (fn(logits, ids, labels, weights=weights) for fn in (compiled, kind()))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(loss, logits)[0] for loss in (found, expected)))


def test_the_state_of_adjusted_mean():
    """It follows training alone, and is saved with the loss."""
    logits, ids, labels, _ = make_case(dtype=torch.float32)
    trained, loaded = (losses.AdjustedMeanLoss(label_counts=counts) for counts in ([5, 1, 2, 2, 2], [0] * C))
    trained(logits, ids, labels)
    before = trained.eval().winner_share.clone()
    expected = trained(logits, ids, labels)
    assert torch.equal(trained.winner_share, before)
    assert before != 1 / C
    loaded.load_state_dict(trained.state_dict())
    assert loaded.eval()(logits, ids, labels) == expected


def test_adjusted_mean_follows_the_share_that_winners_hold_among_the_votes():
    logits, ids, labels, _ = make_case()
    loss_fn, p = losses.AdjustedMeanLoss(label_counts=[0] * C, background=4).double(), logits.detach().softmax(dim=1)
    loss_fn(logits, ids, labels.clamp(max=3))
    held = [p[ids == b, y].sum() / p[ids == b, :4].sum() for b, y in enumerate(labels.clamp(max=3)) if y >= 0]
    torch.testing.assert_close(loss_fn.winner_share, 0.95 / C + 0.05 * torch.stack(held).mean())
    nobody_votes = torch.zeros(N, C).index_fill(1, torch.tensor([4]), 1e4)
    loss_fn(nobody_votes.double(), ids, labels.clamp(max=3))
    assert 0 <= loss_fn.winner_share <= 1


IDS, LABELS = torch.tensor([0, 1, 1]), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"logits": torch.zeros(3)}, ("logits", "(3,)", "(instances, classes)")),
        ({"bag_ids": IDS.float()}, ("bag_ids", "float32", "whole")),
        ({"bag_ids": torch.tensor([0, 1, 2])}, ("bag_ids[2] is 2", "0 to 1")),
        ({"bag_ids": torch.tensor([1, 1, 1])}, ("bag 0", "empty")),
        ({"labels": torch.tensor([0, 2])}, ("labels[1] is 2", "-1 (none)", "0 to 1")),
        ({"labels": torch.ones(2, 3, dtype=torch.bool)}, ("labels", "(2, 3)", "mask", "2")),
        ({"weights": torch.tensor([1.0, torch.inf, 1])}, ("weights", "above 0", "finite")),
        ({"weights": torch.ones(2)}, ("weights", "(2,)", "(3,)")),
        ({"runner_up": torch.tensor([0, 0])}, ("runner_up", "winner")),
        ({"labels": torch.tensor([[True, True], [True, False]]), "runner_up": LABELS}, ("runner_up", "one winner")),
    ],
)
def test_wrong_inputs_are_one_message(change, facts):
    given = {"logits": torch.zeros(3, 2), "bag_ids": IDS, "labels": LABELS} | change
    with pytest.raises(InputError) as error:
        losses.CountLoss(check=True)(**given)
    assert all(fact in str(error.value) for fact in facts), error.value


@pytest.mark.parametrize(
    ("loss", "change", "fact"),
    [
        (losses.NaiveLoss, {"labels": torch.ones(2, 2, dtype=torch.bool)}, "NaiveLoss cannot .* mask"),
        (losses.OutputMeanLoss, {"runner_up": torch.tensor([1, 0])}, "OutputMeanLoss cannot .* runner-up"),
        (losses.ProportionLoss, {}, "ProportionLoss.* proportions"),
        (lambda: losses.CountLoss(reduction="avg"), {}, "reduction='avg'.*mean, sum, none"),
    ],
)
def test_a_loss_says_what_it_cannot_learn_from(loss, change, fact):
    with pytest.raises(InputError, match=fact):
        loss()(**{"logits": torch.zeros(3, 2), "bag_ids": IDS, "labels": LABELS} | change)


def test_evaluation_in_a_loop_of_one_s_own():
    logits, ids, _, weights = make_case()
    counts = losses.count_classes(logits, ids, B, weights)
    log_probs = losses.bag_log_probs(logits, ids)
    for bag in range(B):
        rows = ids == bag
        expected = torch.zeros(C, dtype=torch.float64).index_add(0, logits[rows].argmax(dim=1), weights[rows])
        torch.testing.assert_close(counts[bag], expected)
        mean = torch.softmax(logits[rows] / 0.1, dim=1).mean(dim=0)
        torch.testing.assert_close(log_probs[bag], torch.log_softmax(mean / 0.1, dim=0))
    close = torch.eye(2, dtype=torch.bfloat16)[torch.arange(599) % 2]  # 300 and 299, which bf16 cannot tell apart
    assert losses.count_classes(close, torch.zeros(599, dtype=torch.int64)).tolist() == [[300, 299]]


@pytest.mark.parametrize("make", [FeaturePool, Attention, Additive, AdditiveTransMIL])
def test_pooling_heads_take_ids_in_any_order(make):
    torch.manual_seed(0)
    head = make(6, C).eval()
    _, ids, _, _ = make_case()
    features, order = torch.randn(N, 6), ids.argsort(stable=True)
    one, other = head(features, ids), head(features[order], ids[order], B)
    torch.testing.assert_close(one.bag_log_probs, other.bag_log_probs)
    torch.testing.assert_close(one.instance_log_probs[order], other.instance_log_probs)
    with torch.autocast("cpu", torch.bfloat16):
        assert head(features, ids).bag_log_probs.dtype == torch.float32
    with pytest.raises(InputError, match=f"{N} whole numbers"):
        head(features, ids[:2])


def test_losses_and_data_load_nothing_heavy():
    heavy = "pandas", "PIL", "rich", "pydantic", "sklearn", "scipy", "h5py", "typer", "cyclopts"
    code = f"import sys, majority.losses, majority.data.dataset; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
