"""A training in several processes: the losses, gradients and choices of one process, whatever its parts are.

Both run in float64, in which rounding errors do not grow to differences that could hide a fault.
"""

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import torch.distributed as dist

from majority import Bags, Callback, InputError, Settings, TrainingError, build_model, fit
from majority.data.feature_files import inspect_feature_file
from majority.data.loader import BagLoader
from majority.data.stores import FeatureFiles
from majority.recipes import Run, TaskInfo, find_recipe, model_builder, train_by_plan
from majority.recipes.census.images_on_gpu import GpuImageSettings
from majority.training import distributed
from majority.training.checkpoint import METRICS
from majority.training.objectives import Averaged, BagLoss, Contrastive, contrastive_losses, mixed_contrastive_losses
from majority.training.steps import SharedSteps, Steps

SIZES = (5, 1, 9, 3, 4, 2, 7, 6, 1, 8, 3, 5, 2, 4, 6)
SHORT = Settings(epochs=4, batch_bags=6, schedule="constant", optimizer="muon")


@contextmanager
def double_precision():
    before = torch.get_default_dtype()
    with mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def ragged(images=False, seed=0, sizes=SIZES):
    """Bags of different sizes and three classes."""
    rng = np.random.default_rng(seed)
    labels, n = np.arange(len(sizes)) % 3, sum(sizes)
    truth = np.where(rng.random(n) < 0.7, np.repeat(labels, sizes), rng.integers(3, size=n))
    store = np.eye(4)[truth] + 0.5 * rng.standard_normal((n, 4))
    if images:
        store = rng.integers(0, 100, (n, 6, 6, 1)).astype(np.uint8)
        store[:, :3] += (60 * truth[:, None, None, None]).astype(np.uint8)
    return Bags(store, np.arange(n), np.cumsum([0, *sizes]), labels, ["a", "b", "c"])


def in_group(rank, size, folder, double, function, *args):
    """Called in every process."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=size)
    try:
        with double_precision() if double else nullcontext():
            return globals()[function](*args)
    except (InputError, TrainingError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.fixture
def group(in_processes):
    """Call a function of this module in each process of a group: what it returns, or its error as text."""

    def call(function, *args, size=2, double=True):
        return in_processes(__file__, "in_group", size, double, function.__name__, *args)[1]

    return call


@pytest.fixture
def alone():
    with double_precision():
        yield


def assert_close(found, expected, tolerance=1e-9):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------------- steps

STEPS = {  # method, backbone, images, bags per step, objective
    "vectors": ("log-mean", "mlp", False, 6, BagLoss),
    "a running mean in the head": ("adjusted-mean", "mlp", False, 6, Averaged),
    "batch norm": ("count", "tiny", True, 6, BagLoss),
    "batch norm in the head": ("additive", "cnn", True, 6, BagLoss),
    "contrastive": ("vote", "tiny", True, 21, Contrastive),
}  # of 15 bags or 66 instances: last steps have 3 bags


def projected(tensor):
    """One number that depends on every value of a tensor."""
    return tensor.detach().double().flatten() @ torch.arange(tensor.numel()).double().cos()


def gradients_and_buffers(name):
    """After every step of two epochs."""
    method, backbone, images, batch_bags, kind = STEPS[name]
    bags = ragged(images).one_per_instance() if kind is Contrastive else ragged(images)
    model = build_model(bags, method, backbone)
    torch.manual_seed(1)
    objective = {BagLoss: BagLoss, Averaged: lambda: Averaged(model), Contrastive: lambda: Contrastive(128)}[kind]()
    settings = Settings(batch_bags=batch_bags, optimizer="adam", learning_rate=1e-3, max_instances=6)
    kind = SharedSteps if distributed.size() > 1 else Steps
    steps = kind(model, BagLoader(bags, torch.device("cpu")), None, settings, objective)
    network, found = steps.state.network.train(), []
    with steps.running():
        for batch in [*steps.batches(0), *steps.batches(1)]:
            steps.step(batch)
            gradients = [weight.grad for weight in network.parameters() if weight.grad is not None]
            found.append(torch.stack([projected(tensor) for tensor in (*gradients, *network.buffers())]))
    return [*found, distributed.total(steps.sums)]


def all_gradients_and_buffers():
    return {name: gradients_and_buffers(name) for name in STEPS}


def test_every_step_has_the_gradients_and_buffers_of_one_process(group, alone):
    expected = all_gradients_and_buffers()
    for found in group(all_gradients_and_buffers, size=3):
        for name in STEPS:
            assert_close(found[name], expected[name])


def contrastive_parts(counts):
    """Losses of this process's views, and the gradients of the losses of all processes."""
    torch.manual_seed(0)
    first, second, share = torch.randn(sum(counts), 5), torch.randn(sum(counts), 5), torch.rand(sum(counts))
    starts = np.cumsum([0, *counts])
    other = [start + torch.arange(count).roll(1) for start, count in zip(starts, counts, strict=False)]
    rank, parts, start, here, partners = 0, None, 0, slice(None), torch.cat(other)
    if distributed.size() > 1:
        rank, parts = distributed.rank(), counts
        start = starts[rank] if counts[rank] else 0
        here, partners = slice(start, start + max(counts[rank], 1)), other[rank] if counts[rank] else other[0][:1]
    counted, found = sum(counts) if parts is None else counts[rank], []
    for is_mixed in (False, True):
        views = [tensor[here].clone().requires_grad_() for tensor in (first, second)]
        if is_mixed:
            losses, near = mixed_contrastive_losses(*views, partners - start, share[here], 0.3, parts)
        else:
            losses, near = contrastive_losses(*views, 0.3, parts)
        (losses.sum() * (counted > 0)).backward()
        found += [tensor[:counted] for tensor in (losses.detach(), near, *(view.grad for view in views))]
    return found


