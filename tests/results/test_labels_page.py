"""The page of labels, and what runners-up are worth: tables are those of the raw files."""

from collections import defaultdict
from statistics import mean, stdev

from numpy import sort
from raw_results import (
    DOCS,
    SCENARIOS,
    read,
    table_rows,
)

from majority import load_source
from majority.recipes import RECIPES, TaskInfo


def test_what_runners_up_are_worth_on_digits_is_that_of_the_runs():
    page = " ".join((DOCS / "benchmarks/label-value.md").read_text().split("**Runners-up**")[1].split())
    found = defaultdict(list)
    for row in read("census/runs.jsonl"):
        if row["source"] == "digits" and row["fold"] in (2, 3, 4):
            found[row["line"], row["scenario"]].append(row["instance_accuracy"])
    gain = {s: mean(found["top2", s]) - mean(found["census", s]) for s in SCENARIOS}
    gap = mean(found["proportion", "small"]) - mean(found["census", "small"])
    assert f"{gain['small']:.3f} on Small" in page
    assert f"({gain['small'] / gap:.0%})".replace("%", " %") in page
    assert f"they cost {-gain['various']:.3f} and {-gain['large']:.3f}" in page
    tied = []
    for scenario in SCENARIOS:
        counts = sort(load_source("digits").make_parts(scenario=scenario, fold=2).train.class_counts(), axis=1)
        tied.append(f"{(counts[:, -2] == counts[:, -3]).mean():.0%}".replace("%", " %"))
    assert tied[0] == tied[1]
    assert f"In {tied[0]} of the training bags of Small and Various and {tied[2]} of those of Large" in page


def test_the_table_of_wrong_labels_is_that_of_its_runs():
    page = (DOCS / "benchmarks/labels.md").read_text().split("## Wrong labels")[1].split("\n## ")[0]
    runs, expected = read("labels/wrong.jsonl"), []
    sets = [("digits", [2, 3, 4]), ("cifar10", [2, 4]), ("cifar10", [3]), ("cifar10-features", [2, 3, 4])]
    for source, folds in [*sets, ("crops", [2, 3, 4])]:
        of_set = [row for row in runs if row["source"] == source and row["fold"] in folds]
        right = [row["instance_accuracy"] for row in of_set if row["wrong"] == 0]
        for share in sorted({row["wrong"] for row in of_set}):
            rows = [row for row in of_set if row["wrong"] == share]
            assert sorted(row["fold"] for row in rows) == folds
            accuracy = mean(row["instance_accuracy"] for row in rows)
            found = [str(sum(row["found"][name] for row in rows)) for name in ("wrong", "listed", "right")]
            expected.append([f"{accuracy:.3f}", f"{mean(right) - accuracy:.3f}" if share else "", *found])
    shown = [[cell.strip() for cell in line.split("|")[3:-1]] for line in page.splitlines() if line.startswith("| ")]
    assert shown[1:] == expected
    text, of_images = " ".join(page.split()), [row for row in runs if row["source"] == "cifar10"]
    of = {(row["fold"], row["wrong"]): row for row in of_images}
    lost = [of[fold, 0]["instance_accuracy"] - of[fold, 0.4]["instance_accuracy"] for fold in (2, 3, 4)]
    assert "At 40 %, {:.3f}, {:.3f} and {:.3f} are lost on folds 2, 3 and 4".format(*lost) in text
    found = [[row["found"] for row in of_images if row["wrong"] == share] for share in (0.4, 0.2)]
    right = [f"{sum(one['right'] for one in some)} of {sum(one['wrong'] for one in some)}" for some in found]
    assert f"({right[0]}, {right[1]})" in text
    assert all(row["found"]["precision"] == 1 for row in of_images if row["wrong"])
    trials = defaultdict(dict)
    for row in read("labels/wrong-trials.jsonl"):
        trials[row["line"]][row["fold"], row["draw"]] = row["instance_accuracy"]
    gains = [trials["corrected"][case] - trials["first"][case] for case in trials["first"]]
    assert (len(gains), min(gains) > 0) == (6, True)
    of = {line: f"{mean(cases.values()):.3f}" for line, cases in trials.items()}
    assert {len(cases) for cases in trials.values()} == {6}
    assert f"gain in all six cases, {mean(gains):.3f} on average: {of['first']} after" in text
    assert f"{of['corrected']} with corrected labels" in text
    assert f"has {of['corrected-twice']}, and one more {of['corrected-thrice']}," in text
    assert f"contradicted labels has {of['removed']}, and" in text
    assert f"contradicted bags less {of['tolerant']}." in text
    assert f"the accuracy is {of['all-removed']}, and with all labels right {of['right']}:" in text
    offsets = defaultdict(list)
    for row in read("labels/wrong-trials-offsets.jsonl"):
        offsets[row["line"]].append(row["instance_accuracy"])
    assert [len(offsets[line]) for line in ("first", "corrected")] == [6, 6]
    assert f"training has {mean(offsets['first']):.3f} and the one with corrected labels" in text
    assert f"{mean(offsets['corrected']):.3f}: 0.010 more and 0.005 less" in text


