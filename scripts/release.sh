#!/usr/bin/env bash
# Make a release in dist/: wheel and sdist of a clean clone of HEAD, checked, and tried in an empty environment.
# Nothing is uploaded: `twine upload dist/*` does that.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -z "$(git status --porcelain)" ] || { echo "there are changes that are not committed: commit or remove them"; exit 1; }

git clone --quiet "$root" "$work/clone"
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet build twine
"$work/tools/bin/python" -m build --outdir "$work/dist" "$work/clone"
"$work/tools/bin/twine" check --strict "$work"/dist/*

python3 -m venv "$work/empty"
"$work/empty/bin/pip" install --quiet -c constraints.txt "$work"/dist/*.whl
cd "$work"
for line in "--version" "demo demo" "check demo/insects.csv" "train demo/insects.csv --recipe quick --out run" \
    "predict run demo/card.csv --out classes.csv" "map run demo/card.csv --out map" "report run"; do
    # shellcheck disable=SC2086
    "$work/empty/bin/majority" $line
done
[ "$(wc -l < classes.csv)" -eq 33 ] && [ -s run/report.html ] && [ -s map/card1100.png ]

rm -rf "$root/dist"
cp -r "$work/dist" "$root/dist"
ls -l "$root/dist"
