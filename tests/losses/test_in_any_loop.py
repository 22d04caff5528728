"""Losses and heads as others call them: logits or features, bag ids in any order, labels."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from references import of_one_bag
from torch._subclasses.fake_tensor import FakeTensorMode

from majority import InputError, losses
from majority.losses import inputs, voting
from majority.nn.heads import Additive, AdditiveTransMIL, Attention, FeaturePool

N, B, C = 67, 7, 5
LOSSES = {
    "count": losses.CountLoss,
    "soft-count": losses.SoftCountLoss,
    "count-only": losses.CountOnlyLoss,
    "log-mean": losses.LogMeanLoss,
    "adjusted-mean": losses.AdjustedMeanLoss,
    "output-mean": losses.OutputMeanLoss,
    "vote": losses.VoteLoss,
    "naive": losses.NaiveLoss,
    "proportion": losses.ProportionLoss,
}
every_loss = pytest.mark.parametrize("kind", LOSSES.values())


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
    options = {"label_counts": torch.tensor([5, 1, 2, 2, 2])} if name == "adjusted-mean" else {}
    logits, ids, labels, weights = make_case(kind)
    makes = {reduction: kind(reduction=reduction, **options).double().eval() for reduction in ("none", "sum", "mean")}
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


@pytest.mark.parametrize("kind", [kind for kind in LOSSES.values() if issubclass(kind, losses.VotingLoss)])
def test_masks_runners_up_and_a_background(kind):
    logits, ids, labels, _ = make_case()
    loss_fn = kind(reduction="none", background=4).eval()
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


@every_loss
def test_precision(kind):
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


@every_loss
def test_no_value_is_read_on_the_host(kind, monkeypatch):
    """Fake tensors have no values: to read one is an error."""
    for module in (inputs, voting):
        monkeypatch.setattr(module, "may_read", lambda tensor, check: check)  # as on a GPU
    given = make_case(kind, torch.float32)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        logits, ids, labels, weights = (mode.from_tensor(part.detach()) for part in given)
        assert kind()(logits, ids, labels, weights=weights).shape == ()
        with pytest.raises(RuntimeError):
            kind(check=True)(logits, ids, labels, weights=weights)


@every_loss
def test_a_compiled_step_has_no_graph_break(kind):
    logits, ids, labels, weights = make_case(kind, torch.float32)
    torch._dynamo.reset()
    compiled = torch.compile(kind(), fullgraph=True, backend="aot_eager")
    found, expected = (fn(logits, ids, labels, weights=weights) for fn in (compiled, kind()))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(loss, logits)[0] for loss in (found, expected)))


def test_the_state_of_adjusted_mean():
    """Labels that are counted as they come are the same as given counts; validation changes nothing."""
    logits, ids, labels, _ = make_case(dtype=torch.float32)
    as_they_come = losses.AdjustedMeanLoss()
    for _ in range(3):
        as_they_come(logits, ids, labels)
    assert as_they_come.winner_share != 1 / C
    given = losses.AdjustedMeanLoss(label_counts=3 * torch.bincount(labels[labels >= 0], minlength=C)).eval()
    given.winner_share.copy_(as_they_come.winner_share)
    loaded = losses.AdjustedMeanLoss()
    loaded.load_state_dict(as_they_come.state_dict())
    before = as_they_come.eval().winner_share.clone()
    torch.testing.assert_close(as_they_come(logits, ids, labels), given(logits, ids, labels))
    assert torch.equal(as_they_come.winner_share, before)
    assert loaded(logits, ids, labels) == as_they_come.train()(logits, ids, labels)
    assert torch.equal(loaded.label_shares, as_they_come.label_shares)


def test_adjusted_mean_follows_the_share_that_winners_hold_among_the_votes():
    logits, ids, labels, _ = make_case()
    loss_fn, p = losses.AdjustedMeanLoss(background=4), logits.detach().softmax(dim=1)
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
        ({"logits": torch.zeros(3, 2, dtype=torch.int64)}, ("logits", "int64")),
        ({"logits": torch.tensor([[0.0, 1], [torch.nan, 0], [0, 0]])}, ("NaN", "row 1")),
        ({"bag_ids": IDS[:2]}, ("bag_ids", "(2,)", "(3,)")),
        ({"bag_ids": IDS.float()}, ("bag_ids", "float32", "whole")),
        ({"bag_ids": torch.tensor([0, 1, 2])}, ("bag_ids[2] is 2", "0 to 1")),
        ({"bag_ids": torch.tensor([1, 1, 1])}, ("bag 0", "empty")),
        ({"labels": torch.tensor([0, 2])}, ("labels[1] is 2", "-1 (none)", "0 to 1")),
        ({"labels": torch.tensor([0.0, 1.0])}, ("labels", "float32")),
        ({"labels": torch.ones(2, 3, dtype=torch.bool)}, ("labels", "(2, 3)", "mask", "2")),
        ({"labels": LABELS[:0]}, ("labels", "(0,)")),
        ({"labels": [0, 1]}, ("labels", "list", "tensor")),
        ({"labels": LABELS.to("meta")}, ("labels", "meta", "cpu")),
        ({"weights": torch.tensor([1.0, torch.inf, 1])}, ("weights", "above 0", "finite")),
        ({"weights": torch.ones(2)}, ("weights", "(2,)", "(3,)")),
        ({"runner_up": torch.tensor([0, 0])}, ("runner_up", "winner")),
        ({"runner_up": torch.tensor([2, 0])}, ("runner_up[0] is 2",)),
        ({"runner_up": LABELS[:1]}, ("runner_up", "(1,)", "(2,)")),
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
        (lambda: losses.CountLoss(background=2), {}, "background is 2.* 0 to 1"),
        (lambda: losses.CountLoss(background=1), {}, "labelled 1, the background"),
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
