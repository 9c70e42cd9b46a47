#!/usr/bin/env bash
# test.sh PROGRAM: builds the Python package, installs it where nothing else of this repository is, and
# tests it with the real models.
set -u
program=$1
cd "$(dirname "$0")/../.."
wheel=$(scripts/python/wheel.sh "$program") || exit 1
python=.venv/python/bin
"$python/pip" install -q --force-reinstall --no-deps "$wheel" || exit 1
echo "     Running crates/python: types"
status=0
"$python/mypy" --config-file crates/python/pyproject.toml crates/python/tests || status=1
"$python/python" -m mypy.stubtest --mypy-config-file crates/python/pyproject.toml tandem || status=1
echo "     Running crates/python/tests"
# Threads that wait for work must not keep two cores busy.
OMP_WAIT_POLICY=passive "$python/pytest" -q -p no:cacheprovider crates/python/tests | tee .venv/python/log
[ "${PIPESTATUS[0]}" = 0 ] || status=1
# In the form in which scripts/test.sh adds them up.
count() { grep -oE "[0-9]+ $1" .venv/python/log | tail -1 | grep -oE '^[0-9]+' || echo 0; }
echo "$(count passed) passed, $(($(count failed) + $(count error))) failed"
exit "$status"