def test_the_tables_of_weights_and_of_instance_labels_are_those_of_their_runs():
    shown = {row[0]: row[1:] for row in table_rows(DOCS / "benchmarks/labels.md")}
    runs = read("labels/weights.jsonl")
    for recipe, title in {"quick": "`quick`, `adjusted-mean`", "census": "`census`"}.items():
        of_lines = [
            [row["instance_accuracy"] for row in runs if (row["recipe"], row["line"]) == (recipe, line)]
            for line in ("weighted", "ignored")
        ]
        assert [len(folds) for folds in of_lines] == [3, 3]
        assert shown[title] == [f"{mean(folds):.3f}" for folds in of_lines]
    runs = read("labels/instances.jsonl")
    for per_class in (0, 1, 5, 20):
        of_recipes = [
            [row["instance_accuracy"] for row in runs if (row["recipe"], row["per_class"]) == (recipe, per_class)]
            for recipe in ("census", "quick")
        ]
        assert shown[str(per_class)] == [f"{mean(folds):.3f} ± {stdev(folds):.3f}" for folds in of_recipes]


def test_the_tables_of_labels_are_those_of_their_runs():
    page = (DOCS / "benchmarks/labels.md").read_text()

    def cell(rows):
        values = [row["instance_accuracy"] for row in rows]
        return f"{mean(values):.3f} ± {stdev(values):.3f}"

    runs = [row for row in read("labels/unlabelled.jsonl") if row["source"] == "digits"]
    for line in {(row["line"], row["labelled"]) for row in runs}:
        shown = [
            cell([row for row in runs if (row["line"], row["labelled"], row["scenario"]) == (*line, scenario)])
            for scenario in ("small", "various")
        ]
        assert f"| {line[1]} labelled" in page
        assert f"| {' | '.join(shown)} |" in page, line
    text = " ".join(page.split())
    few, many = ({"cifar10": defaultdict(list), "cifar10-features": defaultdict(list)} for _ in range(2))
    for row in read("labels/unlabelled.jsonl"):
        if row["source"] in few and row["commit"] != "a47510d":
            (few if row["labelled"] == 100 else many)[row["source"]][row["scenario"]].append(row["instance_accuracy"])
    for row in read("labels/wrong.jsonl"):
        if row["source"] in many and row["wrong"] == 0 and row["commit"] != "16ea5bc":
            many[row["source"]][row["scenario"]].append(row["instance_accuracy"])
    for source, link in {"cifar10": "{}", "cifar10-features": "[{}](#wrong-labels)"}.items():
        assert [len(of[source]["small"]) for of in (many, few)] == [3, 3]
        assert len(many[source]["various"]) == len(few[source]["various"])
        (small, small_few), (various, various_few) = (
            (mean(many[source][scenario]), mean(few[source][scenario])) for scenario in SCENARIOS[:2]
        )
        assert f"| 400 labelled | {small:.3f} | {link.format(f'{various:.3f}')} |" in page
        assert f"| 100 labelled, 300 without a label | {small_few:.3f} | {various_few:.3f} |" in page
        lost = f"{small - small_few:.3f} are lost on Small and {various - various_few:.3f} on Various"
        assert f"{lost}: the goal, 0.02, is **missed** on both" in text
    census = " ".join((DOCS / "benchmarks/census.md").read_text().split())
    small, various = (many["cifar10"][scenario] for scenario in SCENARIOS[:2])
    assert "CIFAR-10 has {:.3f}, {:.3f} and {:.3f} on folds 2, 3 and 4 of Small".format(*small) in census
    assert "{:.3f} and {:.3f} on folds 2 and 4 of Various".format(*various) in census
    assert f"The means are {mean(small):.3f} and {mean(various):.3f}" in census
    (earlier,) = (row for row in read("labels/unlabelled.jsonl") if row["commit"] == "a47510d")
    rows = [row for row in read("census/ablation.jsonl") if (row["scenario"], row["line"]) == ("various", "census")]
    (all_labelled,) = (row["instance_accuracy"] for row in rows)
    assert f"had {earlier['instance_accuracy']:.3f} with 100 labelled bags, and [{all_labelled:.3f}]" in text
    runs = read("labels/top2.jsonl")
    assert {row["line"] for row in runs} == {"winner", "top2", "proportion"}
    lines = {"winner": "winners", "top2": "winners and runners-up", "proportion": "proportions (method `proportion`)"}
    shown = {row[0]: row[1:] for row in table_rows(DOCS / "benchmarks/labels.md")}
    for line, title in lines.items():
        by_recipe = {
            (row["recipe"], row["method"]): [
                one for one in runs if all(one[name] == row[name] for name in ("line", "recipe", "method"))
            ]
            for row in runs
            if row["line"] == line
        }
        kinds = [("census", "auto"), ("quick", "adjusted-mean"), ("quick", "soft-count")]
        if line == "proportion":
            kinds = [("census", "proportion"), ("quick", "proportion"), ("quick", "proportion")]
        assert shown[title] == [cell(by_recipe[kind]) for kind in kinds], title


