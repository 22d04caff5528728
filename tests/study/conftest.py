import pytest

from majority.recipes import RECIPES, Material


@pytest.fixture
def cell():
    """Makes the result of one cell, of the recipe `paper` unless told."""

    def make(method="count", accuracy=0.5, *, source="cifar10", scenario="large", fold=0, seed=0, val=0.9, **more):
        changes = {name: more.pop(name) for name in ("epochs", "patience", "backbone") if name in more}
        plan = RECIPES["paper"].plan(Material(source)).changed(seed=seed, **changes).as_dict()
        test = {"instance_accuracy": accuracy, "consistency_rate": more.pop("rate", 0.8), "bag_accuracy": 0.9}
        test |= {"overestimation": 0.0, "overestimation_quantiles": [-4.0, -1.0, 0.0, 1.0, 3.0]}
        names = {"source": source, "scenario": scenario, "method": method, "recipe": "paper", "fold": fold}
        data = {"source": source, "scenario": scenario, "fold": fold, "ties": "lowest", **more}
        figures = {"test": test, "val": {"bag_accuracy_by_count": val}}
        return (
            names | figures | {"seed": seed, "seconds": 2.0, "epochs": 9, "best_epoch": 3, "plan": plan, "data": data}
        )

    return make
