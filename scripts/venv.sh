#!/usr/bin/env bash
# venv.sh FOLDER: makes a virtual environment of Python there, anew. Debian packs what that needs apart
# from Python: it is brought with apt where we are root.
set -u
folder=$1
say() { echo "set-up: $*" >&2; }
make_it() { rm -rf "$folder" && python3 -m venv "$folder" >"$folder.log" 2>&1; }
mkdir -p "$(dirname "$folder")"
if ! make_it && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing python3-venv"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; } >&2 ||
        say "apt-get failed"
    make_it
fi
if [ ! -x "$folder/bin/pip" ]; then
    tail -n 3 "$folder.log" >&2
    say "no virtual environment could be made in $folder: install python3-venv (Debian: apt-get install python3-venv), then run it again"
    exit 1
fi
rm -f "$folder.log"
