# Servers of this program for scripts that measure it. Sourced, from the root of the repository.

scratch=$(mktemp -d)
started=()
end_servers() {
    [ "${#started[@]}" = 0 ] || kill "${started[@]}" 2>/dev/null
    wait
    rm -rf "$scratch"
}
trap end_servers EXIT
trap 'exit 130' INT TERM

# start COMMAND ...: a server in the background, until the script ends. Sets url to where it listens, which
# the server says on stderr.
start() {
    local said=$scratch/${#started[@]}.log
    : >"$said"
    "$@" 2>>"$said" &
    started+=($!)
    for _ in $(seq 1200); do
        url=$(sed -n 's/^listening on //p' "$said")
        [ -n "$url" ] && return
        kill -0 "${started[-1]}" 2>/dev/null || break
        sleep 0.1
    done
    echo "$* did not start:" >&2
    cat "$said" >&2
    return 1
}

# Sets python to one that has jsonschema, which alone is not in Python's own library.
find_jsonschema() {
    for python in ${PYTHON:-.venv/clients/python/bin/python python3}; do
        "$python" -c 'import jsonschema' 2>/dev/null && return
    done
    echo "jsonschema is missing: scripts/clients/install.sh brings it, or \`pip install jsonschema==4.26.0\`;" \
        "PYTHON names the Python that has it" >&2
    return 1
}

# threads_of N: how many threads each of N groups of servers may have on this machine.
threads_of() {
    local threads=$(($(nproc) / $1))
    echo $((threads > 0 ? threads : 1))
}