COUNTS = ((4, 3), (1, 2))


def all_contrastive_parts():
    return [contrastive_parts(counts) for counts in COUNTS]


def test_negatives_come_from_all_processes_and_gradients_go_back_to_them(group, alone):
    for expected, *parts in zip(all_contrastive_parts(), *group(all_contrastive_parts), strict=True):
        assert_close([torch.cat(tensors) for tensors in zip(*parts, strict=True)], expected)


# ---------------------------------------------------------------------- trainings


class StopAt(Callback):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch_end(self, record):
        if record["epoch"] == self.epoch:
            raise InputError("stopped by the test")


def fitted():
    """Weights, losses and the chosen epoch of a network with batch norm."""
    train, val = ragged(images=True), ragged(images=True, seed=1)
    model, settings = build_model(train, "adjusted-mean", "tiny"), replace(SHORT, epochs=6, learning_rate=0.03)
    found = fit(model, train, val, settings, device="cpu", title=None)
    losses = [[record[name] for record in found.history] for name in ("train_loss", "val_loss", "val_bag_accuracy")]
    return [*model.state_dict().values(), torch.tensor(losses), torch.tensor(found.best_epoch)]


def test_a_training_has_the_losses_the_choice_and_the_weights_of_one_process(group, alone):
    expected = fitted()
    assert 0 < expected[-1] < 5, "the first or the last epoch was best: this test shows nothing"
    for found in group(fitted):
        assert_close(found, expected, 1e-6)


def continued(folder, stop=None):
    """Weights and losses of a training in float32, which a checkpoint has."""
    bags, callbacks = ragged(), [] if stop is None else [StopAt(stop)]
    model = build_model(bags, "adjusted-mean")
    found = fit(model, bags, bags, SHORT, folder=folder, device="cpu", title=None, callbacks=callbacks)
    losses = [(record["train_loss"], record["val_loss"]) for record in found.history]
    return [*model.state_dict().values(), torch.tensor(losses)]


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 3)])
def test_a_training_continues_with_another_number_of_processes(group, tmp_path, before, after):
    folder = str(tmp_path / "run")
    if before > 1:
        errors = group(continued, folder, 1, size=before, double=False)
        assert "stopped by the test" in errors[0]
        assert "repeat the same command" in errors[1], "the first process has ended"
    else:
        with pytest.raises(InputError):
            continued(folder, 1)
    assert len(Path(folder, METRICS).read_text().splitlines()) == 2
    found = [continued(folder)] if after == 1 else group(continued, folder, size=after, double=False)
    for weights in found:
        assert_close(weights, continued(None), 1e-5)


# ---------------------------------------------------------------------- recipes

