"""Commands on a run folder: evaluate, predict, review, audit, map, export, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..errors import InputError, count_noun
from .app import AllParts, Device, Flag, OtherSource, RunFolder, command, tell_how_to_continue
from .printing import log, print_figures


@command("evaluate", "config.COLUMNS")
def evaluate(
    run: RunFolder,
    source: OtherSource = None,
    /,
    *,
    all_parts: AllParts = False,
    out: Path | None = None,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Evaluate a run's classifier on the test bags of its fold, or on all bags of your own SOURCE.

    Args:
        out: Also write all figures to this .json file.
    """
    from ..files import write_json
    from ..io.metrics import BOOTSTRAP, check_figures_path, describe
    from ..predict.evaluate import evaluate as evaluate_model
    from ..run.reopen import open_bags

    if out is not None:
        check_figures_path(out)
    classifier, bags, _ = open_bags(
        run, source, labels=True, all_parts=all_parts, columns=columns, device=device, log=log
    )
    described = {}
    for part, of_part in bags.items():
        described[part] = describe(evaluate_model(classifier.model, of_part, device))
        print_figures(described[part]["figures"] | {"intervals": described[part]["intervals"]}, f"{part} bags")
    if out is not None:
        write_json(out, {"run": str(run), "source": source, "bootstrap": BOOTSTRAP, "parts": described})
        log(str(out))


