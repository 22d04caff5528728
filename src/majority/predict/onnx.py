"""Export of the instance classifier as one ONNX file: stored instances in, class probabilities out."""

from __future__ import annotations

import copy
import json
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..data.segments import Segments
from ..data.validation import needs_double
from ..errors import InputError
from ..files import write_atomically
from ..nn.model import Model, ModelSpec
from ..version import __version__
from .classifier import Classifier

INPUT, OUTPUT = "instances", "probabilities"
CHECKED_BATCHES = (1, 7)
TOLERANCE = 1e-4


def export_onnx(classifier: Classifier, path: str | Path, about: dict[str, Any] | None = None) -> Path:
    """Write the instance classifier as one .onnx file for any number of instances.

    The input `instances` is uint8 (n, height, width, channels) or float32 (n, d), as stored; the model normalises it.
    If float32 is too coarse for the features, it is float64. The output `probabilities` is float32 (n, classes). The
    metadata has the class names as a JSON list under `classes` and, for features from a table, their names under
    `columns`. `about`, such as the facts of a model card, is a JSON object under `about`. Before the file is written,
    onnxruntime runs it on random instances and must agree with PyTorch to 1e-4.
    """
    path = Path(path)
    if path.suffix != ".onnx" or not path.parent.is_dir():
        raise InputError(f"{path}: give a file that ends in .onnx, in a folder that exists")
    spec = classifier.model.spec
    if classifier.model.head.needs_bag:
        raise InputError(
            f"method {spec.method} classifies an instance only within its bag, and ONNX gets single instances: "
            "export a run of a method that classifies single instances"
        )
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  # torch's exporter needs it
    except ImportError as error:
        cure = "pip install 'majority[onnx]'"
        raise InputError(f"ONNX export needs the package {error.name}, which is not installed: {cure}") from None
    network = _Probabilities(classifier.model).eval()
    model = _to_onnx(network, spec)
    named = {"classes": spec.classes, "columns": classifier.columns, "about": about}
    notes = {name: json.dumps(value) for name, value in named.items() if value is not None}
    onnx.helper.set_model_props(model, notes | {"majority": __version__})
    content = model.SerializeToString()
    _check_agreement(network, onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]))
    write_atomically(path, lambda place: place.write_bytes(content))
    return path


class _Probabilities(nn.Module):
    """A copy of the model on the CPU, in the default memory layout: (n, ...) -> (n, C)."""

    def __init__(self, model: Model):
        super().__init__()
        copied = copy.deepcopy(model).to("cpu")
        self.model = copied.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # torch's stub lacks it

    def forward(self, instances: Tensor) -> Tensor:
        features = self.model.features(instances)
        return self.model.head.aggregate(features, _OneBag(features)).instance_log_probs.exp()


class _OneBag(Segments):
    """All rows are one bag, of a size that is not known while the network is traced. The exporter drops what only the
    output of the bag needs."""

    def __init__(self, rows: Tensor):
        self.n = self.size = rows.shape[0]
        self.sizes = torch.ones_like(rows[:, 0]).sum(dim=0, keepdim=True)  # (1,)
        self.keep = self.weights = None


def _to_onnx(network: _Probabilities, spec: ModelSpec) -> Any:
    """The network as an ONNX model for any number of instances."""
    example = torch.from_numpy(_random_instances(network.model, max(CHECKED_BATCHES)))
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # the exporter reports operators that are not used here
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                network,
                (example,),
                dynamo=True,
                verbose=False,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=({0: torch.export.Dim("n")},),
            )
    except torch.onnx.errors.OnnxExporterError as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"backbone {spec.backbone or 'of your own'} cannot be written as ONNX ({reason}): "
            "use operations that torch.onnx supports, for any number of instances"
        ) from error
    finally:
        logger.setLevel(level)
    assert program is not None
    return program.model_proto


def _check_agreement(network: _Probabilities, session: Any) -> None:
    for n in CHECKED_BATCHES:
        instances = _random_instances(network.model, n)
        with torch.no_grad():
            expected = network(torch.from_numpy(instances)).numpy()
        (found,) = session.run([OUTPUT], {INPUT: instances})
        difference = np.abs(found - expected).max()
        if not difference <= TOLERANCE:  # also refuses NaN
            raise InputError(
                f"in onnxruntime the probabilities of {n} random instances differ by {difference:.2g} from those of "
                f"PyTorch (at most {TOLERANCE:g} is allowed), so nothing was written: "
                "try other versions of onnxruntime and torch"
            )


def _random_instances(model: Model, n: int) -> np.ndarray:
    """Images of noise, or vectors with the mean and deviation of the training instances."""
    rng, spec = np.random.default_rng(n), model.spec
    if spec.images:
        return rng.integers(256, size=(n, *spec.instance_shape), dtype=np.uint8)
    mean, std = model.normalise.mean.numpy(), model.normalise.std.numpy()
    vectors = mean + std * rng.normal(size=(n, *spec.instance_shape))
    return vectors.astype(np.float64 if needs_double(mean, std) else np.float32)
