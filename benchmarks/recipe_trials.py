"""The trials behind the recipe `augmented`: a few plans, two methods, two scenarios, on folds 0 and 1.

    python benchmarks/recipe_trials.py cifar10 --out results/recipes/trials-cifar10.jsonl

Each line of the output is one run: plan, method, scenario, fold, test metrics, seconds. A run that has a line
is not run again. Plans are compared by the mean instance accuracy of their four runs (Small on fold 0,
Large on fold 1, `count` and `log-mean`); the recipe was chosen on the test bags of those two folds, so the
results that are reported for it come from folds 2 to 4.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import mean

from majority.recipes.label_preserving import label_preserving

from majority import build_model, evaluate, fit
from majority.files import append_line, read_lines
from majority.io import load
from majority.recipes import Plan
from majority.run.folder import environment
from majority.training.settings import Settings

RUNS = [(method, scenario, fold) for scenario, fold in (("small", 0), ("large", 1)) for method in ("count", "log-mean")]


def plans(source: str) -> dict[str, Plan]:
    flips = tuple(name for name in ("flip", "rotate90") if name in label_preserving(source))
    base = Settings(
        epochs=100,
        batch_bags=32,
        learning_rate=2e-3,
        weight_decay=5e-2,
        warmup_epochs=5,
        augment=(*flips, "crop"),
        precision="bf16",
        compile=True,
    )
    small = Plan("trial", "resnet18-small", "data", base)

    def changed(plan: Plan = small, **training) -> Plan:
        return replace(plan, training=replace(plan.training, **training))

    imagenet = replace(small, backbone="resnet18")
    return {
        "small stem": small,
        "small stem, cutout": changed(augment=(*base.augment, "cutout")),
        "imagenet stem, 200 epochs": changed(imagenet, epochs=200),
        "small stem, rate 5e-4": changed(learning_rate=5e-4),
        "small stem, rate 5e-4, 16 bags per step": changed(learning_rate=5e-4, batch_bags=16),
        "small stem, rate 5e-4, 64 bags per step, 200 epochs": changed(learning_rate=5e-4, batch_bags=64, epochs=200),
        "imagenet stem, constant rate 3e-4, 64 bags per step, 300 epochs": changed(
            imagenet, epochs=300, learning_rate=3e-4, schedule="constant", batch_bags=64, weight_decay=0.0
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=None, help="plans whose name contains this")
    parser.add_argument("--epochs", type=int, default=None, help="to test the code")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["plan"], r["method"], r["scenario"], r["fold"]): r["instance_accuracy"] for r in read_lines(options.out)}
    data = load(options.source)
    for name, plan in plans(Path(options.source).stem).items():
        if options.only and options.only not in name:
            continue
        if options.epochs:
            plan = plan.with_settings({"training.epochs": options.epochs})
        for method, scenario, fold in RUNS:
            if (name, method, scenario, fold) in done:
                continue
            parts = data.make_parts(scenario=scenario, fold=fold)
            model = build_model(parts.train, method, plan.backbone, pixels=plan.pixels)
            fitted = fit(model, parts.train, parts.val, plan.training)
            figures = evaluate(model, parts.test).summary()
            row = {"source": data.name, "plan": name, "method": method, "scenario": scenario, "fold": fold, **figures}
            row |= {"best_epoch": fitted.best_epoch, "epochs": fitted.epochs, "seconds": round(fitted.seconds, 1)}
            row |= {"settings": plan.as_dict(), "environment": environment()}
            append_line(options.out, row)
            done[name, method, scenario, fold] = figures["instance_accuracy"]
            shown = f"{figures['instance_accuracy']:.3f} (epoch {fitted.best_epoch}, {fitted.seconds:.0f} s)"
            print(f"{name} | {method} {scenario} fold {fold}: {shown}", flush=True)
        scores = [value for key, value in done.items() if key[0] == name]
        print(f"{name}: mean {mean(scores):.4f} of {len(scores)}", flush=True)


if __name__ == "__main__":
    main()
