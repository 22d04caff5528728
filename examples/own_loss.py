"""Your own loss in one file: a class and one line that registers it. It works in any loop, and as a method.

    python examples/own_loss.py

The command knows it if the environment variable MAJORITY_PLUGINS names this file:

    export MAJORITY_PLUGINS=$PWD/examples/own_loss.py
    majority train digits --method entropy --recipe quick --out run
    majority predict run --out classes.csv

`entropy` is log-mean with a penalty on the entropy of each instance. Low entropy makes mean probabilities similar to
counts, which the counting network achieves with a temperature.
"""

from typing import Any

from torch import Tensor

import majority
from majority import Method, register
from majority.data.segments import Segments
from majority.data.targets import Target
from majority.losses import BagOutput, LogMeanLoss


class EntropyLoss(LogMeanLoss):
    def __init__(self, weight: float = 0.1, **common: Any):
        super().__init__(**common)
        self.weight = weight

    def compute(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:  # (b,)
        log_p = output.instance_log_probs  # (n, C)
        entropy = -(log_p.exp() * log_p).sum(dim=1)  # (n,)
        return super().compute(output, segments, target) + self.weight * segments.mean(entropy)


register(Method("entropy", EntropyLoss, "log-mean with a penalty on entropy"))


def main() -> None:
    train, val, test = majority.load_source("digits").make_parts(scenario="various", fold=1)
    for method in ("log-mean", "entropy"):
        model = majority.build_model(train, method)
        majority.fit(model, train, val, majority.Settings(epochs=20), title=method)
        figures = majority.evaluate(model, test).summary()
        print(f"{method:>8}: instance accuracy {figures['instance_accuracy']:.3f}")


if __name__ == "__main__":
    main()
