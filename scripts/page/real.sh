#!/usr/bin/env bash
# Tests the page as the program serves it, in headless Chromium: `tandem serve` with the small model
# as its own cloud. Arguments behind the program choose test files by a part of their name.
#
# usage: real.sh TANDEM [NAME ...]
set -eu
cd "$(dirname "$0")/../.."
tandem=$1
shift
said=$(mktemp)
# One thread and a slow network: with every core computing, the browser comes to press Stop only when
# the answer has ended.
"$tandem" serve --pair tiny --listen 127.0.0.1:0 --cloud-model smollm2-135m-instruct --router top1 --context 2048 \
    --threads 1 --simulate-rtt 150ms 2>"$said" &
server=$!
trap 'kill $server 2>/dev/null; rm -f "$said"' EXIT
for _ in $(seq 300); do
    url=$(sed -n 's/^listening on //p' "$said")
    [ -z "$url" ] && kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
if [ -z "$url" ]; then
    echo "tandem serve did not start:" >&2
    cat "$said" >&2
    exit 1
fi
TANDEM_URL=$url scripts/page/test.sh "$@"
