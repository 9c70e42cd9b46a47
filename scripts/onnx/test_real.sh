#!/usr/bin/env bash
# A model made by a public tool: the small model's weights, dequantised, written as a Hugging Face
# folder and exported by onnxruntime-genai's own builder (int4, from full precision; and fp32), then
# run here. Brings several gigabytes the first time.
#
# usage: test_real.sh TANDEM
set -eu
cd "$(dirname "$0")/../.."
tandem=$1
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
venv=$(scripts/onnx/install.sh builder)
model=smollm2-135m-instruct
path=$("$tandem" pull --list --json | python3 -c \
    "import json, sys; print(next(m['path'] for m in json.load(sys.stdin)['models'] if m['name'] == '$model'))")
source=$home/engines/$model
[ -e "$source/config.json" ] || "$venv/bin/python" scripts/engines/hugging_face.py "$path" "$source" >&2
for precision in fp32 int4; do
    folder=$home/engines/$model-genai-$precision
    if [ ! -e "$folder/genai_config.json" ]; then
        rm -rf "$folder"
        "$venv/bin/python" -m onnxruntime_genai.models.builder -i "$source" -o "$folder" \
            -p "$precision" -e cpu -c "$home/engines/genai-cache" >&2
    fi
done
. .venv/env
TANDEM_GENAI_FP32=$home/engines/$model-genai-fp32 TANDEM_GENAI_INT4=$home/engines/$model-genai-int4 \
    cargo test --release --workspace --test it onnx_real -- --ignored --test-threads=1
