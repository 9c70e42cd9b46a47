#!/usr/bin/env bash
# test_container.sh ARCHIVE: builds the image from a release archive and uses it as docs/release.md says:
# `tandem cloud` and `tandem serve` as the unprivileged user, the pulled models mounted read-only, both
# asked over loopback. Needs root and the models of `tandem pull`; the rest is brought with apt. Nothing
# of the machine's own containers is touched: images lie in a folder of this run.
#
# The base image is made with debootstrap, which needs no image registry; TANDEM_TEST_BASE=registry
# pulls the real one instead.
set -eu
archive=$(realpath "${1:?"usage: test_container.sh ARCHIVE"}")
cd "$(dirname "$0")/../.."
base=docker.io/library/debian:bookworm-slim
image=localhost/tandem:test
models=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
bundle=/etc/ssl/certs/ca-certificates.crt

say() { echo "container: $*"; }
fail() {
    echo "container: FAILED: $*" >&2
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

[ "$(id -u)" = 0 ] || fail "making a base image and a store of its own takes root"
[ -s "$archive" ] || fail "there is no archive $archive: run make dist"
[ -d "$models/models" ] || fail "there are no models in $models: run tandem pull"
want=
for tool in buildah podman runc slirp4netns debootstrap; do have "$tool" || want="$want $tool"; done
if [ -n "$want" ]; then
    say "installing$want"
    # shellcheck disable=SC2086 # Several packages.
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $want; } >&2 ||
        fail "apt-get could not install$want"
fi

store=$(mktemp -d)
# vfs needs nothing of the file system below. Without systemd podman cannot repeat the health check and
# logs that as an error; the test runs the check itself.
where=(--root "$store/images" --runroot "$store/run" --storage-driver vfs --log-level fatal)
pod() { podman "${where[@]}" --runtime runc "$@"; }
clean() {
    pod rm --force --all --volumes >/dev/null 2>&1 || true
    rm -rf "$store"
}
trap clean EXIT