ONE_EPOCH = {"training.epochs": 1, "training.batch_bags": 6}
NO_DRAWS = {"census.mixup": 0.0, "census.teachers": 1, "census.head.epochs": 2, "census.head.batch_bags": 6}
PRETRAINED = GpuImageSettings(pretrain=Settings(epochs=1, batch_bags=21), head=Settings(epochs=1, batch_bags=6))
RECIPES = {  # recipe, method, images, settings
    "quick": ("log-mean", False, ONE_EPOCH),
    "paper": ("count", True, ONE_EPOCH | {"backbone": "tiny"}),
    "mpem": ("count", True, ONE_EPOCH | {"backbone": "tiny", "mpem.ratios": (0.5, 1.0)}),
    "census": ("auto", False, ONE_EPOCH | NO_DRAWS),
    "census of images": ("vote", True, ONE_EPOCH | NO_DRAWS | {"training.augment": ()}),
    "augmented": ("count", True, ONE_EPOCH | {"backbone": "tiny"}),
    "census with draws": ("auto", True, ONE_EPOCH | {"census.teachers": 1, "census.mixed_views": 0.5}),
}
WITH_DRAWS = ("augmented", "census with draws")  # the draws of a process are its own


def recipe_outcome(name, folder):
    """Losses of all stages, and the weights of the model."""
    method, images, settings = RECIPES[name]
    train, val = ragged(images), ragged(images, seed=1)
    plan = find_recipe(name.split()[0]).plan_for(TaskInfo("", train.store.shape[1:]))
    if name.startswith("census "):
        plan = replace(plan, own=PRETRAINED)
    plan = plan.with_settings(settings)
    build = model_builder(plan, method, train)
    run = Run(train, val, plan, build, TaskInfo.of(train), Path(folder, name), device="cpu")
    trained = train_by_plan(run, method)
    losses = [stage.best_loss for stage in trained.trainings.values()]
    return [torch.tensor(losses), *trained.model.state_dict().values()]


def recipe_outcomes(names, folder):
    return [recipe_outcome(name, folder) for name in names]


def test_every_recipe_has_the_result_of_one_process(group, alone, tmp_path):
    names = [name for name in RECIPES if name not in WITH_DRAWS]
    expected = recipe_outcomes(names, tmp_path / "one")
    for outcomes in group(recipe_outcomes, names, str(tmp_path / "two")):
        for found, of_one in zip(outcomes, expected, strict=True):
            assert_close(found, of_one, 1e-6)


def test_recipes_with_random_draws_end_with_the_same_model_in_every_process(group, tmp_path):
    for one, other in zip(*group(recipe_outcomes, WITH_DRAWS, str(tmp_path), double=False), strict=True):
        assert_close(one, other, 0)


# ---------------------------------------------------------------------- what each process reads, and what is refused


def rows_read(folder):
    """The rows of files on disk that this process reads in an epoch."""
    bags, read = ragged()._with(store=FeatureFiles(sorted(Path(folder).iterdir()))), []
    plain = BagLoader._read

    def recorded(loader, index):
        read.append(index)
        return plain(loader, index)

    with mock.patch.object(BagLoader, "_read", recorded):
        fit(build_model(bags), bags, None, Settings(epochs=1, batch_bags=5), device="cpu", title=None)
    return np.concatenate(read)


def test_each_process_reads_only_its_bags_from_disk(group, tmp_path):
    bags, folder = ragged(), tmp_path / "features"
    folder.mkdir()
    for i in range(len(bags)):
        np.save(folder / f"{i:02d}.npy", bags.bag(i).astype(np.float32))
    parts = group(rows_read, str(folder), double=False)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(bags.index)))
    assert min(map(len, parts)) > 0.3 * len(bags.index)


def refused():
    """The errors of a training with too small steps, of one whose processes have bags of their own, and of a file that
    only the first process reads."""
    errors = []
    one_bag = Settings(epochs=1, batch_bags=1)
    own_bags = ragged().subset(np.arange(len(SIZES)) % 2 == distributed.rank())
    for action in (
        lambda: fit(build_model(ragged()), ragged(), None, one_bag, device="cpu", title=None),
        lambda: fit(build_model(own_bags), own_bags, None, SHORT, device="cpu", title=None),
        lambda: distributed.from_first(lambda: inspect_feature_file("missing.npy")),
    ):
        with pytest.raises(InputError) as error:
            action()
        errors.append(str(error.value))
    return errors


def test_every_process_has_the_error_of_the_input(group):
    for too_small, differing, missing in group(refused):
        assert too_small.startswith("2 processes, but a step has at most 1 of 15 training bags")
        assert differing.startswith(
            "the processes of this training differ: a hash of sizes and labels of training bags"
        )
        assert missing.startswith("missing.npy is no feature file")
