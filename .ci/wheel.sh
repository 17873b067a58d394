#!/usr/bin/env bash
# Build the wheel and the source archive in dist/, and test the wheel as a student would use it: in an empty environment,
# outside the clone. Run by `make wheel`.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf dist
uv build --quiet --out-dir dist
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
python -m zipfile --list dist/*.whl > "$empty/list"
if grep -E '^(tests|solutions)/|solutions\.toml|course\.toml' "$empty/list"; then
    echo "The wheel must contain neither tests nor solutions, but it contains the files above." >&2
    exit 1
fi
python -m venv "$empty/python"
"$empty/python/bin/pip" install --quiet --constraint requirements.lock "$(realpath dist/*.whl)[lessons]"
cd "$empty"
# The checks must accept the solutions here too, although the references are in site-packages.
python/bin/python - <<'EOF'
import sys

from course_lib.checks.engine.diagnosis import examine
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.exercises.registry import catalogue


def in_a_cell(exercise):
    names = dict(vars(sys.modules[exercise.reference.__module__]))
    exec(compile(exercise.source_with(), "<cell>", "exec"), names)
    return LocalBackend(names[exercise.name])


exercises = [entry for entry in catalogue().values() if isinstance(entry, ExerciseCheck)]
refused = [one.name for one in exercises if not examine(one, in_a_cell(one), "wheel").passed]
raise SystemExit(f"The checks reject the solutions of {', '.join(refused)}." if refused else 0)
EOF
for command in --version "lab lessons --version" "progress lessons" "translate --help"; do
    # shellcheck disable=SC2086
    python/bin/course $command
done