# Packed once: a second run finds it there.
make_base() {
    local packed=.venv/container/bookworm.tar mirror
    if [ ! -s "$packed" ]; then
        # shellcheck disable=SC2016 # apt's variable, not the shell's.
        mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -m 1 '/debian/\?$') ||
            fail "apt names no mirror of Debian"
        say "making the base image with debootstrap from this machine's mirror"
        mkdir -p .venv/container
        debootstrap --variant=minbase bookworm "$store/base" "$mirror" >"$store/debootstrap.log" ||
            fail "debootstrap: $(tail -n 3 "$store/debootstrap.log")"
        rm -rf "$store"/base/var/cache/apt/archives/*.deb
        tar -C "$store/base" -cf "$packed.new" . && mv "$packed.new" "$packed"
        rm -rf "$store/base"
    fi
    pod import -q "$packed" "$base" >/dev/null
}

# Podman raises limits by itself, which not every machine's root may do. Everything that a server does
# not need is taken from it.
limits=(--ulimit nofile=4096:4096 --ulimit nproc=4096:4096)
confined=("${limits[@]}" --read-only --cap-drop all --security-opt no-new-privileges)
mounted=(-v "$models:/var/lib/tandem:ro")
loopback=(--network slirp4netns)

# Waits until the image's own health check is content.
wait_healthy() {
    for _ in $(seq 120); do
        pod healthcheck run "$1" >/dev/null 2>&1 && return
        [ "$(pod inspect --format '{{.State.Running}}' "$1")" = true ] ||
            fail "$1 ended: $(pod logs "$1" 2>&1)"
        sleep 1
    done
    fail "$1 is not healthy after two minutes: $(pod logs "$1" 2>&1)"
}

# ask URL KEY [JSON]: prints the status, then the body.
ask() {
    python3 - "$@" <<'PYTHON'
import sys, urllib.error, urllib.request
url, key, *data = sys.argv[1:]
headers = {"Content-Type": "application/json"}
if key:
    headers["Authorization"] = f"Bearer {key}"
body = data[0].encode() if data else None
try:
    reply = urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=300)
except urllib.error.HTTPError as error:
    reply = error
print(reply.status, reply.read().decode())
PYTHON
}
expect() { # expect WHAT PATTERN TEXT
    # shellcheck disable=SC2254 # The pattern is one.
    case $3 in
    $2) say "$1: ok" ;;
    *) fail "$1: $3" ;;
    esac
}
address() { echo "http://$(pod port "$1" "$2")"; }
user_of() { pod top "$1" huser user | tail -n 1 | tr -s ' '; }
stop() {
    pod stop --time 20 "$1" >/dev/null
    expect "$1 stops when asked to" 0 "$(pod inspect --format '{{.State.ExitCode}}' "$1")"
}

[ "${TANDEM_TEST_BASE:-debootstrap}" = registry ] || make_base
say "building the image"
buildah "${where[@]}" build --isolation chroot --format docker -f Containerfile \
    --build-arg "ARCHIVE=$(basename "$archive")" -t "$image" "$(dirname "$archive")" >"$store/build.log" 2>&1 ||
    fail "the image does not build: $(tail -n 15 "$store/build.log")"
say "$(pod images --format '{{.Repository}} {{.Size}}, on a base of' "$image") $(pod images --format '{{.Size}}' "$base")"

name=$(basename "$archive" .tar.gz)
version=${name#tandem-}
says=$(pod run --rm "${confined[@]}" --network none "$image" --version)
expect "it says its version" "tandem ${version%-*-linux} (*" "$says"

pod run -d --name idle "${confined[@]}" --network none --entrypoint sleep "$image" 600 >/dev/null
if pod healthcheck run idle >/dev/null 2>&1; then fail "a container without a server is healthy"; fi
say "a container without a server is not healthy: ok"
pod rm --force idle >/dev/null

pod run -d --name cloud "${confined[@]}" "${mounted[@]}" "${loopback[@]}" -p 127.0.0.1::8090 \
    -e TANDEM_CLOUD_KEY=cloud-key "$image" cloud --listen 0.0.0.0:8090 >/dev/null
wait_healthy cloud
expect "tandem cloud runs as" "10001 tandem" "$(user_of cloud)"
expect "tandem cloud answers on loopback" '200 *"service":"tandem-cloud"*' "$(ask "$(address cloud 8090)/health" "")"
expect "tandem cloud wants its key" '401 *' "$(ask "$(address cloud 8090)/v1/sessions" wrong '{}')"
text=$(pod run --rm "${confined[@]}" "${mounted[@]}" --network container:cloud "$image" run --json \
    --cloud http://127.0.0.1:8090 --cloud-key cloud-key --on-cloud-error fail --threshold 0.9 \
    --max-tokens 8 "Why is the sky blue?")
expect "an edge writes with it" '*"source":"cloud"*' "$text"
stop cloud

pod run -d --name serve "${confined[@]}" "${mounted[@]}" "${loopback[@]}" -p 127.0.0.1::8080 \
    -e TANDEM_API_KEYS=api-key "$image" serve --listen 0.0.0.0:8080 >/dev/null
wait_healthy serve
expect "tandem serve runs as" "10001 tandem" "$(user_of serve)"
expect "tandem serve answers on loopback" '200 *"status":"ok"*' "$(ask "$(address serve 8080)/health" "")"
question='{"model": "tandem-small", "max_tokens": 8, "messages": [{"role": "user", "content": "Name a river."}]}'
chat=$(address serve 8080)/v1/chat/completions
expect "tandem serve wants a key" '401 *' "$(ask "$chat" "" "$question")"
expect "tandem serve writes" '200 *"completion_tokens":[1-8]*' "$(ask "$chat" api-key "$question")"
stop serve

# An empty volume belongs to the image's user, and its pip fetches into it, with this machine's settings.
settings=(-v "$bundle:$bundle:ro")
[ ! -f /etc/pip.conf ] || settings+=(-v /etc/pip.conf:/etc/pip.conf:ro)
pod run --rm "${confined[@]}" --tmpfs /tmp "${loopback[@]}" "${settings[@]}" -v fresh:/var/lib/tandem \
    "$image" pull onnxruntime >"$store/pull.log" 2>&1 || fail "tandem pull: $(tail -n 5 "$store/pull.log")"
found=$(pod run --rm "${confined[@]}" --network none -v fresh:/var/lib/tandem --entrypoint find "$image" \
    /var/lib/tandem -name 'libonnxruntime*' -user tandem -size +1M)
expect "tandem pull fills an empty volume" '/var/lib/tandem/*' "$found"

say "PASSED: $name"
