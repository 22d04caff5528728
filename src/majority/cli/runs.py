"""Commands on a run folder: evaluate, predict, review, map, export, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..errors import InputError, count_noun
from .app import command, tell_how_to_continue
from .arguments import (
    AllParts,
    Device,
    On,
    OtherSource,
    RunFolder,
    Shard,
    column_names,
    of_columns,
)
from .printing import log, note_trained_on, print_figures

BLOCK_ROWS_HELP = "Instances per block, about: whole feature files or row groups of Parquet."


@command("evaluate", of_columns)
def evaluate(
    run: RunFolder,
    source: OtherSource = None,
    /,
    *,
    all_parts: AllParts = False,
    out: Annotated[Path | None, Parameter(help="Also write all figures to this .json or .csv file.")] = None,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Evaluate a run's classifier on the test bags of its fold, or on all bags of your own SOURCE."""
    from ..io.metrics import check_figures_path, describe_outcome, write_figures
    from ..io.predictions import check_not_source
    from ..predict.evaluate import evaluate as evaluate_model
    from ..run.folder import read_config, source_of
    from ..run.reopen import open_bags

    if out is not None:
        check_figures_path(out)
        check_not_source(out, filter(None, [source, source_of(read_config(run))]))
    names = column_names(columns)
    classifier, bags, _ = open_bags(run, source, labels=True, all_parts=all_parts, names=names, device=device, log=log)
    note_trained_on(run, source)
    described = {}
    for part, of_part in bags.items():
        outcome = evaluate_model(classifier.model, of_part, device)
        further = of_part.true_classes[len(classifier.classes) :]
        described[part] = describe_outcome(outcome, [*classifier.classes, *further])
        figures = described[part]["figures"] | {"intervals": described[part]["intervals"]}
        print_figures(figures, f"{part} bags")
    if out is not None:
        write_figures(out, {"run": str(run), "source": source}, described)
        log(str(out))


