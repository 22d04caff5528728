#!/usr/bin/env bash
# Run the tests with each supported Python and with the lowest versions that pyproject.toml declares.
# Each combination has its environment under .matrix/. To run only some: scripts/test_matrix.sh 3.12 lowest
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 3.11 3.12 3.13 lowest

failed=()
for name; do
    version=$name constraints=constraints.txt
    [ "$name" != lowest ] || version=3.11 constraints=constraints-lowest.txt
    python=$(pyenv prefix "$(pyenv latest "$version" 2> /dev/null)" 2> /dev/null)/bin/python
    [ -x "$python" ] || python=python$version  # without pyenv
    environment=.matrix/$name
    echo "== $name: $("$python" --version)"
    "$python" -m venv "$environment" &&
        "$environment/bin/pip" install --quiet -c "$constraints" -e ".[dev]" &&
        OMP_NUM_THREADS=1 "$environment/bin/pytest" -q -n 2 --dist worksteal ||
        failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
