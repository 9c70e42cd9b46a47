#!/usr/bin/env bash
# Installs Python's ONNX tools into a virtual environment of their own under the cache directory,
# pinned; a second call does nothing. Prints the environment's folder.
#
# usage: install.sh [builder]   (builder: onnxruntime-genai and what its model builder needs, too)
set -eu
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
kind=${1:-tools}
venv=$home/engines/onnx-$kind
if [ ! -e "$venv/ready" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv" >&2
    packages='onnxruntime==1.31.1 onnx numpy'
    if [ "$kind" = builder ]; then
        packages="$packages onnxruntime-genai onnx-ir torch transformers gguf accelerate sentencepiece"
    fi
    "$venv/bin/pip" install -q $packages >&2
    touch "$venv/ready"
fi
echo "$venv"
