"""Train an instance classifier from bags that are labelled with their most common class."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .backbones import Backbone, create_backbone
    from .backbones.resnet import load_weights
    from .data.bags import Bags
    from .data.batches import Target
    from .data.proportions import round_counts, sample_proportions
    from .data.scenarios import majority_range, make_bags, winner_weights
    from .data.segments import Segments
    from .encoders import Encoder
    from .encoders.embed import embed
    from .errors import InputError, TrainingError
    from .estimator import MajorityLabelClassifier, bag_accuracy
    from .experiments.train import TrainedRun, train
    from .inference import metrics
    from .inference.classifier import Classifier
    from .inference.evaluate import evaluate
    from .inference.maps import write_maps
    from .inference.metrics import Outcome
    from .inference.onnx import export_onnx
    from .inference.prediction_files import write_predictions
    from .methods import BagOutput, Head, Method, create_head, functional
    from .model import Model, build_model
    from .plugins import register
    from .recipes import Plan, Recipe, ResultDescription, TaskInfo, Trained, find_recipe
    from .recipes import Run as RecipeRun
    from .sources import LabelledSet, NamedSource, Parts, Source, check_source
    from .sources import load as load_source
    from .sources.custom.images import read_image
    from .sources.custom.load import SourceCheck
    from .training.augment import Augmentation
    from .training.callbacks import Callback
    from .training.loop import fit
    from .training.objectives import Objective
    from .training.settings import Settings
    from .training.state import Fitted
    from .training.trackers import MLflowLog, TensorBoardLog

_MODULES = {  # where each public name is defined; read only when it is used, so that the command starts fast
    "Augmentation": "training.augment",
    "Backbone": "backbones",
    "BagOutput": "methods",
    "Bags": "data.bags",
    "Callback": "training.callbacks",
    "Classifier": "inference.classifier",
    "Encoder": "encoders",
    "Fitted": "training.state",
    "Head": "methods",
    "InputError": "errors",
    "LabelledSet": "sources",
    "MLflowLog": "training.trackers",
    "MajorityLabelClassifier": "estimator",
    "Method": "methods",
    "Model": "model",
    "NamedSource": "sources",
    "Objective": "training.objectives",
    "Outcome": "inference.metrics",
    "Parts": "sources",
    "Plan": "recipes",
    "Recipe": "recipes",
    "RecipeRun": "recipes",
    "ResultDescription": "recipes",
    "Segments": "data.segments",
    "Settings": "training.settings",
    "Source": "sources",
    "SourceCheck": "sources.custom.load",
    "Target": "data.batches",
    "TaskInfo": "recipes",
    "TensorBoardLog": "training.trackers",
    "Trained": "recipes",
    "TrainedRun": "experiments.train",
    "TrainingError": "errors",
    "bag_accuracy": "estimator",
    "build_model": "model",
    "check_source": "sources",
    "create_backbone": "backbones",
    "create_head": "methods",
    "embed": "encoders.embed",
    "evaluate": "inference.evaluate",
    "export_onnx": "inference.onnx",
    "find_recipe": "recipes",
    "fit": "training.loop",
    "functional": "methods",
    "load_source": "sources",
    "load_weights": "backbones.resnet",
    "majority_range": "data.scenarios",
    "make_bags": "data.scenarios",
    "metrics": "inference",
    "read_image": "sources.custom.images",
    "register": "plugins",
    "round_counts": "data.proportions",
    "sample_proportions": "data.proportions",
    "train": "experiments.train",
    "winner_weights": "data.scenarios",
    "write_maps": "inference.maps",
    "write_predictions": "inference.prediction_files",
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
    "MLflowLog",
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
