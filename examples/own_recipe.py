"""Your own recipe in one file: a function that lists stages, and one line that registers it.

    python examples/own_recipe.py

The command knows the recipe if the environment variable MAJORITY_PLUGINS names this file:

    export MAJORITY_PLUGINS=$PWD/examples/own_recipe.py
    majority train digits --recipe slow-start --set slow-start.first.epochs=5 --out run

The recipe `slow-start` trains a network with frequent small steps, continues it with large ones at a low learning rate,
and keeps the network whose validation loss is lower. An interrupted run continues, and the report says what was kept.
"""

from dataclasses import dataclass, field
from typing import Any

import majority
from majority import Recipe, Settings, register
from majority.recipes import Plan, Run, Stage, TaskInfo


@dataclass(frozen=True)
class SlowStart:
    first: Settings = field(default_factory=lambda: Settings(epochs=20, batch_bags=4))


def plan(task: TaskInfo) -> Plan:
    return Plan(training=Settings(epochs=10, batch_bags=32, learning_rate=1e-3), own=SlowStart())


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    return [
        Stage("first", plan.own.first),
        Stage("second", plan.training, inputs=("first",)),  # starts from the network of `first`
        Stage("choice", inputs=("first", "second"), choose=choose),
    ]


def choose(run: Run) -> dict[str, Any]:
    kept = min("first", "second", key=run.loss)
    return {"kept": kept, "lines": {"kept network": f"of stage {kept}, validation loss {run.loss(kept):.3f}"}}


register(Recipe("slow-start", stages, "small steps, then large ones", plan))


def main() -> None:
    bags = majority.load_source("digits").make_parts(scenario="large", bags=60, bag_size=16)
    run = majority.train(tuple(bags), method="log-mean", recipe="slow-start", verbose=False)
    print(f"{run.result['lines']['kept network']}; instance accuracy {run.metrics['instance_accuracy']:.3f}")


if __name__ == "__main__":
    main()
