"""Can a class that does not vote be learned? Digits, where digit 0 is the background.

    OMP_NUM_THREADS=1 python benchmarks/background.py --out results/background/digits.json

200 training bags of 32 per fold, scenario various among the voters, recipe quick (mlp, 40 epochs), test bags of
folds 0 to 2 (n = 3 per row, one seed). One core of an Arm Neoverse-N1 shared with other work: 221 s of processor time.
log-mean without a prior: instance accuracy 0.941 (varied shares) and 0.954 (constant), without phantom votes 0.721 and
0.727; with a prior of 0.6 where 0.3 is true, 0.806. All rows are explained in docs/benchmarks/background.md.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from majority import Settings, build_model, evaluate, fit, load_source
from majority.files import write_json
from majority.run.folder import environment

BACKGROUND, NEVER_WINS = 0, 9  # digits
FOLDS = (0, 1, 2)
FIGURES = ("instance_accuracy", "voter_accuracy", "background_precision", "background_recall", "background_share")
SHARES = {"varied": (0.0, 0.6), "constant": (0.3, 0.3)}  # of a bag's instances; the mean is 0.3


@dataclass(frozen=True)
class Condition:
    method: str
    shares: str = "varied"
    prior: float | None = None
    phantom: bool = True
    never_wins: bool = False  # digit 9 occurs in bags and is never their label


CONDITIONS = [
    *(Condition(m, s, p) for m in ("log-mean", "count", "vote") for s in SHARES for p in (None, 0.3)),
    *(Condition("log-mean", s, p, phantom=False) for s in SHARES for p in (None, 0.3)),
    Condition("log-mean", prior=0.6),
    Condition("log-mean", never_wins=True),
]


def run(condition: Condition, fold: int) -> dict:
    winners = [float(digit != NEVER_WINS or not condition.never_wins) for digit in range(10) if digit != BACKGROUND]
    parts = load_source("digits").make_parts(
        fold=fold,
        background=str(BACKGROUND),
        background_shares=SHARES[condition.shares],
        winner_prior=winners,
        ties="resample" if condition.never_wins else "lowest",
    )
    model = build_model(parts.train, condition.method, background_share=condition.prior)
    if not condition.phantom:
        model.head.background = replace(model.head.background, phantom=0.0)
    fitted = fit(model, parts.train, parts.val, Settings(), device="cpu", title=f"{condition} fold {fold}")
    outcome = evaluate(model, parts.test, "cpu")
    figures = {name: outcome.summary()[name] for name in FIGURES}
    if condition.never_wins:
        row = outcome.confusion[NEVER_WINS] / outcome.confusion[NEVER_WINS].sum()
        figures |= {"nine_found": float(row[NEVER_WINS]), "nine_as_background": float(row[BACKGROUND])}
    return figures | {"fold": fold, "seconds": round(fitted.seconds, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/background/digits.json"))
    out = parser.parse_args().out
    rows = []
    for condition in CONDITIONS:
        runs = [run(condition, fold) for fold in FOLDS]
        known = {name: [r[name] for r in runs if r[name] is not None] for name in runs[0] if name != "fold"}
        means = {name: float(np.round(mean(values), 4)) for name, values in known.items() if values}
        spread = {name: float(np.round(stdev(values), 4)) for name, values in known.items() if len(values) > 1}
        rows.append({"condition": vars(condition), "mean": means, "sd": spread, "runs": runs})
        print(condition, *(f"{name} {value:.3f}" for name, value in means.items()), sep="  ", flush=True)
    about = "digits, digit 0 the background, 200 bags of 32, various, recipe quick, test bags of folds 0-2"
    out.parent.mkdir(parents=True, exist_ok=True)
    write_json(out, {"about": about, "n": len(FOLDS), "environment": environment(), "rows": rows})


if __name__ == "__main__":
    main()
