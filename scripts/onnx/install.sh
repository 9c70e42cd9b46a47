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
    "$(dirname "$0")/../venv.sh" "$venv"
    packages='onnxruntime==1.31.1 onnx==1.23.2 numpy==2.4.6'
    if [ "$kind" = builder ]; then
        packages="$packages onnxruntime-genai==0.18.0 onnx-ir==1.1.0 torch==2.15.0"
        packages="$packages transformers==5.22.2 gguf==0.19.0 accelerate==1.15.0 sentencepiece==0.2.2"
    fi
    "$venv/bin/pip" install -q $packages >&2
    touch "$venv/ready"
fi
echo "$venv"
