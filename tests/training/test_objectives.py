"""Objectives other than the method's own loss: what they minimise, what they keep, and which labels they see."""

import numpy as np
import pytest
import torch

from majority import Bags, Settings, build_model, evaluate, fit
from majority.data.loader import BagLoader
from majority.errors import InputError
from majority.losses import BagOutput
from majority.predict.evaluate import outputs
from majority.training.objectives import (
    Averaged,
    BagLoss,
    Contrastive,
    Distill,
    contrastive_losses,
    instance_losses,
    mixed_contrastive_losses,
)


def images(n_bags=6, size=4, seed=0):
    """8x8 images with a bright square on the left or on the right."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n_bags * size)
    store = rng.integers(0, 60, (n_bags * size, 8, 8, 1)).astype(np.uint8)
    store[truth == 0, 2:6, 1:4] += 150
    store[truth == 1, 2:6, 4:7] += 150
    majority = (truth.reshape(n_bags, size).mean(axis=1) > 0.5).astype(int)
    offsets = np.arange(n_bags + 1) * size
    return Bags(store, np.arange(len(truth)), offsets, majority, ["left", "right"], instance_labels=truth)


def plain_contrastive(first, second, temperature):
    """One anchor at a time, in float64, as in the two papers."""
    views = [v / v.norm() for v in torch.cat([first, second]).double()]
    n, losses, nearest = len(first), [], []
    for a in range(2 * n):
        partner = (a + n) % (2 * n)
        others = [b for b in range(2 * n) if b not in (a, partner)]
        terms = [torch.exp(views[a] @ views[b] / temperature) for b in others]
        losses.append(-(views[a] @ views[partner]) / temperature + torch.log(sum(terms)))
        nearest.append(all(views[a] @ views[partner] > views[a] @ views[b] for b in others))
    return torch.stack([(losses[i] + losses[i + n]) / 2 for i in range(n)]), torch.tensor(nearest[:n])


def test_contrastive_losses_are_the_plain_ones():
    torch.manual_seed(0)
    temperature = 0.3
    base = torch.randn(7, 5)
    first, second = base + 0.3 * torch.randn(7, 5), base + 0.3 * torch.randn(7, 5)
    losses, nearest = contrastive_losses(first, second, temperature)
    expected, near = plain_contrastive(first, second, temperature)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(nearest, near)
    assert 0 < nearest.sum() < 7, "both answers occur"


def plain_mixed(mixed, views, other, share, temperature):
    """One anchor at a time, in float64: the cross-entropy between the parts of a mixed view and its similarities."""
    mixed, views = ([v / v.norm() for v in each.double()] for each in (mixed, views))
    losses, nearest = [], []
    for i, anchor in enumerate(mixed):
        near = torch.stack([anchor @ view for view in views])
        made_of = torch.zeros(len(views), dtype=torch.float64)
        made_of[i] += 1 - share[i]
        made_of[other[i]] += share[i]
        losses.append(-(made_of * (near / temperature).log_softmax(dim=0)).sum())
        nearest.append(int(near.argmax()) == i)
    return torch.stack(losses), torch.tensor(nearest)


def test_mixed_contrastive_losses_are_the_plain_ones():
    torch.manual_seed(0)
    temperature = 0.3
    views, other, share = torch.randn(9, 5), torch.tensor([1, 2, 0, 3, 8, 7, 6, 5, 4]), 0.5 * torch.rand(9)
    mixed = views.lerp(views[other], share.unsqueeze(1)) + 0.5 * torch.randn(9, 5)
    losses, nearest = mixed_contrastive_losses(mixed, views, other, share, temperature)
    expected, near = plain_mixed(mixed, views, other, share, temperature)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(nearest, near)
    assert 0 < nearest.sum() < 9, "both answers occur"


VIEWS = ("crop", ("colour", {"strength": 0.3}))


def pretrained(bags):
    model = build_model(bags, "log-mean", "cnn")
    torch.manual_seed(1)
    objective = Contrastive(model.backbone.out_features, mixed_views=0.5, width=16, dimensions=8)
    settings = Settings(epochs=12, batch_bags=16, learning_rate=3e-3, augment=VIEWS)
    return model, fit(model, bags.one_per_instance(), None, settings, device="cpu", objective=objective)


def test_contrastive_pretraining_lowers_its_loss_and_keeps_the_last_epoch():
    _, fitted = pretrained(images(12))
    assert fitted.history[-1]["train_loss"] < fitted.history[0]["train_loss"] - 0.3
    assert (fitted.best_epoch, fitted.loss_name) == (11, "train_loss")
    assert "val_loss" not in fitted.history[0]


def averaged(bags, folder=None, epochs=6, make=Averaged, callbacks=(), **options):
    model = build_model(bags, "log-mean", "cnn")
    settings = Settings(epochs=epochs, batch_bags=4, augment=VIEWS)
    objective, given = make(model, **options), {"folder": folder, "callbacks": callbacks}
    if make is Distill:
        given["soft_labels"] = np.eye(2, dtype=np.float32)[1 - bags.instance_labels] * 0.8 + 0.1  # classes exchanged
    val = images(4, seed=9)
    return model, objective, fit(model, bags, val, settings, device="cpu", objective=objective, **given)


def test_the_mean_is_over_all_steps_and_later_a_running_one():
    model = build_model(images(4), "log-mean", "cnn")
    objective = Averaged(model, momentum=0.75)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    seen = []
    for step in range(6):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(step + 1.0)
            for buffer in model.buffers():
                buffer += 0 if buffer.is_floating_point() else 1
        objective.after_step(model)
        seen.append(sum(range(1, step + 2)))  # how far each weight is from its start
    expected = np.mean(seen[:4])
    for far in seen[4:]:
        expected += 0.25 * (far - expected)
    for name, value in objective.mean.state_dict().items():
        moved = expected if name in dict(model.named_parameters()) else 0.0
        torch.testing.assert_close(value, start[name] + (moved if value.is_floating_point() else 6))


@pytest.mark.parametrize("make", [Averaged, Distill])
def test_the_mean_of_the_best_epoch_or_after_distillation_of_the_last_is_kept(make):
    val = images(4, seed=9)
    model, objective, fitted = averaged(images(12), momentum=0.9, epochs=8, make=make)
    assert fitted.history[-1]["train_loss"] < fitted.history[0]["train_loss"]
    assert not objective.mean.training
    assert not any(parameter.requires_grad for parameter in objective.mean.parameters())
    (batch,) = BagLoader(val.without_instance_labels(), torch.device("cpu")).in_order(9_999)
    ((_, output),) = outputs(model, [batch])
    loss = model.head.losses(output, batch.segments, batch.target).mean().item()
    losses = [record["val_loss"] for record in fitted.history]
    assert loss == pytest.approx(losses[fitted.best_epoch], rel=1e-5)
    if make is Distill:  # the classes are exchanged, so the validation loss rises
        assert (fitted.best_epoch, fitted.loss_name) == (7, "train_loss")
        assert losses[7] > min(losses)
    else:
        assert (fitted.best_loss, fitted.loss_name) == (min(losses), "val_loss")


def test_the_mean_continues_after_an_interruption(tmp_path, stop_after):
    bags = images()
    whole, _, _ = averaged(bags, tmp_path / "whole", make=Distill)
    with pytest.raises(KeyboardInterrupt):
        averaged(bags, tmp_path / "stopped", make=Distill, callbacks=[stop_after(3)])
    again, _, fitted = averaged(bags, tmp_path / "stopped", make=Distill)
    assert fitted.epochs == 6
    assert all(torch.equal(again.state_dict()[name], value) for name, value in whole.state_dict().items())


def test_distillation_learns_soft_labels_and_no_bag_labels():
    bags = images(24)
    _, objective, fitted = averaged(bags, epochs=20, make=Distill, mixup=0.0, momentum=0.8)
    assert "train_bag_accuracy" not in fitted.history[-1], "its bags have no labels that mean anything"
    wrong = evaluate(objective.mean, bags, "cpu").summary()["instance_accuracy"]
    assert wrong < 0.2, "the soft labels have the classes exchanged"


def test_the_target_of_a_mixed_view_is_both_instances():
    """Instances are rows of the identity, so that a mixed instance shows its two parts and their shares."""
    bags = images(6)
    bags = bags._with(store=np.eye(24, dtype=np.float32)).one_per_instance()
    model = build_model(bags, "log-mean", "mlp").eval()
    model.normalise.mean.zero_()
    model.normalise.std.fill_(1)
    objective = Contrastive(model.n_features, temperature=0.3, mixed_views=0.5, width=16, dimensions=8).eval()
    seen, projected = [], []
    model.backbone.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    objective.projection.register_forward_hook(lambda module, given, output: projected.append(output))
    (batch,) = BagLoader(bags, torch.device("cpu")).in_order(9_999)
    torch.manual_seed(0)
    losses, _ = objective.losses(model, batch, None)
    parts, alone = seen[0].chunk(2)
    assert torch.equal(alone, torch.eye(24))
    torch.testing.assert_close(parts.sum(dim=1), torch.ones(24))
    assert (parts.diagonal() >= 0.5).all()
    assert (parts.diagonal() < 1).sum() > 12
    first, second = torch.nn.functional.normalize(projected[0], dim=1).chunk(2)
    expected = -(parts * (first @ second.T / 0.3).log_softmax(dim=1)).sum(dim=1)
    torch.testing.assert_close(losses, expected)


def test_wrong_soft_labels_are_refused():
    bags = images()
    model = build_model(bags)
    for soft_labels, make, fact in (
        (np.full((24, 3), 1 / 3), Distill, r"Distill needs soft_labels of shape \(24, 2\)"),
        (None, Distill, "Distill needs soft_labels"),
        (np.full((24, 2), np.nan), Distill, "probabilities, whose sum is 1"),
        (np.full((24, 2), 0.5), Averaged, "Averaged learns no soft_labels"),
    ):
        with pytest.raises(InputError, match=fact):
            fit(model, bags, bags, soft_labels=soft_labels, objective=make(model), device="cpu")


def test_drop_last_skips_the_smaller_last_step():
    bags, seen, sums = images(10), [], []

    class Watched(BagLoss):
        def losses(self, model, batch, augment):
            seen.append(batch.bags.tolist())
            losses, right = super().losses(model, batch, augment)
            sums.append(losses.sum().item())
            return losses, right

    settings = Settings(epochs=4, batch_bags=4, drop_last=True)
    fitted = fit(build_model(bags), bags, bags, settings, device="cpu", objective=Watched())
    assert [len(bags) for bags in seen] == [4] * 8
    assert len({bag for step in seen for bag in step}) == 10, "the bags that are skipped come in other epochs"
    assert fitted.history[0]["train_loss"] == pytest.approx(sum(sums[:2]) / 8), "the mean over the bags that were seen"


def test_the_loss_of_instance_labels_counts_every_instance_once():
    """Against a loop over bags and rows: an instance of two bags has half of its weight in each."""
    store, index = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32), np.array([0, 1, 2, 0, 3, 4])
    bags = Bags(store, index, [0, 3, 4, 6], [0, 1, 2], ["a", "b", "c"])
    labels = np.array([2, 0, -1, 2, -1, 1])
    bags = bags._with(training_labels=labels)
    (batch,) = BagLoader(bags, torch.device("cpu")).in_order(9_999)
    log_probs = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).log_softmax(dim=1)
    expected = []
    for rows in ([0, 1, 2], [3], [4, 5]):
        terms = [-log_probs[i, labels[i]] / (index == index[i]).sum() for i in rows if labels[i] >= 0]
        expected.append(sum(terms))
    found = instance_losses(BagOutput(log_probs, torch.zeros(3, 3)), batch.segments, batch.target)
    torch.testing.assert_close(found, torch.stack(expected))


def test_filling_does_not_count_as_a_labelled_instance():
    bags = images()._with(training_labels=np.zeros(24, np.int64))
    (batch,) = BagLoader(bags, torch.device("cpu")).shuffled(8, np.random.default_rng(0), fill=True)
    log_probs = torch.full((batch.segments.n, 2), -1.0)
    assert instance_losses(BagOutput(log_probs, torch.zeros(6, 2)), batch.segments, batch.target).tolist() == [4.0] * 6


# ---------------------------------------------------------------------- wrong labels


@pytest.mark.parametrize("method", ["adjusted-mean", "count"])
def test_random_weights_learn_from_labels_of_which_some_are_wrong(method):
    """At the beginning no label is certain, so that all are learned, whatever the number of classes."""
    rng, n_classes = np.random.default_rng(0), 30
    instances = [rng.normal(size=(8, 5)).astype(np.float32) for _ in range(n_classes)]
    bags = Bags.from_lists(instances, np.arange(n_classes), [f"class {i:02}" for i in range(n_classes)])
    model = build_model(bags, method, "linear", seed=0)
    (batch,) = BagLoader(bags, torch.device("cpu")).in_order(9_999)
    norms = []
    for wrong in (0.0, 0.1):
        objective = BagLoss()
        objective.remaining_wrong = wrong
        losses, _ = objective.losses(model, batch, None)
        gradients = torch.autograd.grad(losses.mean(), [*model.parameters()], allow_unused=True)
        norms.append(sum(one.square().sum() for one in gradients if one is not None).sqrt().item())
    assert 0.3 < norms[1] / norms[0] < 1


def test_a_contradicted_label_is_hardly_learned_and_costs_a_limited_loss():
    instances = np.random.default_rng(0).normal(size=(6, 4, 3))
    bags = Bags.from_lists(list(instances), np.arange(6) % 2, ["left", "right"])
    model = build_model(bags, "log-mean", "linear", seed=0)
    with torch.no_grad():
        model.head.classifier.bias.copy_(torch.tensor([20.0, -20.0]))  # everything is on the left
        model.head.classifier.weight.zero_()
    (batch,) = BagLoader(bags, torch.device("cpu")).in_order(9_999)
    objective = BagLoss()
    objective.remaining_wrong = 0.1
    losses, _ = objective.losses(model, batch, None)
    right = batch.target.labels == 0
    assert 0 < right.sum() < 6
    assert losses[right].abs().max() < 1e-6
    assert losses[~right].max() < 1e-6, "its own loss is 40"
    output = model(batch.instances, batch.segments, None)
    expected = torch.where(right, -np.log(0.9), -np.log(0.1)).to(torch.float32)
    torch.testing.assert_close(objective.val_losses(model, output, batch), expected, rtol=1e-4, atol=1e-4)
