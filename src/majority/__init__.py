"""Train an instance classifier from bags that are labelled with their most common class.

Everything else is in its module, such as `majority.losses`, `majority.recipes` and `majority.metrics`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .data.bags import Bags
    from .data.dataset import BagDataset, collate_bags
    from .data.scenarios import make_bags
    from .errors import InputError, TrainingError
    from .estimator import MajorityLabelClassifier, bag_accuracy
    from .io import LabelledSet
    from .io import load as load_source
    from .io.embed import embed
    from .nn.backbones import Backbone
    from .nn.heads import Head
    from .nn.methods import Method
    from .nn.model import Model, build_model
    from .predict.classifier import Classifier
    from .predict.evaluate import evaluate
    from .recipes import Recipe
    from .registry import register
    from .run.train import train
    from .training.callbacks import Callback
    from .training.loop import fit
    from .training.settings import Settings

_MODULES = {  # where each public name is defined; read only when it is used, so that the command starts fast
    "Backbone": "nn.backbones",
    "BagDataset": "data.dataset",
    "Bags": "data.bags",
    "Callback": "training.callbacks",
    "Classifier": "predict.classifier",
    "Head": "nn.heads",
    "InputError": "errors",
    "LabelledSet": "io",
    "MajorityLabelClassifier": "estimator",
    "Method": "nn.methods",
    "Model": "nn.model",
    "Recipe": "recipes",
    "Settings": "training.settings",
    "TrainingError": "errors",
    "bag_accuracy": "estimator",
    "build_model": "nn.model",
    "collate_bags": "data.dataset",
    "embed": "io.embed",
    "evaluate": "predict.evaluate",
    "fit": "training.loop",
    "load_source": "io",
    "make_bags": "data.scenarios",
    "register": "registry",
    "train": "run.train",
}
__all__ = [
    "Backbone",
    "BagDataset",
    "Bags",
    "Callback",
    "Classifier",
    "Head",
    "InputError",
    "LabelledSet",
    "MajorityLabelClassifier",
    "Method",
    "Model",
    "Recipe",
    "Settings",
    "TrainingError",
    "__version__",
    "bag_accuracy",
    "build_model",
    "collate_bags",
    "embed",
    "evaluate",
    "fit",
    "load_source",
    "make_bags",
    "register",
    "train",
]
_PACKAGES = ("data", "io", "losses", "nn", "predict", "recipes", "run", "training")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name == "metrics":
        return import_module(".predict.metrics", __name__)
    if name not in _MODULES:
        raise AttributeError(f"module 'majority' has no attribute {name!r}")
    module = import_module(f".{_MODULES[name]}", __name__)
    return getattr(module, "load" if name == "load_source" else name)


def __dir__() -> list[str]:
    return sorted(__all__)