def test_the_tables_of_all_bags_are_those_of_their_runs():
    page = (DOCS / "benchmarks/labels.md").read_text().split("## All bags at the end")[1]
    runs, text = read("labels/refit.jsonl"), " ".join(page.split())
    for recipe in ("census", "quick"):
        table = page.split(f"| Recipe `{recipe}` |")[1].split("\n\n")[0]
        of_recipe = [row for row in runs if row["recipe"] == recipe]
        for source, bags in {(row["source"], row["bags"]) for row in of_recipe}:
            rows = [row for row in of_recipe if (row["source"], row["bags"]) == (source, bags)]
            figures = [f"{mean(row[name] for row in rows):.3f}" for name in ("split", "refit", "folds")]
            assert f"| {source}, {bags} bags | {len(rows)} | {' | '.join(figures)} |" in table
        claims = text.split(f"- **`{recipe}`.**")[1].split("- **")[0]
        assert f"Over the {len(of_recipe)} combinations" in claims
        for name in ("refit", "folds"):
            gains = [row[name] - row["split"] for row in of_recipe]
            assert f"{mean(gains):.3f}" in claims
            assert f"in {sum(gain > 0 for gain in gains)} of them" in claims
            assert f"{min(gains):.3f} to +{max(gains):.3f})" in claims
    for source in ("crops", "digits"):
        rows = [row for row in runs if (row["source"], row["recipe"]) == (source, "census")]
        gains = [row["refit"] - row["split"] for row in rows]
        assert f"in {sum(gain > 0 for gain in gains)} of {len(gains)}, {mean(gains):.3f} on average" in text


def test_the_table_of_few_bags_is_that_of_its_runs():
    page = (DOCS / "benchmarks/labels.md").read_text().split("## Few bags of tiny images")[1].split("\n## ")[0]
    runs = [row for row in read("recipes/few-bags-trials.jsonl") if not row["validation_instances"]]
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    bags, columns = None, [30, 60, 90, 120, 200]
    for cells in shown[1:]:
        bags = int(cells[0].split()[0]) if cells[0] else bags
        for epochs, cell in zip(columns, cells[2:7], strict=True):
            key = {"source": "digits", "own_bags": bags, "scenario": cells[1].lower(), "epochs": epochs}
            rows = [row for row in runs if key.items() <= row.items()]
            text = f"{mean(row['instance_accuracy'] for row in rows):.3f}" if rows else ""
            assert cell == text + (" (fold 0)" if len(rows) == 1 else "")
        (planned,) = {row["training_bags"] for row in runs if row["own_bags"] == bags and row["source"] == "digits"}
        if cells[7]:
            plan = RECIPES["census"].plan_for(TaskInfo("digits", (8, 8, 1), False, planned, 32 * planned, planned))
            assert cells[7] == f"{plan.training.epochs} epochs"
    of_crops = {
        epochs: mean(row["instance_accuracy"] for row in runs if (row["source"], row["epochs"]) == ("crops", epochs))
        for epochs in (100, 40)
    }
    assert f"({of_crops[100]:.3f} and {of_crops[40]:.3f}, 120 bags)" in page


