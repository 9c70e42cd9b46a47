#!/usr/bin/env bash
# lm-evaluation-harness asks `tandem serve` ten questions as chats and ten as completions. No torch, and no set
# of questions from elsewhere.
#
# usage: lm_eval.sh TANDEM
set -u
cd "$(dirname "$0")/../.."
. scripts/clients/serve.sh
environment lm_eval || exit 1
start_server "$1" --context 1024 || exit 1
.venv/clients/lm_eval/bin/python tests/clients/lm_eval_questions.py "$url" "$key"
