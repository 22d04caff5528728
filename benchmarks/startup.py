"""CPU seconds of short commands: `majority --help`, `list`, `check` of a small table, `predict` of its hundred rows.

    python benchmarks/startup.py --out results/speed/startup.json
    python benchmarks/startup.py --before OTHER/src --out FILE     also those of another checkout, in turns

CPU seconds (user and system, of all threads) are counted, because other processes change them less than the time by the
clock; they still make them longer, so measure on an idle machine. Most of them are imports: `python -X importtime -m
majority list` has those of each module.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from helpers import commit, majority, make_parser, run_measured

from majority.files import write_json
from majority.run.folder import environment


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--tiny", action="store_true", help="`list` alone, once: to test the code")
    parser.add_argument("--before", type=Path, help="the src folder of another checkout")
    options = parser.parse_args()
    sources = {"after": Path(__file__).resolve().parents[1] / "src"}
    sources |= {"before": options.before} if options.before else {}
    machine = environment() | {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2)}  # idle is near 0
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        table, run = Path(folder, "bags.csv"), Path(folder, "run")
        rows = [f"{bag},{'ab'[bag % 2]},{bag % 2 + i / 10},{bag + i}.5" for bag in range(20) for i in range(5)]
        table.write_text("\n".join(["bag,bag_label,one,two", *rows]))
        commands = {"list": ["list"]}
        if not options.tiny:
            run_measured(majority("train", table, "--recipe", "quick", "--epochs", "1", "--out", run))
            predict = ["predict", run, table, "--out", Path(folder, "classes.csv")]
            commands |= {"help": ["--help"], "check": ["check", table], "predict": predict}
        for repeat in range(1 if options.tiny else options.repeats + 1):
            for name, words in commands.items():
                for when, source in sources.items():
                    measured = run_measured(majority(*words), PYTHONPATH=str(source))["cpu"]
                    if repeat or options.tiny:  # the first compiles the modules
                        seconds[when, name].append(measured)
    result: dict = {"command": "python benchmarks/startup.py", "environment": machine, "cpu_seconds": {}}
    for (when, name), each in seconds.items():
        found = {"median": round(statistics.median(each), 3), "lowest": min(each), "n": len(each)}
        result["cpu_seconds"].setdefault(when, {})[name] = found
    write_json(options.out, result | {"commit": options.commit or commit()})


if __name__ == "__main__":
    main()
