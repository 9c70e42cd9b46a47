#!/usr/bin/env bash
# Open WebUI over `tandem serve`, used in headless Chromium. Pictures of what it showed go to a folder, if one is
# named.
#
# usage: open_webui.sh TANDEM [FOLDER]
set -u
tandem=$1 pictures=${2:+$(realpath -m -- "$2")}
cd "$(dirname "$0")/../.."
. scripts/clients/serve.sh
# Its makers' own short list, which is all that its slim image has: without models for embedding, speech and
# pictures, which take gigabytes. Hence it comes without what its package asks for.
environment open_webui || exit 1
folder=.venv/clients/open_webui
scripts/pip.sh "$folder" scripts/clients/open_webui_program.txt || exit 1
scripts/page/install.sh || exit 1
. .venv/node-env
# It sends some 7000 tokens of its own with the first message: what its tools are for.
start_server "$tandem" --context 8192 || exit 1
port=$("$folder/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# In a folder of its own: it keeps its database, its key and its log there. Nothing is fetched or told to anybody.
program=$PWD/$folder/bin/open-webui
(
    cd "$scratch" &&
        exec env HOME="$scratch" DATA_DIR="$scratch/data" WEBUI_SECRET_KEY=secret WEBUI_AUTH=False \
            USE_SLIM_DOCKER=true OPENAI_API_BASE_URL="$url/v1" OPENAI_API_KEY="$key" ENABLE_OLLAMA_API=False \
            OFFLINE_MODE=True HF_HUB_OFFLINE=1 ENABLE_VERSION_UPDATE_CHECK=False ANONYMIZED_TELEMETRY=False \
            DO_NOT_TRACK=1 SCARF_NO_ANALYTICS=1 BYPASS_EMBEDDING_AND_RETRIEVAL=True \
            "$program" serve --host 127.0.0.1 --port "$port"
) >"$scratch/open_webui.log" 2>&1 &
webui=$!
trap 'kill "$webui" "$server" 2>/dev/null; wait "$webui" "$server" 2>/dev/null; rm -rf "$scratch"' EXIT
# It makes its database at first, and listens when that is done.
for _ in $(seq 600); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    kill -0 "$webui" 2>/dev/null || break
    sleep 0.2
done
node tests/clients/open_webui.mjs "http://127.0.0.1:$port" "$url" "$key" ${pictures:+"$pictures"} && exit
echo "the end of Open WebUI's log:" >&2
tail -n 40 "$scratch/open_webui.log" >&2
exit 1