def small_runs(source, fold):
    key = {"source": source, "scenario": "small", "fold": fold, "seed": 0}
    return [row for row in read("census-small/runs.jsonl") if key.items() <= row.items()]


def is_pathmnist(row):
    return (row["source"], row["scenario"], row["fold"]) == ("pathmnist", "small", 4)


def test_the_table_of_runners_up_of_images_is_that_of_its_runs():
    page = (DOCS / "benchmarks/labels.md").read_text().split("**Images.**")[1].split("**Pretrained features**")[0]
    expected, closed_by_fold = [], []
    for source, title in {"cifar10": "CIFAR-10", "svhn28": "SVHN (28x28)"}.items():
        for fold in (3, 4):
            of = {row["line"]: row["instance_accuracy"] for row in small_runs(source, fold)}
            cells = [f"{title}, fold {fold}", *(f"{of[line]:.3f}" for line in ("census", "top2"))]
            if "proportion" not in of:
                expected.append([*cells, "not run", ""])
                continue
            closed_by_fold.append([of["top2"] - of["census"], of["proportion"] - of["census"]])
            share = closed_by_fold[-1][0] / closed_by_fold[-1][1]
            expected.append([*cells, f"{of['proportion']:.3f}", f"{100 * share:.0f} %"])
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    assert shown[1:] == expected
    text = " ".join(page.split())
    gained, gap = map(sum, zip(*closed_by_fold, strict=True))
    assert f"on CIFAR-10, {100 * gained / gap:.0f} % is closed" in text

    runs = read("labels/top2-images.jsonl")
    before = {row["line"]: row for row in read("census/runs.jsonl") if is_pathmnist(row) and "seed" in row}
    (before["top2"],) = (row for row in runs if is_pathmnist(row))
    winner, ranked, proportion = (before[line]["instance_accuracy"] for line in ("census", "top2", "proportion"))
    assert f"{winner:.3f} with winners, {ranked:.3f} with runners-up and {proportion:.3f} with proportions" in text
    assert f"{100 * (ranked - winner) / (proportion - winner):.0f} % of the gap" in text

    def of_head(line, corrected=True):
        commit = "a68ef43" if corrected else "840898e"
        rows = [row for row in runs if (row["line"], row["commit"], row["fold"]) == (line, commit, 0)]
        assert len(rows) == 3
        return mean(row["instance_accuracy"] for row in rows)

    winner, proportion = of_head("winner"), of_head("proportion")
    assert f"has {winner:.3f} with winners and {proportion:.3f} with proportions" in text
    before, now = of_head("top2", corrected=False), of_head("top2")
    assert f"gave it {before:.3f} by plain shares, and give {now:.3f} now" in text
    closed = [f"{100 * (value - winner) / (proportion - winner):.0f} %" for value in (now, before)]
    assert f"{closed[0]} of the gap instead of {closed[1]}" in text


def test_the_table_of_classes_that_rarely_win_is_that_of_its_runs():
    page = (DOCS / "benchmarks/labels.md").read_text().split("**Classes that rarely win.**")[1].split("**Images.**")[0]
    even = [
        row | {"winner_ratio": 1} for row in read("labels/top2.jsonl") if row["method"] in ("auto", "adjusted-mean")
    ]
    runs, expected = [*even, *read("labels/top2-skewed.jsonl")], []
    for ratio in (1, 20, 100):
        cells = []
        for key in (("census", "winner"), ("census", "top2"), ("quick", "winner"), ("quick", "top2")):
            rows = [row for row in runs if (row["recipe"], row["line"], row["winner_ratio"]) == (*key, ratio)]
            assert sorted(row["fold"] for row in rows) == [2, 3, 4]
            cells.append(f"{mean(row['instance_accuracy'] for row in rows):.3f}")
        expected.append([f"{ratio}:1", *cells])
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    assert shown[1:] == expected
    advice = " ".join((DOCS / "how-to/runner-up.md").read_text().split())
    assert f"from {expected[-1][1]} to {expected[-1][2]}" in advice


