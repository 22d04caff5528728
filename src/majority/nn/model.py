"""Model: normalisation, backbone and head. Its `spec` describes it, so that it can be rebuilt from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge
from torch import Tensor, nn

from ..data.background import Background
from ..data.bags import Bags
from ..data.labels import BagLabels
from ..data.segments import Segments
from ..data.stores import Store, iterate_chunks
from ..data.targets import Target
from ..errors import InputError
from ..losses import BagOutput
from ..losses.functional import counted_winners
from .backbones import count_features, create_backbone
from .heads import Head
from .methods import DEFAULT_METHOD, create_head

# Channel means and standard deviations that the paper's program uses for every data set.
PUBLISHED_PIXELS = ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))


ImageTransform = Callable[[Tensor], Tensor]  # float images (n, c, h, w) in 0..1 -> images of the same shape

LARGE = 1e4  # standard deviations above this, such as those of ids, do not affect the rounding limit of other columns
TINY_IMAGE = 12  # images of up to this many pixels per side: an mlp is as accurate as a cnn and far faster


@dataclass(frozen=True)
class ModelSpec:
    method: str
    backbone: str | None  # None: a module given by the caller
    classes: tuple[str, ...]
    instance_shape: tuple[
        Annotated[int, Ge(1)], ...
    ]  # (height, width, channels) of uint8 images, or (d,) of float vectors
    channels: int | None  # channels that the backbone sees; 3 for grey images means that grey is repeated
    method_options: dict[str, Any] = field(default_factory=dict)
    background: Background | None = None  # the class that does not vote

    @property
    def images(self) -> bool:
        return len(self.instance_shape) == 3

    @property
    def backbone_shape(self) -> tuple[int, ...]:
        return self.instance_shape if self.channels is None else (self.channels, *self.instance_shape[:2])

    def check_bags(self, bags: Bags) -> None:
        """Raise an InputError if the bags have other classes or instances than the model."""
        if bags.classes != self.classes:
            cure = "make the bags with the model's classes, in the same order (classes=...)"
            raise InputError(f"the bags have classes {bags.classes} and the model has {self.classes}: {cure}")
        self.check(bags.store)

    def check(self, instances: Store) -> None:
        """Raise an InputError if the instances have another type or shape than the model."""
        kind = np.uint8 if self.images else np.floating
        if instances.shape[1:] != self.instance_shape or not np.issubdtype(instances.dtype, kind):
            found = f"instances have shape {tuple(instances.shape[1:])} and dtype {instances.dtype}"
            expected = "uint8 images" if self.images else "float vectors"
            raise InputError(f"{found}: this model is for {expected} of shape {self.instance_shape}")


class Normalise(nn.Module):
    """Standardise stored instances: uint8 (n, h, w, c) becomes (n, channels, h, w); vectors keep their shape."""

    mean: Tensor  # (channels,) float32; of vectors (d,) float64: their differences may be much smaller than the mean
    std: Tensor  # (channels,) or (d,)

    def __init__(self, mean: Tensor, std: Tensor):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std.float())

    def forward(self, x: Tensor, augment: ImageTransform | None = None) -> Tensor:
        if x.ndim == 2:
            precision = torch.promote_types(x.dtype, torch.float32)
            return (x.to(precision) - self.mean.to(precision)).float() / self.std
        x = x.permute(0, 3, 1, 2).float() / 255
        if augment is not None:
            x = augment(x)
        return (x - self.mean[:, None, None]) / self.std[:, None, None]  # grey is broadcast to the mean's channels

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Normalise:
        """Called by `.to(device)`."""
        try:
            return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch does not annotate it
        except TypeError:  # MPS has no float64
            self.mean = self.mean.float()
            return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]


class Model(nn.Module):
    """From stored instances to the classes of instances and bags. `build_model` makes it for bags.

    >>> from majority import build_model, load_source
    >>> train = load_source("digits").make_parts(bags=4, bag_size=4).train
    >>> model = build_model(train, "count", backbone="mlp")
    >>> model.spec.method, model.n_features
    ('count', 128)
    """

    def __init__(self, spec: ModelSpec, normalise: Normalise, backbone: nn.Module):
        super().__init__()
        self.spec = spec
        self.normalise = normalise
        self.backbone = backbone
        self.n_features = count_features(backbone, spec.backbone_shape)
        self.head: Head = create_head(
            spec.method, self.n_features, len(spec.classes), spec.background, **spec.method_options
        )

    def see_labels(self, labels: BagLabels) -> None:
        """Tell the head how often each class is named by the labels of the training bags."""
        self.head.see_labels(*map(torch.from_numpy, (labels.counts, labels.second_counts)))

    @property
    def label_classes(self) -> int:
        """How many classes a bag label can name."""
        return len(self.spec.classes) - (self.spec.background is not None)

    def bags_right(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:  # (b,)
        """Whether the label of each bag allows the class that most of its instances are predicted as."""
        background = None if self.spec.background is None else self.spec.background.index
        return target.allows(counted_winners(output.instance_log_probs, segments, background))

    def forward(self, instances: Tensor, segments: Segments, augment: ImageTransform | None = None) -> BagOutput:
        """Stored instances (n, ...) -> instance and bag log-probabilities."""
        return self.aggregate(self.features(instances, augment), segments)

    def features(self, instances: Tensor, augment: ImageTransform | None = None) -> Tensor:  # (n, d) float32
        return self.backbone(self.normalise(instances, augment)).float()

    def aggregate(self, features: Tensor, segments: Segments) -> BagOutput:
        output: BagOutput = self.head(features, segments)
        return output


def build_model(
    train: Bags,
    method: str = DEFAULT_METHOD,
    backbone: str | nn.Module = "auto",
    *,
    pixels: str = "data",
    seed: int = 0,
    background_share: float | None = None,
    normalise: Normalise | None = None,
    **method_options: Any,
) -> Model:
    """Build an untrained model for these bags. `backbone` is a name or any module that returns (n, features).

    `pixels` is "data" (mean and standard deviation of the training instances) or "published" (the paper's constants;
    grey is repeated to three channels). If the bags have a background, `background_share` is its share of all
    instances. `normalise` from another model of the same bags saves a pass over them.

    Args:
        train: The training bags: their shape, classes and pixels shape the model.
        method: A name of `majority list`, such as "log-mean".
        backbone: A name of `majority list --all`, or a module.
        pixels: "data" or "published".
        seed: Of the random weights.
        background_share: Of all instances, if it is known.
        normalise: From another model of the same bags.
        **method_options: Options of the method, such as `of="counts"`.

    >>> import numpy as np
    >>> from majority import Bags
    >>> bags = Bags.from_lists([np.zeros((4, 2)), np.ones((3, 2))], labels=["oak", "pine"])
    >>> build_model(bags, "log-mean", backbone="mlp", seed=0).spec.classes
    ('oak', 'pine')
    """
    if train.background is None and background_share is not None:
        raise InputError("background_share is given without a background: name it with bags.with_background(NAME)")
    background = None if train.background is None else Background(train.background, background_share)
    shape = train.store.shape[1:]
    images = len(shape) == 3
    if backbone == "auto":
        backbone = "cnn" if images and min(shape[:2]) > TINY_IMAGE else "mlp"
    if pixels not in ("data", "published"):
        raise InputError(f"pixels={pixels!r}: use 'data' or 'published'")
    if normalise is not None:
        mean, std = normalise.mean.cpu().clone(), normalise.std.cpu().clone()
    elif images and pixels == "published":
        mean, std = map(torch.tensor, PUBLISHED_PIXELS)
    else:
        mean, std = standardisation(train)
    name = backbone if isinstance(backbone, str) else None
    channels = len(mean) if images else None
    spec = ModelSpec(method, name, train.classes, tuple(shape), channels, method_options, background)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = create_backbone(backbone, spec.backbone_shape) if isinstance(backbone, str) else backbone
        model = Model(spec, Normalise(mean, std), module)
    model.see_labels(train.bag_labels)
    return model


def rebuild_model(spec: ModelSpec, backbone: nn.Module | None = None) -> Model:
    """Build an untrained model from its spec; the weights and the normalisation are then loaded from a file."""
    width = spec.instance_shape[0] if spec.channels is None else spec.channels
    dtype = torch.float32 if spec.images else torch.float64
    with torch.random.fork_rng(devices=[]):
        if spec.backbone is not None:
            backbone = create_backbone(spec.backbone, spec.backbone_shape)
        elif backbone is None:
            raise InputError("this model was built with a module as its backbone: pass it, load(path, backbone=module)")
        return Model(spec, Normalise(torch.zeros(width, dtype=dtype), torch.ones(width)), backbone)


def standardisation(bags: Bags) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each channel (pixels in 0..1) or feature over the instances of these bags.

    A constant column gets its absolute value, or at least 1, as its standard deviation, so that new values in it stay
    small.
    """
    used = np.unique(bags.index)
    scale = 255 if bags.store.ndim == 4 else 1

    def columns_of(instances: np.ndarray) -> np.ndarray:  # (pixels or instances, channels or features)
        columns = instances.reshape(-1, instances.shape[-1]).astype(np.float64)  # a copy, which may be changed
        columns /= scale
        return columns

    shift = columns_of(bags.store[used[:1]])[0].copy()  # sums of squares would lose small differences
    total, squares, n = np.zeros(len(shift)), np.zeros(len(shift)), 0
    for chunk in iterate_chunks(bags.store, used):
        columns = columns_of(chunk)
        columns -= shift
        total, n = total + columns.sum(axis=0), n + len(columns)
        squares = squares + np.square(columns, out=columns).sum(axis=0)
    mean = shift + total / n
    std = np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0))
    # Smaller differences are rounding errors: of a constant, or of a sum that is zero.
    precision = 1e-12 if bags.store.dtype == np.float64 else 1e-7
    rounding = precision * np.abs(mean) + 1e-12 * min(std.max(), LARGE)
    rounding = np.maximum(rounding, np.finfo(np.float32).tiny)  # float32 cannot be divided by less
    std = np.where(std > rounding, std, np.maximum(np.abs(mean), 1))
    return torch.from_numpy(mean.astype(np.float32) if bags.store.ndim == 4 else mean), torch.from_numpy(std)