@command("predict", "config.COLUMNS")
def predict(
    run: RunFolder,
    source: OtherSource = None,
    /,
    *,
    out: Path = Path("predictions.csv"),
    abstain_below: float | None = None,
    by_bag: Annotated[Flag, Parameter(name="--bags")] = False,
    all_parts: AllParts = False,
    shard: Annotated[str | None, Parameter(metavar="I/N")] = None,
    on: Annotated[str, Parameter(metavar="PLACE")] = "local",
    block_rows: int = 100_000,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Classify every instance of the test bags of a run's fold, or of all bags of your own SOURCE.

    RUN may be the folder of a cross-validation: the classifiers of all folds are averaged. With a folder as --out,
    SOURCE is classified in blocks, and each gets its own file. If it is interrupted, repeat the command to continue.
    With --bags, the folder gets bags.parquet after the last block.

    Args:
        out: A .csv or .parquet file, or a folder of Parquet files.
        abstain_below: Leave the class empty if its probability is below this number.
        by_bag: One row per bag instead of one row per instance.
        shard: Do only part I of N parts, e.g. 2/8: for job arrays of a scheduler.
        on: local (this machine), or ray: the Ray cluster at RAY_ADDRESS.
        block_rows: Instances per block, about: whole feature files or row groups of Parquet.
    """
    from ..data.device import keep_freed_memory
    from ..io.predictions import check_output_path, write_bag_predictions, write_predictions
    from ..predict.classifier import check_threshold
    from ..run.folder import sources_of
    from ..run.predict_blocks import Request, predict_blocks
    from ..run.reopen import open_bags

    check_threshold(abstain_below)
    if shard is not None or on != "local" or out.is_dir() or not out.suffix:
        if all_parts or source is None:
            raise InputError(f"--out {out} is a folder, for all of your own bags: give a SOURCE, and leave out --all")
        request = Request(run, Path(source), out, by_bag, abstain_below, columns, device)
        with tell_how_to_continue(out):
            predict_blocks(request, block_rows, shard, on, log)
        return
    check_output_path(out, sources_of(run, source))
    classifier, bags, opened = open_bags(
        run, source, labels=False, all_parts=all_parts, columns=columns, device=device, log=log
    )
    if classifier.model.spec.images:
        keep_freed_memory()
    if by_bag:
        log(f"{count_noun(write_bag_predictions(out, classifier, bags, abstain_below), 'bag')}: {out}")
    else:
        log(f"{count_noun(write_predictions(out, classifier, bags, opened, abstain_below), 'instance')}: {out}")


@command("review", "config.COLUMNS")
def review(
    run: RunFolder,
    source: OtherSource = None,
    /,
    *,
    out: Path = Path("review.csv"),
    device: Device = "auto",
    **columns: Any,
) -> None:
    """List the bags whose label the counts contradict, the most certain first.

    Look at these bags, which are also on a page; write the right labels into the column corrected_label, and train
    again with `majority train SOURCE --labels review.csv`. RUN may be the folder of a cross-validation: each bag is
    then classified by the classifier that has not seen its label.

    Args:
        out: A .csv or .parquet file.
    """
    from ..io.predictions import check_output_path
    from ..run.folder import sources_of
    from ..run.report.page import write_review_page
    from ..run.review import LEAST_WRONG, review_run, write_review

    check_output_path(out, sources_of(run, source))
    found = review_run(run, source, columns=columns, device=device, log=log)
    write_review(out, found)
    listed = f"{len(found.suspicions):,} of {count_noun(found.labelled, 'labelled bag')}"
    probable = sum(one.is_probable for one in found.suspicions)
    log(f"the counts contradict the labels of {listed}, {probable:,} of which are probably wrong: {out}")
    share = f"{100 * found.wrong_share:.1f} %" if found.wrong_share else f"{100 * LEAST_WRONG:g} % or less"
    log(f"estimated share of wrong labels: {share}")
    log(f"the bags as a page: {write_review_page(out.with_suffix('.html'), found)}")


@command("audit", "config.COLUMNS")
def audit(
    run: RunFolder,
    source: OtherSource = None,
    /,
    *,
    labels: int | None = None,
    out: Path = Path("audit"),
    more: int | None = None,
    answers: Annotated[list[Path] | None, Parameter(negative="")] = None,
    calibrate: Flag = False,
    show_predictions: Flag = False,
    seed: int | None = None,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Measure the instance accuracy with a few labels: draw instances, label them on a page, read the answers.

    First without --answers: label the instances on OUT/label.html. Then with --answers OUT/answers.csv.

    Args:
        labels: Instances to label (default: 50).
        out: A folder; it gets label.html, to-label.csv and audit.json.
        more: Draw so many further instances for the audit in --out.
        answers: Labelled instances: print what they say. Once for each annotator.
        calibrate: Keep the temperature with the classifier.
        show_predictions: Show predictions on the page.
        seed: Seed of the draw (default: 0).
    """
    from ..run.audit import report_audit, write_audit

    if (answers or more is not None) and (source is not None or labels is not None or seed is not None or columns):
        raise InputError("--answers and --more go on with an audit: leave out SOURCE, --labels, --seed and columns")
    if more is not None and more < 1:
        raise InputError(f"--more {more}: give 1 or more")
    if calibrate and not answers:
        raise InputError("--calibrate needs the answers of an audit: give --answers")
    if answers:
        report_audit(run, answers, calibrate=calibrate, device=device, log=log)
        return
    write_audit(
        run,
        out,
        source,
        labels=50 if labels is None else labels,
        more=more,
        seed=seed or 0,
        columns=columns,
        show_predictions=show_predictions,
        device=device,
        log=log,
    )


@command("export")
def export(run: RunFolder, /, *, out: Path = Path("model.onnx")) -> None:
    """Write a run's instance classifier as ONNX, verified with onnxruntime.

    The input is instances as stored, the output is probabilities.

    Args:
        out: An .onnx file.
    """
    from ..predict.classifier import Classifier
    from ..predict.onnx import export_onnx
    from ..run.folder import classifier_file, read_config
    from ..run.record import read_result
    from ..run.report.model_card import card_facts

    classifier = Classifier.load(classifier_file(run), "cpu")
    log(str(export_onnx(classifier, out, card_facts(read_config(run), read_result(run), classifier))))


@command("map", "config.COLUMNS")
def write_map(
    run: RunFolder,
    source: OtherSource = None,
    /,
    *,
    out: Path = Path("maps"),
    tile_size: float | None = None,
    together: Flag = False,
    all_parts: AllParts = False,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Draw the predicted classes by x and y: GeoJSON for QuPath and geographic programs, and an overview PNG.

    Args:
        out: A folder; it gets BAG.geojson and BAG.png.
        tile_size: Side of a tile in the units of x and y (default: the distance of neighbours in a row).
        together: One map of all bags, all.geojson and all.png: they share coordinates.
    """
    from ..run.maps import write_maps
    from ..run.reopen import open_bags

    classifier, bags, opened = open_bags(
        run, source, labels=False, all_parts=all_parts, columns=columns, device=device, log=log
    )
    for part, of_part in bags.items():
        folder = out if len(bags) == 1 else out / part
        written = write_maps(folder, classifier, of_part, opened, tile_size=tile_size, together=together)
        log(f"{count_noun(len(of_part.index), 'instance')} in {count_noun(len(written), 'map')}: {folder}")


@command("report", "config.COLUMNS")
def report(
    run: Path,
    source: OtherSource = None,
    /,
    *,
    reference: str | None = None,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Write report.html, one page that needs no network: of a run, or of a study with its tables.

    With a SOURCE, RUN/report-SOURCE.html: the run's classifier on the bags of that source, which need no labels.

    Args:
        run: A run folder, a study's folder, or a .jsonl file of results.
        reference: Of a study: the method, as its row is named, that others are compared with.
    """
    from ..run.record import CONFIG
    from ..run.report.page import report_run
    from ..run.study.page import write_study

    if source is None and not (run / CONFIG).is_file():
        for path in write_study(run, log, reference):
            log(str(path))
        return
    if reference is not None:
        raise InputError(f"--reference {reference}: {run} is a run, and only a study compares methods: leave it out")
    log(str(report_run(run, device, source, log, columns)))