def test_the_tables_of_the_tutorials_are_those_of_their_runs():
    accuracy = defaultdict(list)
    for row in read("labels/tutorials.jsonl"):
        accuracy[row["table"], row["use_instance_labels"]].append(row["instance_accuracy"])
    pages = ("unlabelled-bags", "doubtful-labels", "runner-up", "weights", "few-instance-labels")
    shown = [row for page in pages for row in table_rows(DOCS / f"how-to/{page}.md") if row[0].startswith("`")]
    found = {}
    for title, text, *others in shown:
        if not others and ".csv`" in title:
            found[title.split(".csv")[0].strip("`"), "with `--use" in title] = text
    expected = {
        case: f"{mean(values):.3f} ({min(values):.3f} to {max(values):.3f})" for case, values in accuracy.items()
    }
    assert {len(values) for values in accuracy.values()} == {3}
    assert found == expected


def test_what_was_tried_for_unlabelled_bags_is_that_of_its_runs():
    text = " ".join((DOCS / "benchmarks/labels.md").read_text().split("**Tried, without a gain on both")[1].split())
    found = {
        (row["trial"], row["scenario"]): row["instance_accuracy"] for row in read("labels/unlabelled-trials.jsonl")
    }

    def of(trial):
        return tuple(found[trial, scenario] for scenario in SCENARIOS[:2])

    first, second, third = (of(student) for student in ("student", "second student", "third student"))
    assert "has {:.3f} on Small and {:.3f} on Various, where".format(*second) in text
    assert "the first has {:.3f} and {:.3f}; a third has {:.3f} and {:.3f}.".format(*first, *third) in text
    once, often = of("linear discriminant analysis of the student's classes"), of("the same, five times")
    assert f"gains {once[0] - first[0]:.3f} on Small and loses {first[1] - once[1]:.3f} on Various" in text
    assert all(after < before for after, before in zip(often, first, strict=True))
    all_bags, labelled = of("head on directions of all bags"), of("head on discriminants")
    assert f"(the head on them has {all_bags[1]:.3f}; {labelled[1]:.3f} on discriminants" in text
    small = (all_bags[0], labelled[0])
    assert "but not on Small ({:.3f}; {:.3f})".format(*small) in text
    assert "the head alone would have {:.3f} and {:.3f}".format(*of("head on true directions")) in text


def test_the_table_of_runners_up_on_pretrained_features_is_that_of_its_runs():
    page = (DOCS / "benchmarks/labels.md").read_text().split("**Pretrained features**")[1].split("\n## ")[0]
    of_cifar = [row for row in read("labels/unlabelled.jsonl") if (row["scenario"], row["line"]) == ("small", "all")]
    runs = [*read("labels/top2-features.jsonl"), *(row | {"line": "winner"} for row in of_cifar)]
    expected, gains = [], []
    names = {"cifar10-features": "CIFAR-10", "pathmnist-features": "PathMNIST"}
    for source, title in (names | {"svhn28-features": "SVHN (28x28, 50,000 images)"}).items():
        found = {
            line: {
                row["fold"]: row["instance_accuracy"] for row in runs if (row["source"], row["line"]) == (source, line)
            }
            for line in ("winner", "top2", "proportion")
        }
        assert all(sorted(folds) == [2, 3, 4] for folds in found.values())
        winner, ranked, proportion = (mean(folds.values()) for folds in found.values())
        closed = f"{100 * (ranked - winner) / (proportion - winner):.0f} %"
        expected.append([title, *(f"{value:.3f}" for value in (winner, ranked, proportion)), closed])
        gains += [found["top2"][fold] - found["winner"][fold] for fold in found["top2"]]
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    assert shown[1:] == expected
    assert f"gain in every fold, {min(gains):.3f} to {max(gains):.3f}, but" in " ".join(page.split())
    assert min(gains) > 0
