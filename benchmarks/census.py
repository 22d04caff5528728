"""The value of a majority label: census next to its reference methods; all bag losses on the same pretrained network.

    python benchmarks/census.py cifar10 --scenarios small,various,large --folds 2-4 --out results/census

One network is trained without labels for each source, scenario and fold (the recipe's stage `pretrain`; every variant
starts from it). The variants, for --lines:

clusters       ten times as many clusters of its features as there are classes; bag labels are used only to name them
heads          a linear head on its features, for every bag loss, several seeds
discriminants  the head of --method on discriminants of its features, as census does for vectors, several seeds
census         the recipe, with --method
top2           the recipe's later stages, trained with winners and runners-up
proportion     the recipe's later stages, trained with the true proportions of each bag
supervised     the same, trained with the label of every instance: the upper bound
augmented      the recipe of that name with log-mean, the mean of probabilities: no pretraining, no stages

Each line of OUT/runs.jsonl is one training; a training that has a line is not run again. If the recipe does not
pretrain (vectors, tiny images, a CPU), heads, discriminants and augmented are skipped, and clusters are of the
instances themselves. Pretrained networks and checkpoints are kept in WORK, so that an interrupted run continues; files
of another plan are refused. OUT/heads.csv, OUT/summary.csv and the plots OUT/worth-SOURCE.svg are written from
runs.jsonl each time.

What the images of a file show is not known, unless --like names a source with such images. With --unknown, it is not
said for named sources either, so that the bags choose the views. The runs are then lines of OUT/unknown.jsonl, and
OUT/unknown.csv compares them with the runs of the same method in OUT/runs.jsonl.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from census_tables import HEADS, RUNS, UNKNOWN, write_tables, write_unknown
from majority.recipes.label_preserving import known_sources
from provenance import commit
from safetensors.torch import load_file

from majority import Bags, build_model, evaluate, fit
from majority.cli.options import parse_folds, parse_settings
from majority.data.device import choose_device
from majority.errors import unknown_name
from majority.files import append_line, read_json, read_lines, write_json
from majority.io import Parts, load
from majority.nn.methods import AUTO, DEFAULT_METHOD
from majority.nn.model import Model
from majority.recipes import RECIPES, Plan, Run, TaskInfo, census
from majority.recipes.features import bags_of_features
from majority.recipes.stages import OUTCOME, STAGES, WEIGHTS
from majority.registry import load_plugins
from majority.run.folder import environment
from majority.run.study.results import with_current_names
from majority.training.state import Fitted

LINES = ("census", "top2", "clusters", "heads", "discriminants", "proportion", "supervised", "augmented")
OF_AUGMENTED = "log-mean"
PLANS = "plans.json"


@dataclass
class Cell:
    """The bags of a source in one scenario and fold, and what is trained on them."""

    source: str
    scenario: str
    fold: int
    parts: Parts
    plan: Plan  # of census
    augmented: Plan
    work: Path
    device: str
    ranked: Bags | None = None  # the training bags with winners and runners-up

    @property
    def key(self) -> dict:
        return {"source": self.source, "scenario": self.scenario, "fold": self.fold}

    def __str__(self) -> str:
        return f"{self.source} {self.scenario} fold {self.fold}"

    def plan_of(self, line: str) -> Plan:
        return self.augmented if line == "augmented" else self.plan

    def check_work_folder(self) -> None:
        """Refuse a work folder with files of another plan; write the plans into a new one."""
        kept = self.work / PLANS
        asked = _as_read({plan.recipe: plan.as_dict() for plan in (self.plan, self.augmented)})
        if not any(self.work.glob("[!.]*")):
            self.work.mkdir(parents=True, exist_ok=True)
            write_json(kept, asked)
        found = read_json(kept) if kept.exists() else {}
        if found != asked:
            what = "was made by another plan, or by one that it does not name"
            raise SystemExit(f"{self.work} {what}: choose another --work, or remove that folder")

    def model(self, plan: Plan, method: str, seed: int = 0) -> Model:
        return build_model(self.parts.train, method, plan.backbone, pixels=plan.pixels, seed=seed)

    def trained(self, method: str, plan: Plan, folder: Path) -> dict:
        """Test metrics of a training by a recipe's plan."""

        def log(line: str) -> None:
            print(f"  {line}", flush=True)

        losses = RECIPES[plan.recipe].losses if method == AUTO else ()

        def fresh_model(number: int = 0, method: str = _first_loss(method)) -> Model:
            return self.model(plan, method, run.seed_of(number))

        title, parts = f"{self.source} {self.scenario} {method} fold {self.fold}", self.parts
        run = Run(folder, parts.train, parts.val, plan, fresh_model, title, self.device, log=log, losses=losses)
        trained = RECIPES[plan.recipe].train(run)
        return evaluate(trained.model, parts.test, self.device).summary() | trained.summary() | {"plan": plan.as_dict()}

    def train_from_pretrained(self, method: str, plan: Plan | None = None, name: str | None = None) -> dict:
        """All stages of census, from the views and the pretrained network of any variant that has them. `plan` may
        differ after pretraining; `name` is the variant's folder."""
        name = name or method
        start = next(self.work.glob(f"[!.]*/{STAGES}/pretrain/{OUTCOME}"), None)
        own = self.work / name / STAGES
        if start is not None and not (own / "pretrain" / OUTCOME).exists():
            stages = start.parent.parent
            alike = _first_loss(stages.parent.name) == _first_loss(method)  # views are chosen by heads of that loss
            for stage in (*(sorted(stages.glob("views-*")) if alike else ()), stages / "pretrain"):
                unfinished = self.work / f".{name}"
                shutil.rmtree(unfinished, ignore_errors=True)
                shutil.copytree(stage, unfinished)
                shutil.rmtree(own / stage.name, ignore_errors=True)
                own.mkdir(parents=True, exist_ok=True)
                unfinished.rename(own / stage.name)
        return self.trained(method, plan or self.plan, self.work / name)

    def train_with_runners_up(self, method: str) -> dict:
        """The same, on training bags whose labels also name the runner-up."""
        assert self.ranked is not None
        ranked = replace(self, parts=self.parts._replace(train=self.ranked))
        return ranked.train_from_pretrained(method, name="top2")

    def pretrained_model(self) -> Model:
        model = self.model(self.plan, DEFAULT_METHOD)
        start = next(self.work.glob(f"[!.]*/{STAGES}/pretrain/{WEIGHTS}"), None)
        if start is None:
            raise SystemExit(f"there is no pretrained network in {self.work}: run --lines census first")
        model.backbone.load_state_dict(load_file(start))
        return model

    def features(self) -> Parts:
        if self.plan.own.pretrain is None:
            return self.parts
        kept = self.work / "features.npz"
        if not kept.exists():
            model = self.pretrained_model()
            stores = {
                name: bags_of_features(model, part, self.device).store for name, part in self.parts._asdict().items()
            }
            np.savez(kept, **{name: store.astype(np.float16) for name, store in stores.items()})
        stores = np.load(kept)
        return Parts(
            **{
                name: part._with(store=stores[name].astype(np.float32), index=_positions(part))
                for name, part in self.parts._asdict().items()
            }
        )


