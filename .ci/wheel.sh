#!/usr/bin/env bash
# Builds the wheel and the source archive into dist/, and tries the wheel as a student does, in an empty environment
# and far from the clone. Run by `make wheel`.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf dist
uv build --quiet --out-dir dist
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
python -m zipfile --list dist/*.whl > "$empty/list"
if grep -E '^(tests|solutions)/|solutions\.toml|course\.toml' "$empty/list"; then
    echo "The wheel must hold neither tests nor solutions." >&2
    exit 1
fi
python -m venv "$empty/python"
"$empty/python/bin/pip" install --quiet --constraint requirements.lock "$(realpath dist/*.whl)[lessons]"
cd "$empty"
for command in --version "lab lessons --version" "progress lessons" "translate --help"; do
    # shellcheck disable=SC2086
    python/bin/course $command
done
