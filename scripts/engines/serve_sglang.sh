#!/usr/bin/env bash
# Serves a model with SGLang on the CPU, in the foreground, on 127.0.0.1; SIGTERM stops it.
#
# usage: serve_sglang.sh PORT KEY FOLDER   (FOLDER holds the model in Hugging Face form)
set -eu
port=$1 key=$2 folder=$3
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
here=$(cd "$(dirname "$0")" && pwd)
export SGLANG_USE_CPU_ENGINE=1 CUDA_VISIBLE_DEVICES= HF_HUB_OFFLINE=1
# Threads that wait must sleep: an edge on the same cores needs them.
export OMP_WAIT_POLICY=PASSIVE GOMP_SPINCOUNT=0 KMP_BLOCKTIME=0
export PYTHONPATH=$here/stand_in${PYTHONPATH:+:$PYTHONPATH}
exec "$home/engines/sglang/bin/python" -m sglang.launch_server \
    --host 127.0.0.1 --port "$port" --api-key "$key" --model-path "$folder" \
    --served-model-name "$(basename "$folder")" --device cpu --dtype float32 \
    --attention-backend torch_native --sampling-backend pytorch --disable-cuda-graph \
    --context-length 4096 --max-total-tokens 16384 --enable-cache-report --skip-server-warmup \
    --enable-streaming-session