def _first_loss(method: str) -> str:
    return RECIPES["census"].losses[0] if method == AUTO else method


def head(cell: Cell, features: Parts, method: str, seed: int) -> dict:
    """Metrics of a linear head on the features."""
    alone = census.head_alone(cell.model(cell.plan, method, seed), features.train)
    settings = cell.plan.with_seed(seed).own.head
    fitted = fit(alone, features.train, features.val, settings, device=cell.device, title=None)
    return _metrics(cell, features, alone, fitted)


def on_discriminants(cell: Cell, features: Parts, method: str, seed: int) -> dict:
    task = TaskInfo(cell.source, features.train.store.shape[1:])
    plan = RECIPES["census"].plan(task).with_seed(seed)
    model = build_model(features.train, method, plan.backbone)
    run = Run(cell.work, features.train, features.val, plan, lambda: model, "", cell.device)
    linear = census.linear_model(run, model)
    return _metrics(cell, features, linear, census.head_on_discriminants(run, linear, folder=None, title=None))


def _metrics(cell: Cell, features: Parts, model: Model, fitted: Fitted) -> dict:
    figures = evaluate(model, features.test, cell.device).summary()
    return figures | {"best_epoch": fitted.best_epoch, "epochs": fitted.epochs, "seconds": round(fitted.seconds, 1)}


