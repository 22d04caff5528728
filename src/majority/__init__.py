"""Learning from Majority Label: bags labelled with their most common class in, an instance classifier out."""

from importlib import import_module

__version__ = "0.1.0"

_ROOMS = {
    "Bags": "bags",
    "BagOutput": "methods",
    "Classifier": "classifier",
    "Head": "methods",
    "InputError": "errors",
    "MajorityLabelClassifier": "estimator",
    "Model": "model",
    "Segments": "segments",
    "Settings": "settings",
    "Target": "methods",
    "TrainingError": "errors",
    "bag_accuracy": "estimator",
    "build_model": "model",
    "check_source": "checks",
    "evaluate": "inference",
    "export_onnx": "export",
    "fit": "training",
    "load_source": "sources",
    "make_bags": "scenarios",
    "read_image": "sources.own.images",
}
__all__ = ["__version__", *sorted(_ROOMS)]


def __getattr__(name: str):
    """Public names are looked up when they are used, so that the command answers at once."""
    if name not in _ROOMS:
        raise AttributeError(f"module 'majority' has no attribute {name!r}")
    room = import_module(f".{_ROOMS[name]}", __name__)
    return getattr(room, "load" if name == "load_source" else name)


def __dir__() -> list[str]:
    return sorted(__all__)
