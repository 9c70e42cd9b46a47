#!/usr/bin/env bash
# Builds the program for Vulkan on a Debian of its own and runs it on Mesa's driver for processors
# without a GPU (llvmpipe): which shows that the build works and that its answers are those of the CPU, not
# how fast it is. Needs root and the models of the pair tiny.
set -eu
cd "$(dirname "$0")/../.."
. scripts/rooms/room.sh
room_check
room=$rooms/vulkan
home=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}
# llama.cpp wants newer Vulkan headers than Debian 12 has.
room_make "$room" trixie g++ cmake make python3-pip libclang-dev glslc libvulkan-dev spirv-headers mesa-vulkan-drivers
room_copy_checkout "$room/room/tandem"
started=$SECONDS
ROOM_BIND="$home:/root/.cache/tandem" room_run "$room" root /room/tandem '
    make bindings && . .venv/env && unset LD_LIBRARY_PATH
    cargo build --release --package tandem-cli --no-default-features --features vulkan' >"$room.log" 2>&1 || {
    tail -n 25 "$room.log" >&2
    room_fail "the program could not be built: $room.log"
}
echo "built in $(((SECONDS - started + 30) / 60)) min"
# Such a device computes on the processor, and llama.cpp takes it only if it is named.
ROOM_BIND="$home:/root/.cache/tandem" room_run "$room" root /room/tandem '
    export GGML_VK_VISIBLE_DEVICES=0
    tandem=target/release/tandem
    answer() { $tandem run --pair tiny --mode small --max-tokens 8 --gpu-layers $1 "Count from one to ten." 2>/dev/null; }
    $tandem doctor --pair tiny | tee doctor.log
    grep -qi "llvmpipe" doctor.log || { echo "vulkan: doctor shows no device" >&2; exit 1; }
    echo "on the CPU:       $(answer 0)"
    echo "on the device:    $(answer 99)"
    [ -n "$(answer 99)" ] || { echo "vulkan: no answer" >&2; exit 1; }
    $tandem bench edge --edge-model smollm2-135m-instruct --runs 1 --tokens 16 --gpu-layers 99'