def clusters(cell: Cell, features: Parts, seed: int, rounds: int = 50) -> dict:
    """k-means of directions; a cluster gets the label in whose bags it is most over-represented."""
    started, classes = time.perf_counter(), len(features.train.classes)
    number = 10 * classes
    where = choose_device(cell.device)
    points = {name: _directions(part, where) for name, part in features._asdict().items() if part is not None}
    rng = torch.Generator().manual_seed(seed)
    centres = points["train"][torch.randperm(len(points["train"]), generator=rng)[:number].to(where)]
    for _ in range(rounds):
        nearest = (points["train"] @ centres.T).argmax(dim=1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points["train"])
        centres = torch.nn.functional.normalize(sums, dim=1)

    def cluster_of_each(name: str) -> np.ndarray:
        nearest = (points[name] @ centres.T).argmax(dim=1).cpu().numpy()
        return nearest[_positions(getattr(features, name))]

    train, test = features.train, features.test
    shares = np.zeros((len(train), number))
    np.add.at(shares, (np.repeat(np.arange(len(train)), train.sizes), cluster_of_each("train")), 1)
    shares /= train.sizes[:, None]
    absent = np.full(number, -1.0)
    of_label = [shares[train.labels == y].mean(axis=0) if (train.labels == y).any() else absent for y in range(classes)]
    names = np.argmax(of_label, axis=0)
    accuracy = float(np.mean(names[cluster_of_each("test")] == test.instance_labels))
    return {"instance_accuracy": accuracy, "clusters": number, "seconds": round(time.perf_counter() - started, 1)}


def _directions(bags: Bags, where: torch.device) -> torch.Tensor:  # (instances in the bags, d)
    store = bags.store[bags.one_per_instance().index]
    flat = torch.from_numpy(store.reshape(len(store), -1)).to(where).float()
    return torch.nn.functional.normalize(flat, dim=1)


def _positions(bags: Bags) -> np.ndarray:
    """(n,) position of each instance among those that the bags use, in the order of the store."""
    return np.searchsorted(np.unique(bags.index), bags.index)


