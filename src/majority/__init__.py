"""Train an instance classifier from bags that are labelled with their most common class."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backbones import Backbone, create_backbone
    from .backbones.resnet import load_weights
    from .data.bags import Bags
    from .data.batches import Target
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
    from .inference.onnx import export_onnx
    from .inference.prediction_files import write_predictions
    from .methods import BagOutput, Head, Method, create_head, functional
    from .model import Model, build_model
    from .plugins import register
    from .recipes import Recipe
    from .sources import LabelledSet, NamedSource, Source, check_source
    from .sources import load as load_source
    from .sources.custom.images import read_image
    from .training.augment import Augmentation
    from .training.callbacks import Callback
    from .training.loop import fit
    from .training.settings import Settings
    from .training.trackers import MLflowLog, TensorBoardLog

__version__ = "0.1.0"

_MODULES = {  # where each public name is defined; read only when it is used, so that the command starts fast
    "Augmentation": "training.augment",
    "Backbone": "backbones",
    "BagOutput": "methods",
    "Bags": "data.bags",
    "Callback": "training.callbacks",
    "Classifier": "inference.classifier",
    "Encoder": "encoders",
    "Head": "methods",
    "InputError": "errors",
    "LabelledSet": "sources",
    "MLflowLog": "training.trackers",
    "MajorityLabelClassifier": "estimator",
    "Method": "methods",
    "Model": "model",
    "NamedSource": "sources",
    "Recipe": "recipes",
    "Segments": "data.segments",
    "Settings": "training.settings",
    "Source": "sources",
    "Target": "data.batches",
    "TensorBoardLog": "training.trackers",
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
    "fit": "training.loop",
    "functional": "methods",
    "load_source": "sources",
    "load_weights": "backbones.resnet",
    "majority_range": "data.scenarios",
    "make_bags": "data.scenarios",
    "metrics": "inference",
    "read_image": "sources.custom.images",
    "register": "plugins",
    "train": "experiments.train",
    "winner_weights": "data.scenarios",
    "write_maps": "inference.maps",
    "write_predictions": "inference.prediction_files",
}
__all__ = [
    "Augmentation",
    "Backbone",
    "BagOutput",
    "Bags",
    "Callback",
    "Classifier",
    "Encoder",
    "Head",
    "InputError",
    "LabelledSet",
    "MLflowLog",
    "MajorityLabelClassifier",
    "Method",
    "Model",
    "NamedSource",
    "Recipe",
    "Segments",
    "Settings",
    "Source",
    "Target",
    "TensorBoardLog",
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
    "fit",
    "functional",
    "load_source",
    "load_weights",
    "majority_range",
    "make_bags",
    "metrics",
    "read_image",
    "register",
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
    return getattr(module, "load" if name == "load_source" else name)


def __dir__() -> list[str]:
    return sorted(__all__)
