#!/usr/bin/env bash
# Serves a model with vLLM on the CPU, in the foreground, on 127.0.0.1; SIGTERM stops it.
#
# usage: serve_vllm.sh PORT KEY FOLDER   (FOLDER holds the model in Hugging Face form)
set -eu
port=$1 key=$2 folder=$3
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
export VLLM_CPU_KVCACHE_SPACE=2 VLLM_CPU_OMP_THREADS_BIND=0-$(($(nproc) - 1))
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
# Threads that wait must sleep: an edge on the same cores needs them.
export OMP_WAIT_POLICY=PASSIVE GOMP_SPINCOUNT=0 KMP_BLOCKTIME=0
# The CPU build wants blocks of a multiple of 32 tokens. Scale-out brings /inference/v1/generate.
exec "$home/engines/vllm/bin/python" -m vllm.entrypoints.openai.api_server \
    --host 127.0.0.1 --port "$port" --api-key "$key" --model "$folder" \
    --served-model-name "$(basename "$folder")" --dtype float32 --max-model-len 4096 \
    --max-num-seqs 8 --enforce-eager --block-size 32 --enable-prefix-caching \
    --enable-prompt-tokens-details --enable-scale-out
