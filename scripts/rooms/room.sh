# Sourced by scripts that need a machine with nothing of this one on it. A room is a Debian root file
# system of its own, made by debootstrap. Only what the caller names comes in: the Rust toolchain, the
# settings of this machine's package registries, and what is bound or copied. Needs root, because
# debootstrap and chroot do; nothing stays mounted or running when a command in the room has ended.

rooms=${TANDEM_ROOMS:-$PWD/target/rooms}

room_fail() {
    echo "room: $*" >&2
    exit 1
}

# What every caller needs before the first room.
room_check() {
    [ "$(id -u)" = 0 ] || room_fail "making a root file system needs root: run it with sudo"
    command -v debootstrap >/dev/null || {
        command -v apt-get >/dev/null || room_fail "debootstrap is missing: install it"
        { apt-get update -qq && apt-get install -y -qq debootstrap; } >&2 || room_fail "debootstrap is missing, and apt-get failed"
    }
    command -v rustc >/dev/null || room_fail "rustc is missing: install Rust with rustup"
}

# The mirrors this machine's own apt uses: of the distribution, and of its security updates.
room_mirrors() {
    local found
    found=$(cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list 2>/dev/null |
        grep -oE 'https?://[^ ]+/debian(-security)?/?( |$)' | tr -d ' ' | sort -u)
    mirror=$(echo "$found" | grep -v security | head -n 1)
    security=$(echo "$found" | grep security | head -n 1)
    mirror=${TANDEM_DEBIAN_MIRROR:-$mirror}
    [ -n "$mirror" ] || room_fail "no Debian mirror is set in /etc/apt: name one with TANDEM_DEBIAN_MIRROR"
    : "${security:=${mirror%/}-security}"
}

# room_make FOLDER SUITE PACKAGE...: the smallest Debian and these packages. The plain system is made
# once a suite and copied.
room_make() {
    local folder=$1 suite=$2 base
    shift 2
    base=$rooms/base-$suite
    room_mirrors
    if [ ! -e "$base.ready" ]; then
        rm -rf "$base"
        mkdir -p "$rooms"
        debootstrap --variant=minbase --include=ca-certificates "$suite" "$base" "$mirror" >"$rooms/debootstrap.log" 2>&1 ||
            room_fail "debootstrap failed: $(tail -n 1 "$rooms/debootstrap.log")"
        printf 'deb %s %s main\ndeb %s %s-updates main\ndeb %s %s-security main\n' \
            "$mirror" "$suite" "$mirror" "$suite" "$security" "$suite" >"$base/etc/apt/sources.list"
        cp /etc/resolv.conf /etc/hosts "$base/etc/"
        # Mirrors and proxies may have an authority of their own.
        cp /etc/ssl/certs/ca-certificates.crt "$base/etc/ssl/certs/ca-certificates.crt"
        [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$base/etc/"
        touch "$base.ready"
    fi
    rm -rf "$folder"
    cp -a "$base" "$folder"
    mkdir -p "$folder/opt/rust" "$folder/room"
    chroot "$folder" useradd --create-home --uid 1000 person
    if [ $# -gt 0 ]; then
        room_run "$folder" root / "apt-get update -qq && apt-get install -y -qq --no-install-recommends $*" >"$folder.apt.log" 2>&1 ||
            room_fail "apt-get install $* failed: see $folder.apt.log"
    fi
}

# room_run FOLDER USER DIRECTORY COMMAND: runs a command in a room. ROOM_BIND="OUTSIDE:INSIDE ..."
# binds folders for its duration.
room_run() {
    local folder=$1 user=$2 directory=$3 command=$4 home
    home=/root
    [ "$user" = root ] || home=/home/$user
    mkdir -p "$folder$home/.cargo"
    [ ! -e "${CARGO_HOME:-$HOME/.cargo}/config.toml" ] || cp "${CARGO_HOME:-$HOME/.cargo}/config.toml" "$folder$home/.cargo/"
    chroot "$folder" chown -R "$user" "$home/.cargo"
    FOLDER=$folder AS=$user DIRECTORY=$directory COMMAND=$command INSIDE_HOME=$home \
        TOOLCHAIN=$(rustc --print sysroot) BIND=${ROOM_BIND:-} \
        unshare --mount --propagation private --pid --fork --kill-child -- bash -eu -c '
            mount -t proc proc "$FOLDER/proc"
            mount --rbind /dev "$FOLDER/dev"
            mount --bind -o ro "$TOOLCHAIN" "$FOLDER/opt/rust"
            for pair in $BIND; do
                mkdir -p "$FOLDER${pair#*:}"
                mount --bind "${pair%%:*}" "$FOLDER${pair#*:}"
            done
            # Registries, proxies and certificates come along; nothing else of this environment does.
            settings=$(env | grep -E "^(PIP_(INDEX_URL|EXTRA_INDEX_URL|CERT|PROXY|DEFAULT_TIMEOUT)|CARGO_(HTTP|NET|REGISTR)[A-Z_]*|(http|https|no)_proxy|(HTTP|HTTPS|NO)_PROXY|TANDEM_[A-Z_]*)=" | tr "\n" " ")
            exec chroot --userspec="$AS" "$FOLDER" /usr/bin/env -i $settings HOME="$INSIDE_HOME" USER="$AS" LANG=C.UTF-8 \
                PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
                bash -c "cd $DIRECTORY && $COMMAND"'
}

# room_copy_checkout FOLDER: the checkout as it would be committed now.
room_copy_checkout() {
    local folder=$1
    rm -rf "$folder"
    mkdir -p "$folder"
    git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - 2>/dev/null | tar -C "$folder" -xf -
}