@command("predict", of_columns)
def predict(
    run: RunFolder,
    source: OtherSource = None,
    /,
    *,
    out: Annotated[Path, Parameter(help="A .csv or .parquet file, or a folder of Parquet files.")] = Path(
        "predictions.csv"
    ),
    abstain_below: Annotated[
        float | None, Parameter(help="Leave the class empty if its probability is below this number.")
    ] = None,
    by_bag: Annotated[
        bool,
        Parameter(
            name="--bags", help="One row per bag instead of one row per instance.", negative="", show_default=False
        ),
    ] = False,
    all_parts: AllParts = False,
    shard: Shard = None,
    on: On = "local",
    block_rows: Annotated[int, Parameter(help=BLOCK_ROWS_HELP)] = 100_000,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Classify every instance of the test bags of a run's fold, or of all bags of your own SOURCE.

    RUN may be the folder of a cross-validation: the classifiers of all folds are averaged. With a folder as --out,
    SOURCE is classified in blocks, and each gets its own file. If it is interrupted, repeat the command to continue.
    With --bags, the folder gets bags.parquet after the last block.
    """
    from ..data.device import keep_freed_memory
    from ..io.predictions import check_output_path, write_bag_predictions, write_predictions
    from ..predict.classifier import check_threshold
    from ..run.folder import first_run, read_config, source_of
    from ..run.reopen import open_bags

    check_threshold(abstain_below)
    names = column_names(columns)
    if shard is not None or on != "local" or out.is_dir() or not out.suffix:
        if all_parts:
            raise InputError(
                f"--out {out} is a folder, and predictions in a folder are those of a SOURCE: leave out --all"
            )
        options = {"by_bag": by_bag, "abstain_below": abstain_below, "names": names, "device": device}
        _predict_blocks(run, source, out, block_rows, shard, on, **options)
        return
    check_output_path(out, filter(None, [source, source_of(read_config(first_run(run)))]))
    classifier, bags, opened = open_bags(
        run, source, labels=False, all_parts=all_parts, names=names, device=device, log=log
    )
    note_trained_on(run, source)
    if classifier.model.spec.images:
        keep_freed_memory()
    if by_bag:
        log(f"{count_noun(write_bag_predictions(out, classifier, bags, abstain_below), 'bag')}: {out}")
    else:
        log(f"{count_noun(write_predictions(out, classifier, bags, opened, abstain_below), 'instance')}: {out}")


def _predict_blocks(
    run: Path, source: str | None, out: Path, block_rows: int, shard: str | None, on: str, **options: Any
) -> None:
    """Into a folder, block by block."""
    from ..io import is_custom_source
    from ..io.predictions import WRITERS
    from ..run.cluster import check_on
    from ..run.predict_blocks import BAGS, PartsRequest, predict_blocks
    from ..run.shards import Shard

    check_on(on)
    part = None if shard is None else Shard.parse(shard)
    if out.suffix in WRITERS and not out.is_dir():
        raise InputError(f"--out {out}: --shard and --on write a folder of Parquet files: give a folder as --out")
    if source is None or not is_custom_source(source):
        what = f"--out {out} is a folder, for bags of your own, not for {source or 'those of the run'}"
        raise InputError(f"{what}: give a table or a folder as SOURCE, or a file as --out")
    note_trained_on(run, source)
    request = PartsRequest(run, Path(source), out, **options)
    with tell_how_to_continue(out):
        done = predict_blocks(request, block_rows=block_rows, shard=part, on=on, log=log)
    if done.bags is not None:
        log(f"{count_noun(done.bags, 'bag')}: {out / BAGS}")
        return
    written = f"{count_noun(done.rows, 'row')} written; " if done.rows else ""
    log(f"{written}{done.done} of {count_noun(done.blocks, 'block')} done: {out}")
    if request.by_bag:
        log("After all shards, repeat the command without --shard: it adds the counts of all blocks")


@command("review", of_columns)
def review(
    run: RunFolder,
    source: OtherSource = None,
    /,
    *,
    out: Annotated[Path, Parameter(help="A .csv or .parquet file.")] = Path("review.csv"),
    device: Device = "auto",
    **columns: Any,
) -> None:
    """List the bags whose label the counts contradict, the most certain first, and the least certain instances.

    Look at these bags, which are also on a page; write the right labels into the column corrected_label, and train
    again with `majority train SOURCE --labels review.csv`. RUN may be the folder of a cross-validation: each bag is
    then classified by the classifier that has not seen its label.
    """
    from ..io.predictions import check_output_path
    from ..run.folder import first_run, read_config, source_of
    from ..run.report.page import write_review_page
    from ..run.review import LEAST_WRONG, instances_path, review_run, write_review

    sources = [*filter(None, [source, source_of(read_config(first_run(run)))])]
    for path in (out, instances_path(out)):
        check_output_path(path, sources)
    names = column_names(columns)
    note_trained_on(run, source)
    found = review_run(run, source, names=names, device=device, log=log)
    instances = write_review(out, found)
    listed = f"{len(found.suspicions):,} of {count_noun(found.labelled, 'labelled bag')}"
    probable = sum(one.is_probable for one in found.suspicions)
    log(f"the counts contradict the labels of {listed}, {probable:,} of which are probably wrong: {out}")
    share = f"{100 * found.wrong_share:.1f} %" if found.wrong_share else f"{100 * LEAST_WRONG:g} % or less"
    log(f"estimated share of wrong labels: {share}")
    log(f"the least certain instances: {instances}")
    log(f"the bags as a page: {write_review_page(out.with_suffix('.html'), found)}")


@command("export")
def export(run: RunFolder, /, *, out: Annotated[Path, Parameter(help="An .onnx file.")] = Path("model.onnx")) -> None:
    """Write a run's instance classifier as ONNX, verified with onnxruntime.

    The input is instances as stored, the output is probabilities.
    """
    from ..run.run_report import export_run

    log(str(export_run(run, out)))


@command("map", of_columns)
def write_map(
    run: RunFolder,
    source: OtherSource = None,
    /,
    *,
    out: Annotated[Path, Parameter(help="A folder; it gets BAG.geojson and BAG.png.")] = Path("maps"),
    tile_size: Annotated[
        float | None,
        Parameter(help="Side of a tile in the units of x and y (default: the distance of neighbours in a row)."),
    ] = None,
    together: Annotated[
        bool,
        Parameter(
            help="One map of all bags, all.geojson and all.png: they share coordinates.",
            negative="",
            show_default=False,
        ),
    ] = False,
    all_parts: AllParts = False,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Draw the predicted classes by x and y: GeoJSON for QuPath and geographic programs, and an overview PNG."""
    from ..run.maps import write_maps
    from ..run.reopen import open_bags

    names = column_names(columns)
    classifier, bags, opened = open_bags(
        run, source, labels=False, all_parts=all_parts, names=names, device=device, log=log
    )
    note_trained_on(run, source)
    for part, of_part in bags.items():
        folder = out if len(bags) == 1 else out / part
        written = write_maps(folder, classifier, of_part, opened, tile_size=tile_size, together=together)
        total = len(of_part.index)
        log(f"{count_noun(total, 'instance')} in {count_noun(len(written), 'map')}: {folder}")


@command("report", of_columns)
def report(
    run: Annotated[Path, Parameter(help="A run folder, a study's folder, or a .jsonl file of results.")],
    source: OtherSource = None,
    /,
    *,
    reference: Annotated[
        str | None, Parameter(help="Of a study: the method, as its row is named, that others are compared with.")
    ] = None,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Write report.html, one page that needs no network: of a run, or of a study with its tables.

    With a SOURCE, RUN/report-SOURCE.html: the run's classifier on the bags of that source, which need no labels.
    """
    from ..run.record import CONFIG
    from ..run.run_report import report_run
    from ..run.study.page import write_study

    note_trained_on(run, source)
    names = column_names(columns)
    is_run = source is not None or (run / CONFIG).is_file()
    if is_run and reference is not None:
        raise InputError(f"--reference {reference}: {run} is a run, and only a study compares methods: leave it out")
    for path in [report_run(run, device, source, log, names)] if is_run else write_study(run, log, reference):
        log(str(path))
