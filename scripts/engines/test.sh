#!/usr/bin/env bash
# Installs llama-server, vLLM and SGLang, starts one after the other on loopback, runs the conformance
# suite and the table of what an ask costs against each, and stops it. All have the same weights, in
# 32 bits. llama-server is tried with the large model's as well, which takes 7 GB of disk and memory.
#
# usage: test.sh TANDEM [vllm|sglang|llama-server ...]
set -eu
cd "$(dirname "$0")/../.."
. .venv/env
tandem=$PWD/$1
shift
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
model=smollm2-135m-instruct
folder=$home/engines/$model
large=qwen2.5-coder-1.5b-instruct
float32=$(scripts/engines/float32.sh "$tandem" "$model")
key=sesame
passed=0 failed=0

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

is_up() {
    python3 -c 'import sys, urllib.request as u
u.urlopen(u.Request(sys.argv[1] + "/v1/models", headers={"Authorization": "Bearer " + sys.argv[2]}))' \
        "$1" "$key" 2>/dev/null
}

stop() {
    # Asked more than once: a server that is still loading may miss the first.
    for _ in $(seq 30); do
        kill -TERM "$1" 2>/dev/null || break
        sleep 1
    done
    # Its own session, so that workers cannot stay behind.
    kill -KILL -- "-$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

# Starts an engine on a port of its own and waits until it answers: sets `url` and `server`.
start() {
    port=$(free_port)
    url=http://127.0.0.1:$port
    log=$home/engines/$1.log
    echo "== $1: starting (its log: $log)" >&2
    setsid "scripts/engines/serve_$1.sh" "$port" "$key" "$2" >"$log" 2>&1 &
    server=$!
    trap 'stop $server' EXIT
    for _ in $(seq 240); do
        is_up "$url" && break
        kill -0 "$server" 2>/dev/null || break
        sleep 1
    done
}

# The same tokens as the embedded cloud, at this many places of each text?
conforms() {
    env TANDEM_ENGINE_URL="$url" TANDEM_ENGINE_KEY="$key" TANDEM_ENGINE_MODEL="$1" \
        TANDEM_ENGINE_POSITIONS="$2" \
        cargo test -q --release --workspace --test it a_started_engine -- --ignored --nocapture
}

try() {
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# The whole workspace: one package alone would be built anew, with features of its own.
cargo build -q --release --workspace --test it
for engine in ${@:-vllm sglang llama-server}; do
    echo "== $engine: installing" >&2
    venv=$(scripts/engines/install.sh "$engine")
    path=$("$tandem" pull --list --json | python3 -c \
        "import json, sys; print(next(m['path'] for m in json.load(sys.stdin)['models'] if m['name'] == '$model'))")
    if [ "$engine" != llama-server ] && [ ! -d "$folder" ]; then
        echo "== writing $model in Hugging Face form" >&2
        "$venv/bin/python" scripts/engines/hugging_face.py "$path" "$folder" >&2
    fi
    start "$engine" "$folder"
    echo
    echo "== $engine"
    # The first answer compiles what it needs; it is no measure.
    try "$tandem" doctor --cloud "$url" --cloud-key "$key" --edge-model "$model"
    try conforms "$float32" 8
    try "$tandem" bench ask --cloud "$url" --cloud-key "$key" --lengths 256,512,1024,2048
    try "$tandem" run "Why is the sky blue?" --cloud "$url" --cloud-key "$key" \
        --edge-model "$model" --threshold 0.5 --max-tokens 40 --on-cloud-error fail
    if [ "$engine" = sglang ]; then
        # The original system, whole: an ONNX edge, its router, SGLang behind it; twenty questions.
        onnx=$home/engines/$model-commonsenseqa-int8
        [ -e "$onnx/model.onnx" ] || TANDEM_PAIR=tiny "$tandem" onnx export --preset commonsenseqa -o "$onnx"
        try "$tandem" eval builtin --limit 20 --pair tiny --preset commonsenseqa --edge-model "$onnx" \
            --cloud "$url" --cloud-key "$key" --on-cloud-error fail --no-large --baseline none \
            --results "$home/engines/sglang.jsonl" --fresh
    fi
    echo "== $engine: stopping" >&2
    stop "$server"
    trap - EXIT
    if [ "$engine" = llama-server ]; then
        large32=$(scripts/engines/float32.sh "$tandem" "$large")
        start llama-server "$home/engines/$large"
        echo
        echo "== llama-server with the large model"
        try conforms "$large32" 6
        stop "$server"
        trap - EXIT
    fi
done
echo
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
