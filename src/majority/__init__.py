"""Train an instance classifier from bags that are labelled with their most common class."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .data.bags import Bags
    from .data.batches import Target
    from .data.proportions import round_counts, sample_proportions
    from .data.scenarios import majority_range, make_bags, winner_weights
    from .data.segments import Segments
    from .errors import InputError, TrainingError
    from .estimator import MajorityLabelClassifier, bag_accuracy
    from .io import LabelledSet, NamedSource, Parts, Source, check_source
    from .io import load as load_source
    from .io.custom.images import read_image
    from .io.custom.load import SourceCheck
    from .io.embed import embed
    from .io.encoders import Encoder
    from .io.predictions import write_predictions
    from .losses import functional
    from .nn.backbones import Backbone, create_backbone
    from .nn.backbones.resnet import load_weights
    from .nn.heads import BagOutput, Head, Method, create_head
    from .nn.model import Model, build_model
    from .predict import metrics
    from .predict.classifier import Classifier
    from .predict.evaluate import evaluate
    from .predict.metrics import Outcome
    from .predict.onnx import export_onnx
    from .recipes import Plan, Recipe, ResultDescription, TaskInfo, Trained, find_recipe
    from .recipes import Run as RecipeRun
    from .registry import register
    from .run.maps import write_maps
    from .run.trackers import TensorBoardLog
    from .run.train import TrainedRun, train
    from .training.augment import Augmentation
    from .training.callbacks import Callback
    from .training.loop import fit
    from .training.objectives import Objective
    from .training.settings import Settings
    from .training.state import Fitted

_MODULES = {  # where each public name is defined; read only when it is used, so that the command starts fast
    "Augmentation": "training.augment",
    "Backbone": "nn.backbones",
    "BagOutput": "nn.heads",
    "Bags": "data.bags",
    "Callback": "training.callbacks",
    "Classifier": "predict.classifier",
    "Encoder": "io.encoders",
    "Fitted": "training.state",
    "Head": "nn.heads",
    "InputError": "errors",
    "LabelledSet": "io",
    "MajorityLabelClassifier": "estimator",
    "Method": "nn.heads",
    "Model": "nn.model",
    "NamedSource": "io",
    "Objective": "training.objectives",
    "Outcome": "predict.metrics",
    "Parts": "io",
    "Plan": "recipes",
    "Recipe": "recipes",
    "RecipeRun": "recipes",
    "ResultDescription": "recipes",
    "Segments": "data.segments",
    "Settings": "training.settings",
    "Source": "io",
    "SourceCheck": "io.custom.load",
    "Target": "data.batches",
    "TaskInfo": "recipes",
    "TensorBoardLog": "run.trackers",
    "Trained": "recipes",
    "TrainedRun": "run.train",
    "TrainingError": "errors",
    "bag_accuracy": "estimator",
    "build_model": "nn.model",
    "check_source": "io",
    "create_backbone": "nn.backbones",
    "create_head": "nn.heads",
    "embed": "io.embed",
    "evaluate": "predict.evaluate",
    "export_onnx": "predict.onnx",
    "find_recipe": "recipes",
    "fit": "training.loop",
    "functional": "losses",
    "load_source": "io",
    "load_weights": "nn.backbones.resnet",
    "majority_range": "data.scenarios",
    "make_bags": "data.scenarios",
    "metrics": "predict",
    "read_image": "io.custom.images",
    "register": "registry",
    "round_counts": "data.proportions",
    "sample_proportions": "data.proportions",
    "train": "run.train",
    "winner_weights": "data.scenarios",
    "write_maps": "run.maps",
    "write_predictions": "io.predictions",
}
_NAMED_OTHERWISE = {"RecipeRun": "Run", "load_source": "load"}  # in their modules
__all__ = [
    "Augmentation",
    "Backbone",
    "BagOutput",
    "Bags",
    "Callback",
    "Classifier",
    "Encoder",
    "Fitted",
    "Head",
    "InputError",
    "LabelledSet",
    "MajorityLabelClassifier",
    "Method",
    "Model",
    "NamedSource",
    "Objective",
    "Outcome",
    "Parts",
    "Plan",
    "Recipe",
    "RecipeRun",
    "ResultDescription",
    "Segments",
    "Settings",
    "Source",
    "SourceCheck",
    "Target",
    "TaskInfo",
    "TensorBoardLog",
    "Trained",
    "TrainedRun",
    "TrainingError",
    "__version__",
    "bag_accuracy",
    "build_model",
    "check_source",
    "create_backbone",
    "create_head",
    "embed",
    "evaluate",
    "export_onnx",
    "find_recipe",
    "fit",
    "functional",
    "load_source",
    "load_weights",
    "majority_range",
    "make_bags",
    "metrics",
    "read_image",
    "register",
    "round_counts",
    "sample_proportions",
    "train",
    "winner_weights",
    "write_maps",
    "write_predictions",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'majority' has no attribute {name!r}")
    module = import_module(f".{_MODULES[name]}", __name__)
    if name in ("functional", "metrics"):  # modules
        return import_module(f"{module.__name__}.{name}")
    return getattr(module, _NAMED_OTHERWISE.get(name, name))


def __dir__() -> list[str]:
    return sorted(__all__)
