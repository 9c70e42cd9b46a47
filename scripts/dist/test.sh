#!/usr/bin/env bash
# What `make dist` made, tried as strangers would: on other CPUs, on plain distributions, damaged.
# Prints a line a check and exits non-zero if one fails. Needs root for the rooms, the models pulled,
# and qemu-user for other CPUs.
set -u
cd "$(dirname "$0")/../.." || exit 1
. scripts/rooms/room.sh
room_check
command -v qemu-x86_64 >/dev/null || apt-get install -y -qq qemu-user >/dev/null
name=tandem-$(scripts/release/version.sh)-$(uname -m)-linux
archive=$PWD/dist/$name.tar.gz
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
[ -e "$archive" ] || room_fail "$archive is missing: run 'make dist' first"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tar -xzf "$archive" -C "$scratch"
tandem=$scratch/$name/bin/tandem
passed=0 failed=0

# check WHAT COMMAND: the command must succeed; what it printed is shown if it does not.
check() {
    local what=$1
    shift
    if "$@" >"$scratch/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok    $what"
    else
        failed=$((failed + 1))
        echo "FAIL  $what"
        tail -n 5 "$scratch/log" | sed 's/^/      /'
    fi
}

on_cpu() { qemu-x86_64 -cpu "$1" "$tandem" run --mode small --max-tokens 4 --threads 2 hi; }
newest() { grep -raohE "$1_[0-9.]+" "$scratch/$name/bin" "$scratch/$name/lib" | sort -Vu | tail -n 1; }
at_most() { echo "wants $1"; [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | tail -n 1)" = "$2" ]; }
in_room() {
    room_make "$rooms/plain-$1" "$1"
    cp -a "$scratch/$name" "$rooms/plain-$1/opt/"
    ROOM_BIND="$home:/home/person/.cache/tandem" room_run "$rooms/plain-$1" person / \
        "! ldd /opt/$name/bin/tandem | grep 'not found' && /opt/$name/bin/tandem run --mode small --max-tokens 4 hi"
}
one_line() {
    # one_line CODE WORDS COMMAND: ends with this code and one line that says so.
    local code=$1 words=$2 said
    shift 2
    said=$("$@" 2>&1 >/dev/null)
    local got=$?
    echo "exit code $got: $said"
    [ $got = "$code" ] && [ "$(echo "$said" | wc -l)" = 1 ] && grep -q "$words" <<<"$said"
}
install_to() {
    mkdir -m 751 "$scratch/prefix"
    scripts/dist/install.sh "$scratch/prefix" && "$scratch/prefix/bin/tandem" --version &&
        # Whose the folder is does not change, and no scratch stays.
        [ "$(stat -c %a "$scratch/prefix")" = 751 ] && [ "$(ls -A "$scratch/prefix" | xargs)" = "bin lib share" ] &&
        # Over itself, and while it runs.
        { "$scratch/prefix/bin/tandem" run --mode small --max-tokens 4 hi & } &&
        scripts/dist/install.sh "$scratch/prefix" && wait $!
}
# As the README's line arrives from a shell that leaves the ~ alone.
home_install() {
    HOME=$scratch/person make --silent install 'PREFIX=~/.local' && "$scratch/person/.local/bin/tandem" --version
}
truncated_install() {
    head -c 3000000 "$archive" >"$scratch/truncated.tar.gz"
    one_line 1 "truncated.tar.gz is damaged" scripts/dist/install.sh "$scratch/other" "$scratch/truncated.tar.gz" &&
        [ -z "$(ls -A "$scratch/other")" ]
}
# Onto a disk with less room than it needs.
full_install() {
    mkdir "$scratch/small"
    unshare --mount sh -c "mount -t tmpfs -o size=20m none '$scratch/small' || exit 9
        scripts/dist/install.sh '$scratch/small'; code=\$?; ls -A '$scratch/small' >&2; exit \$code"
}
# first_token WHOSE OPTION...: how long until the first byte on stdout, the first word of the answer.
first_token() {
    local whose=$1 started ended
    shift
    started=$(date +%s%N)
    "$tandem" run --max-tokens 32 "$@" "Name the largest river in Africa." 2>/dev/null | head -c 1 >/dev/null
    ended=$(date +%s%N)
    echo "first token$whose after $(((ended - started) / 1000000)) ms" | tee "$scratch/first"
    [ $((ended - started)) -le 10000000000 ]
}

bare_size() {
    local bytes
    tar -C "$scratch" --exclude=presets -czf "$scratch/bare.tar.gz" "$name" || return
    bytes=$(stat -c %s "$scratch/bare.tar.gz")
    echo "without presets: $((bytes / 1000000)) MB" | tee "$scratch/size"
    [ "$bytes" -le 40000000 ]
}
check "the archive without presets is at most 40 MB" bare_size
cat "$scratch/size"
check "glibc 2.31 or older" at_most "$(newest GLIBC)" GLIBC_2.31
check "libstdc++ of Debian 11 or older" at_most "$(newest GLIBCXX)" GLIBCXX_3.4.28
check "answers on this machine" "$tandem" run --mode small --max-tokens 4 hi
for cpu in Haswell Nehalem; do check "answers on a $cpu" on_cpu $cpu; done
for suite in bullseye bookworm trixie; do check "answers on a plain $suite" in_room $suite; done
check "first joint token within 10 s" first_token ""
cat "$scratch/first"
# Every position is asked about, so that the large model has to be loaded for the first one.
check "first token from the cloud within 10 s" first_token " from the cloud" --threshold 1
cat "$scratch/first"
check "make install" install_to
check "make install, with ~ for the home folder" home_install
check "the manual is there" test -s "$scratch/prefix/share/man/man1/tandem-run.1"
check "the units for systemd are there" test -s "$scratch/prefix/share/tandem/ops/tandem-serve.service"
check "a truncated archive: one clear line, nothing installed" truncated_install
check "a full disk: one clear line, nothing installed" one_line 1 "is full: make room" full_install
rm "$scratch/$name"/lib/tandem/libggml-cpu-*
check "without its kernels: one clear line" one_line 1 "libggml-cpu" "$tandem" run --mode small hi
echo
echo "$passed passed, $failed failed"
[ $failed = 0 ]
