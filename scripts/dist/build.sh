#!/usr/bin/env bash
# Makes what a person downloads: dist/tandem-VERSION-ARCH-linux.tar.gz and its
# checksum. Built inside Debian 11, so that every distribution since 2020 (glibc 2.31) can run it.
set -eu
cd "$(dirname "$0")/../.."
. scripts/rooms/room.sh
room_check

version=$(scripts/release/version.sh)
name=tandem-$version-$(uname -m)-linux
work=$PWD/target/dist
tree=$work/$name
room=$rooms/build
packages="clang-16 libclang-16-dev libomp-16-dev g++ cmake make patchelf"

if [ ! -e "$room.ready" ]; then
    room_make "$room" bullseye $packages
    touch "$room.ready"
fi
mkdir -p "$work/target" "$work/cargo"
commit=$(git rev-parse --short=10 HEAD 2>/dev/null || true)
ROOM_BIND="$PWD:/room/source $work/target:/room/target $work/cargo:/room/cargo" \
    room_run "$room" root /room/source "export CARGO_HOME=/room/cargo TANDEM_COMMIT=$commit; scripts/dist/compile.sh /room/target"

rm -rf "$tree"
built=$work/target/dist
llama=$(ls -td "$built"/build/llama-cpp-sys-2-*/out | head -n 1)
mkdir -p "$tree/bin" "$tree/lib/tandem"
cp "$built/tandem" "$tree/bin/"
cp "$llama"/backends/libggml-cpu-*.so "$tree/lib/tandem/"
# The program itself wants SSE 4.2, so nobody has a use for the kernels without it.
rm -f "$tree/lib/tandem/libggml-cpu-x64.so"
# A library is looked for by the name inside it.
soname() { objdump -p "$1" | sed -n 's/^ *SONAME *//p'; }
for library in "$llama"/lib*/lib{llama,ggml,ggml-base}.so "$room"/usr/lib/llvm-16/lib/libomp.so.5; do
    cp -L "$library" "$tree/lib/tandem/$(soname "$library")"
done
strip "$tree/bin/tandem" "$tree"/lib/tandem/*
ROOM_BIND="$tree:/room/tree" room_run "$room" root /room/tree '
    patchelf --set-rpath "\$ORIGIN/../lib/tandem" bin/tandem
    for library in lib/tandem/*; do patchelf --set-rpath "\$ORIGIN" "$library"; done'
scripts/dist/share.sh "$tree/bin/tandem" "$tree/share"
cp LICENSE README.md "$tree/"

mkdir -p dist
rm -f dist/*
tar -C "$work" --owner=0 --group=0 --numeric-owner --sort=name -czf "dist/$name.tar.gz" "$name"
(cd dist && sha256sum ./*.tar.gz | sed 's#\./##' >SHA256SUMS)
size() { du -sm --apparent-size "$1" | cut -f1; }
echo "dist/$name.tar.gz: $(size "dist/$name.tar.gz") MB; unpacked $(size "$tree") MB, $(($(size "$tree") - $(size "$tree/share/tandem/presets"))) without presets"
