"""Losses and heads as others call them: logits or features, bag ids in any order, labels."""

import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from majority import InputError, losses
from majority.data.background import Background
from majority.data.labels import SEVERAL
from majority.data.segments import Segments
from majority.data.targets import Target
from majority.losses import inputs, voting
from majority.nn.heads import Additive, AdditiveTransMIL, Attention, FeaturePool

N, B, C = 67, 7, 5
LOSSES = [
    losses.CountLoss,
    losses.SoftCountLoss,
    losses.CountOnlyLoss,
    losses.LogMeanLoss,
    losses.AdjustedMeanLoss,
    losses.OutputMeanLoss,
    losses.VoteLoss,
    losses.NaiveLoss,
    losses.ProportionLoss,
]
every_loss = pytest.mark.parametrize("kind", LOSSES)


def make_case(kind=None, dtype=torch.float64, seed=0):
    """Random logits of ragged bags, shuffled, and labels; every bag has an instance, and one has no label."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.cat([torch.arange(B), torch.randint(B, (N - B,), generator=generator)])
    logits = 2 * torch.randn(N, C, generator=generator, dtype=dtype)
    labels = torch.tensor([0, 3, -1, 2, 4, 1, 1])
    if kind is losses.ProportionLoss:
        labels = torch.rand(B, C, generator=generator, dtype=dtype)
        labels = labels / labels.sum(dim=1, keepdim=True)
    weights = torch.rand(N, generator=generator, dtype=dtype) + 0.1
    return logits[ids.argsort()].requires_grad_(), ids[torch.randperm(N, generator=generator)], labels, weights


def written_out(logits, ids, labels, weights=None):
    """The counting network, bag by bag."""
    found = []
    for bag in range(len(labels)):
        if labels[bag] < 0:
            continue
        p = torch.softmax(logits[ids == bag] / 0.1, dim=1)
        w = torch.ones(len(p), dtype=p.dtype) if weights is None else weights[ids == bag]
        shares = (w[:, None] * p).sum(dim=0) / w.sum()
        found.append(-torch.log_softmax(shares / 0.1, dim=0)[labels[bag]])
    return torch.stack(found)


@pytest.mark.parametrize("weighted", [False, True])
def test_count_loss_equals_its_formula_in_value_and_gradient(weighted):
    for seed in range(5):
        logits, ids, labels, weights = make_case(seed=seed)
        given = weights if weighted else None
        expected = written_out(logits, ids, labels, given)
        loss = losses.CountLoss()(logits, ids, labels, weights=given)
        torch.testing.assert_close(loss, expected.mean(), rtol=1e-13, atol=1e-13)
        (gradient,), (right,) = (torch.autograd.grad(value, logits) for value in (loss, expected.mean()))
        torch.testing.assert_close(gradient, right, rtol=1e-12, atol=1e-13)
        total = losses.CountLoss(reduction="sum")(logits, ids, labels, weights=given)
        torch.testing.assert_close(total, expected.sum(), rtol=1e-13, atol=1e-13)
        each = losses.CountLoss(reduction="none")(logits, ids, labels, weights=given)
        torch.testing.assert_close(each[labels >= 0], expected, rtol=1e-13, atol=1e-13)
        assert each[labels < 0] == 0


@every_loss
def test_shuffled_ids_are_the_packed_form_of_our_own_loop(kind):
    """Whose values are tested against references in test_losses.py."""
    logits, ids, labels, weights = make_case(kind)
    order = ids.argsort(stable=True)
    segments = Segments(torch.bincount(ids).tolist(), weights=weights[order])
    ours = kind()
    output = ours.predict(logits[order], segments)
    if kind is losses.ProportionLoss:
        expected = -(labels * output.bag_log_probs).sum(dim=1)
    else:
        expected = ours.compute(output, segments, Target.of(labels.clamp(min=0), C)) * (labels >= 0)
    found = kind(reduction="none")(logits, ids, labels, weights=weights)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@every_loss
def test_gradients_pass_gradcheck(kind):
    logits, ids, labels, weights = make_case(kind)
    small = (0.2 * logits.detach()[:12]).requires_grad_()
    ids = torch.cat([torch.arange(B), ids[:5]])
    if kind is losses.AdjustedMeanLoss:
        loss_fn = kind(label_counts=torch.tensor([5, 1, 2, 2, 2])).double().eval()  # training changes its state
    else:
        loss_fn = kind()
    assert torch.autograd.gradcheck(lambda x: loss_fn(x, ids, labels, weights=weights[:12]), small)


@pytest.mark.parametrize("kind", [kind for kind in LOSSES if issubclass(kind, losses.VotingLoss)])
def test_masks_runners_up_and_a_background(kind):
    logits, ids, labels, _ = make_case()
    loss_fn = kind(reduction="none", background=4)
    labels = labels.clamp(max=3)
    masks = torch.eye(C + 1, C, dtype=torch.bool)[labels]  # the last row, of -1, is empty
    assert torch.equal(loss_fn.eval()(logits, ids, masks), loss_fn(logits, ids, labels))
    either = masks.clone()
    either[0, 1] = True
    one, other = (kind(reduction="none", background=Background(4)).eval()(logits, ids, m) for m in (masks, either))
    assert other[0] < one[0]
    assert torch.equal(other[1:], one[1:])
    ranked = loss_fn(logits, ids, labels, runner_up=torch.tensor([1, -1, -1, 0, 0, 3, -1]))
    assert (
        (ranked > loss_fn(logits, ids, labels)) == torch.tensor([True, False, False, True, True, True, False])
    ).all()


@every_loss
def test_precision(kind):
    logits, ids, labels, _ = make_case(kind, torch.float32)
    expected = kind()(logits, ids, labels)
    assert expected.dtype == torch.float32
    assert kind()(logits.half(), ids, labels).dtype == torch.float32
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


def test_labels_are_counted_as_they_come():
    """With the same labels in every step, the same as if their counts had been given."""
    logits, ids, labels, _ = make_case(dtype=torch.float32)
    as_they_come = losses.AdjustedMeanLoss()
    for _ in range(3):
        as_they_come(logits, ids, labels)
    counts = 3 * torch.bincount(labels[labels >= 0], minlength=C)
    loaded = losses.AdjustedMeanLoss()
    loaded.load_state_dict(as_they_come.state_dict())
    given = losses.AdjustedMeanLoss(label_counts=counts.numpy()).eval()
    given.winner_share.copy_(as_they_come.winner_share)
    torch.testing.assert_close(as_they_come.eval()(logits, ids, labels), given(logits, ids, labels))
    assert loaded(logits, ids, labels) == as_they_come.train()(logits, ids, labels)
    assert torch.equal(loaded.label_shares, as_they_come.label_shares)


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
        ({"labels": torch.tensor([0, 2])}, ("labels[1] is 2", "-1 (none), 0 to 1")),
        ({"labels": torch.tensor([0, -2])}, ("labels[1] is -2",)),
        ({"labels": torch.tensor([0.0, 1.0])}, ("labels", "float32")),
        ({"labels": torch.ones(2, 3, dtype=torch.bool)}, ("labels", "(2, 3)", "2 columns")),
        ({"labels": LABELS[:0]}, ("labels", "(0,)")),
        ({"labels": torch.ones(2, 2)}, ("labels", "float32", "mask")),
        ({"labels": [0, 1]}, ("labels", "list", "tensor")),
        ({"labels": LABELS.to("meta")}, ("labels", "meta", "cpu")),
        ({"weights": torch.tensor([1.0, 0, 1])}, ("weights", "above 0")),
        ({"weights": torch.ones(2)}, ("weights", "(2,)", "(3,)")),
        ({"runner_up": torch.tensor([0, 0])}, ("runner_up", "winner")),
        ({"runner_up": torch.tensor([2, 0])}, ("runner_up[0] is 2",)),
        ({"runner_up": LABELS[:1]}, ("runner_up", "(1,)", "(2,)")),
        ({"labels": torch.tensor([[True, True], [True, False]]), "runner_up": LABELS}, ("runner_up", "one winner")),
        ({"weights": torch.tensor([1.0, torch.inf, 1])}, ("weights", "finite")),
    ],
)
def test_wrong_inputs_are_one_message(change, facts):
    given = {"logits": torch.zeros(3, 2), "bag_ids": IDS, "labels": LABELS} | change
    with pytest.raises(InputError) as error:
        losses.CountLoss(check=True)(**given)
    assert all(fact in str(error.value) for fact in facts), error.value


def test_a_loss_says_what_it_cannot_learn_from():
    logits, masks = torch.zeros(3, 2), torch.ones(2, 2, dtype=torch.bool)
    assert SEVERAL not in losses.NaiveLoss.label_kinds
    with pytest.raises(InputError, match=r"NaiveLoss cannot .* mask"):
        losses.NaiveLoss()(logits, IDS, masks)
    with pytest.raises(InputError, match=r"OutputMeanLoss cannot .* runner-up"):
        losses.OutputMeanLoss()(logits, IDS, LABELS, runner_up=torch.tensor([1, 0]))
    with pytest.raises(InputError, match=r"background is 2.* 0 to 1"):
        losses.CountLoss(background=2)(logits, IDS, LABELS)
    with pytest.raises(InputError, match="labelled 1, the background"):
        losses.CountLoss(background=1)(logits, IDS, LABELS)
    with pytest.raises(InputError, match=r"ProportionLoss.* proportions"):
        losses.ProportionLoss()(logits, IDS, LABELS)
    with pytest.raises(InputError, match=r"reduction='avg'.*mean, sum, none"):
        losses.CountLoss(reduction="avg")


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


@pytest.mark.parametrize(
    "make", [FeaturePool, Attention, Additive, AdditiveTransMIL, lambda d, c: FeaturePool(d, c, "max")]
)
def test_pooling_heads_take_ids_in_any_order(make):
    torch.manual_seed(0)
    head = make(6, C).eval()
    _, ids, _, _ = make_case()
    features, order = torch.randn(N, 6), ids.argsort(stable=True)
    packed = head(features[order], Segments(torch.bincount(ids).tolist()))
    found = head(features, ids)
    torch.testing.assert_close(found.bag_log_probs, packed.bag_log_probs)
    torch.testing.assert_close(found.instance_log_probs[order], packed.instance_log_probs)
    torch.testing.assert_close(head(features, ids, B).bag_log_probs, packed.bag_log_probs)
    with torch.autocast("cpu", torch.bfloat16):
        assert head(features, ids).bag_log_probs.dtype == torch.float32
    with pytest.raises(InputError, match=f"{N} whole numbers"):
        head(features, ids[:2])


def test_losses_and_data_load_nothing_heavy():
    heavy = "pandas", "PIL", "rich", "pydantic", "sklearn", "scipy", "h5py", "typer", "cyclopts"
    code = f"import sys, majority.losses, majority.data.dataset; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
