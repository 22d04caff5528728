"""Your own method in one file: a head and one line that registers it. Everything else is shared.

    python examples/own_method.py

The command knows the method if the environment variable MAJORITY_PLUGINS names this file:

    export MAJORITY_PLUGINS=examples/own_method.py
    majority train digits --method entropy --recipe quick --out run
    majority predict run --out classes.csv

The method `entropy` is log-mean with a penalty on the entropy of each instance. Low entropy makes mean probabilities
similar to counts, which the counting network achieves with a temperature.
"""

from torch import Tensor, nn

import majority
from majority import BagOutput, Head, Method, Segments, Target, functional, register


class Entropy(Head):
    def __init__(self, in_features: int, n_classes: int, weight: float = 0.1):
        super().__init__()
        self.classifier = nn.Linear(in_features, n_classes)
        self.weight = weight

    def forward(self, features: Tensor, segments: Segments) -> BagOutput:
        log_p = self.classifier(features).log_softmax(dim=1)  # (n, C)
        return BagOutput(log_p, functional.mean_log_probs(log_p, segments))

    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:  # (b,)
        log_p = output.instance_log_probs  # (n, C)
        entropy = -(log_p.exp() * log_p).sum(dim=1)  # (n,)
        return super().losses(output, segments, target) + self.weight * segments.mean(entropy)


register(Method("entropy", Entropy, "log-mean with a penalty on entropy"))


def main() -> None:
    train, val, test = majority.load_source("digits").make_parts(scenario="various", fold=1)
    for method in ("log-mean", "entropy"):
        model = majority.build_model(train, method)
        majority.fit(model, train, val, majority.Settings(epochs=20), title=method)
        figures = majority.evaluate(model, test).summary()
        print(f"{method:>8}: instance accuracy {figures['instance_accuracy']:.3f}")


if __name__ == "__main__":
    main()
