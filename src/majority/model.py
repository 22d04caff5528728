"""Model: normalisation, backbone, head. What it was made of stands in its `spec`, so that a file can re-make it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from .backbones import create_backbone, features_of
from .data.background import Background
from .data.bags import Bags
from .data.segments import Segments
from .data.stores import iterate_chunks
from .errors import InputError
from .methods import DEFAULT_METHOD, BagOutput, create_head

# Channel means and deviations that the paper's program uses for every data set.
PUBLISHED_PIXELS = ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))


Augmentation = Callable[[Tensor], Tensor]  # float images (n, c, h, w) in 0..1 -> the same

LARGE = 1e4  # deviation: of a column with more, such as one of ids, nothing follows for what the others may differ by
TINY_IMAGE = 12  # pixels a side up to which an mlp is as good as a cnn and far faster


@dataclass(frozen=True)
class ModelSpec:
    method: str
    backbone: str | None  # None: a module of the caller's own
    classes: tuple[str, ...]
    instance_shape: tuple[int, ...]  # (height, width, channels) of uint8 images, or (d,) of float vectors
    channels: int | None  # that the backbone sees; grey is repeated where this is 3
    method_options: dict = field(default_factory=dict)
    background: Background | None = None  # a class that does not vote

    @property
    def images(self) -> bool:
        return len(self.instance_shape) == 3

    @property
    def backbone_shape(self) -> tuple[int, ...]:
        return (self.channels, *self.instance_shape[:2]) if self.images else self.instance_shape

    def check(self, instances: np.ndarray) -> None:
        """Refuse instances of another kind or shape than those it was built for."""
        kind = instances.dtype == np.uint8 if self.images else np.issubdtype(instances.dtype, np.floating)
        if instances.shape[1:] != self.instance_shape or not kind:
            need = "uint8 images" if self.images else "float vectors"
            raise InputError(
                f"instances have shape {tuple(instances.shape[1:])} and dtype {instances.dtype}: "
                f"this model is for {need} of shape {self.instance_shape}"
            )

    def as_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict) -> ModelSpec:
        background = fields.get("background")
        whole = {key: tuple(fields[key]) for key in ("classes", "instance_shape")}
        return cls(**fields | whole | {"background": background and Background(**background)})


class Normalise(nn.Module):
    """Stored instances, standardised: uint8 (n, h, w, c) becomes (n, channels, h, w), vectors keep their shape."""

    def __init__(self, mean: Tensor, std: Tensor):
        super().__init__()
        self.register_buffer("mean", mean)  # of vectors in double precision: their differences may be far smaller
        self.register_buffer("std", std.float())

    def forward(self, x: Tensor, augment: Augmentation | None = None) -> Tensor:
        if x.ndim == 2:
            precision = torch.promote_types(x.dtype, torch.float32)
            return (x.to(precision) - self.mean.to(precision)).float() / self.std
        x = x.permute(0, 3, 1, 2).float() / 255
        if augment is not None:
            x = augment(x)
        return (x - self.mean[:, None, None]) / self.std[:, None, None]  # grey broadcasts to the mean's channels


class Model(nn.Module):
    def __init__(self, spec: ModelSpec, normalise: Normalise, backbone: nn.Module):
        super().__init__()
        self.spec = spec
        self.normalise = normalise
        self.backbone = backbone
        self.n_features = features_of(backbone, spec.backbone_shape)
        self.head = create_head(spec.method, self.n_features, len(spec.classes), spec.background, **spec.method_options)

    def forward(self, instances: Tensor, segments: Segments, augment: Augmentation | None = None) -> BagOutput:
        """Stored instances (n, ...) -> instance and bag log-probabilities."""
        return self.aggregate(self.features(instances, augment), segments)

    def features(self, instances: Tensor, augment: Augmentation | None = None) -> Tensor:  # (n, d) float32
        return self.backbone(self.normalise(instances, augment)).float()

    def aggregate(self, features: Tensor, segments: Segments) -> BagOutput:
        with in_float32(features):
            return self.head(features, segments)


def in_float32(tensor: Tensor) -> AbstractContextManager:
    """Counts and losses stay in float32, whatever the network runs in."""
    device = tensor.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def build_model(
    train: Bags,
    method: str = DEFAULT_METHOD,
    backbone: str | nn.Module = "auto",
    *,
    pixels: str = "data",
    seed: int = 0,
    background_share: float | None = None,
    normalise: Normalise | None = None,
    **method_options,
) -> Model:
    """A fresh model for these bags: `backbone` by name or any module that gives (n, features).

    `pixels` is "data" (mean and deviation of the training instances) or "published" (the paper's constants,
    grey repeated to three channels). Where the bags have a background, `background_share` says how much of all
    instances it is. `normalise`, of another model of these bags, saves going through them again.
    """
    background = None
    if train.background is not None:
        background = Background(train.background, background_share)
    elif background_share is not None:
        raise InputError("a background share, but no background: name it too, bags.with_background(NAME)")
    shape = train.store.shape[1:]
    images = len(shape) == 3
    if backbone == "auto":
        backbone = "cnn" if images and min(shape[:2]) > TINY_IMAGE else "mlp"
    if pixels not in ("data", "published"):
        raise InputError(f"pixels={pixels!r}: take 'data' or 'published'")
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
        module = create_backbone(name, spec.backbone_shape) if name else backbone
        model = Model(spec, Normalise(mean, std), module)
    model.head.see_labels(torch.from_numpy(np.bincount(train.labels, minlength=len(train.classes))))
    return model


def rebuild_model(spec: ModelSpec, backbone: nn.Module | None = None) -> Model:
    """An untrained model of this make; its weights and normalisation come from a file."""
    if spec.backbone is None and backbone is None:
        raise InputError("this model has a backbone of its maker's own: pass that module, load(path, backbone=module)")
    width = spec.channels if spec.images else spec.instance_shape[0]
    blank = Normalise(torch.zeros(width, dtype=torch.float32 if spec.images else torch.float64), torch.ones(width))
    with torch.random.fork_rng(devices=[]):
        named = spec.backbone is not None
        return Model(spec, blank, create_backbone(spec.backbone, spec.backbone_shape) if named else backbone)


def standardisation(bags: Bags) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel (pixels in 0..1) or feature over the instances in these bags.

    Of one that does not vary the deviation is its size, or 1 if that is more: what is new in it later stays small.
    """
    used = np.unique(bags.index)
    images = bags.store.ndim == 4
    shift, total, squares, n = None, 0.0, 0.0, 0
    for block in iterate_chunks(bags.store, used):
        block = block.reshape(-1, block.shape[-1]).astype(np.float64)  # (pixels or instances, columns)
        block /= 255 if images else 1
        shift = block[0].copy() if shift is None else shift  # sums of squares would drown small differences
        block -= shift
        total, n = total + block.sum(axis=0), n + len(block)
        squares = squares + np.square(block, out=block).sum(axis=0)
    mean = shift + total / n
    std = np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0))
    exact = 1e-12 if bags.store.dtype == np.float64 else 1e-7
    rounding = exact * np.abs(mean) + 1e-12 * min(std.max(), LARGE)  # what a constant, or the zero of a sum, differs by
    rounding = np.maximum(rounding, np.finfo(np.float32).tiny)  # by which less could not be divided
    std = np.where(std > rounding, std, np.maximum(np.abs(mean), 1))
    return torch.from_numpy(mean.astype(np.float32) if images else mean), torch.from_numpy(std)
