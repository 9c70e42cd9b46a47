# What the scripts beside this one share. Sourced, from the root of the repository.

key=test-key

# environment NAME: the packages of scripts/clients/NAME.txt in .venv/clients/NAME, and those of NAME_sources.txt
# built with them. Once: what was installed from is kept, and the same means nothing to do.
environment() {
    local folder=.venv/clients/$1 from=scripts/clients/$1.txt sources=scripts/clients/$1_sources.txt
    cmp -s "$from" "$folder/from" && return
    echo "set-up: $1" >&2
    scripts/venv.sh "$folder" && scripts/pip.sh "$folder" "$from" || return
    if [ -e "$sources" ]; then
        # With the setuptools that are there now: pip would fetch the newest otherwise, unchecked.
        "$folder/bin/pip" install -q --require-hashes --no-deps --no-build-isolation -r "$sources" >&2 || return
    fi
    cp "$from" "$folder/from"
}

# start_server TANDEM [FLAG ...]: `tandem serve` with the small model on both sides, on a free port, until
# the script ends. Sets url, and scratch, a folder that goes with it.
start_server() {
    local tandem=$1
    shift
    scratch=$(mktemp -d)
    "$tandem" serve --pair tiny --listen 127.0.0.1:0 --api-key "$key" --cloud-model smollm2-135m-instruct "$@" \
        2>"$scratch/serve.log" &
    server=$!
    trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; rm -rf "$scratch"' EXIT
    for _ in $(seq 300); do
        url=$(sed -n 's/^listening on //p' "$scratch/serve.log")
        [ -n "$url" ] && return
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "tandem serve did not start:" >&2
    cat "$scratch/serve.log" >&2
    return 1
}