def make_parser(description: str | None, folds: str, work: str) -> argparse.ArgumentParser:
    """The options of this command and of benchmarks/ablation.py."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--scenarios", default="small,various,large")
    parser.add_argument("--folds", type=parse_folds, default=folds)
    parser.add_argument("--like", metavar="SOURCE", help="a known source: images in files are like its images")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as for `majority train`")
    parser.add_argument("--plan", choices=["gpu", "cpu"], help="the plan for which device; default: for this machine")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", type=Path, default=Path(work))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=None, help="if this is not a git checkout")
    return parser


def make_cells(options: argparse.Namespace, unknown: bool = False, ranked: bool = False) -> Iterator[Cell]:
    """The cells of the options; `ranked`: with the runners-up of the training bags."""
    on_gpu = options.plan == "gpu" if options.plan else choose_device(options.device).type == "cuda"
    load_plugins()
    if options.like and options.like not in known_sources():
        raise SystemExit(str(unknown_name("known source", options.like, known_sources(), option="--like")))
    settings = parse_settings(options.set, {})
    of_both = {name: value for name, value in settings.items() if not name.startswith("census.")}
    for source, scenario, fold in product(options.sources, options.scenarios.split(","), options.folds):
        opened, name = load(source), Path(source).stem
        parts = opened.make_parts(scenario=scenario, fold=fold)
        top2 = opened.make_parts(scenario=scenario, fold=fold, labels="top2").train if ranked else None
        kind = "" if unknown else opened.kind if opened.kind in known_sources() else options.like or ""
        task = TaskInfo.of(parts.train, kind, on_gpu)
        plan = RECIPES["census"].plan(task).with_settings(settings)
        augmented = RECIPES["augmented"].plan(task).with_settings(of_both)
        work = options.work / name / scenario / f"fold{fold}"
        yield Cell(name, scenario, fold, parts, plan, augmented, work, options.device, top2)


def main() -> None:
    parser = make_parser(__doc__, "2-4", "runs/census")
    parser.add_argument("--lines", default=",".join(LINES))
    parser.add_argument("--method", default=DEFAULT_METHOD, help="of census; auto: several losses")
    parser.add_argument("--unknown", action="store_true", help="do not say what kind of images a source has")
    parser.add_argument(
        "--seed", type=int, default=0, help="of pretraining, teachers and student; each needs its own --work"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many, of heads and clusters")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lines = options.lines.split(",")
    runs = options.out / (UNKNOWN if options.unknown else RUNS)
    if options.unknown and (lines != ["census"] or options.like):
        parser.error("--unknown: give --lines census, and no --like")
    if not set(lines) <= set(LINES):
        parser.error(f"--lines {options.lines}: choose from {','.join(LINES)}")
    if options.seed and set(lines) & {"clusters", "heads", "discriminants"}:
        parser.error("--seed: give --lines without clusters, heads and discriminants, which have seeds of their own")
    about = {"commit": options.commit or commit(), "environment": environment()}
    for cell in make_cells(options, options.unknown, ranked="top2" in lines):
        cell.plan, cell.augmented = cell.plan.with_seed(options.seed), cell.augmented.with_seed(options.seed)
        for line, method, seed, train in _trainings(cell, lines, options.method, options.seeds):
            key = cell.key | {"line": line, "method": method, "seed": seed}
            finished = [row for row in read_lines(runs) if key.items() <= row.items()]
            asked = _as_read(cell.plan_of(line).as_dict())
            plans = [with_current_names(row).get("plan", asked) for row in finished]
            if any(_what_matters(plan, method) != _what_matters(asked, method) for plan in plans):
                raise SystemExit(f"{runs} has {line} of {cell} by another plan: choose another --out")
            if finished:
                continue
            cell.check_work_folder()
            row = key | train() | about
            append_line(runs, row)
            print(f"{cell} {line} {method or ''} seed {seed}: {row['instance_accuracy']:.4f}", flush=True)
    (write_unknown if options.unknown else write_tables)(options.out)


def _what_matters(plan: dict, method: str | None) -> dict:
    """Wrong labels are not looked for here, and one loss has no class offsets; early runs of several had none."""
    plan = {name: value for name, value in plan.items() if name != "assumed_wrong"}
    if "census" in plan:
        offsets = method == AUTO and plan["census"].get("class_offsets", False)
        plan["census"] = plan["census"] | {"class_offsets": offsets}
    return plan


def _as_read(content: dict) -> dict:
    """The content as JSON would return it: with lists instead of tuples."""
    return json.loads(json.dumps(content))


def _trainings(cell: Cell, lines: list[str], of_census: str, seeds: int):
    pretrained, seed_of_cell = cell.plan.own.pretrain is not None, cell.plan.training.seed
    for line in lines:
        if line == "clusters":
            for seed in range(seeds):
                yield line, None, seed, lambda seed=seed: clusters(cell, cell.features(), seed)
        elif line == "heads" and pretrained:
            for method, seed in product(HEADS, range(seeds)):
                yield line, method, seed, lambda m=method, seed=seed: head(cell, cell.features(), m, seed)
        elif line == "discriminants" and pretrained:
            for seed in range(seeds):
                yield line, of_census, seed, lambda seed=seed: on_discriminants(cell, cell.features(), of_census, seed)
        elif line == "augmented" and pretrained:
            train = partial(cell.trained, OF_AUGMENTED, cell.augmented, cell.work / "augmented")
            yield line, OF_AUGMENTED, seed_of_cell, train
        elif line == "top2":
            yield line, of_census, seed_of_cell, lambda: cell.train_with_runners_up(of_census)
        elif line in ("census", "proportion", "supervised"):
            method = of_census if line == "census" else line
            yield line, method, seed_of_cell, lambda method=method: cell.train_from_pretrained(method)


if __name__ == "__main__":
    main()
