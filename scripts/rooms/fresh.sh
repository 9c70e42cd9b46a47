#!/usr/bin/env bash
# Does the README hold on a machine that has nothing of this one? Four rooms, each a Debian of its own:
# in the bare one the README's two commands and a short form of the tests; in the others the first
# command as far as llama.cpp and its bindings, which is where a set-up goes wrong. Prints a table; exit
# code 1 if a room fails. `fresh.sh bare user` runs only those rooms.
set -u
cd "$(dirname "$0")/../.." || exit 1
. scripts/rooms/room.sh
room_check
suite=${TANDEM_ROOM_SUITE:-bookworm}
wanted=${*:-bare libclang-cpp user full}
table=$(mktemp)
status=0

# try NAME USER "PACKAGES" COMMAND PROOF: makes the room and runs the command there; PROOF is a
# command on .venv/env and the log, which says whether the set-up did what that room is for.
try() {
    local name=$1 user=$2 packages=$3 command=$4 proof=$5 room started result=failed
    case " $wanted " in *" $name "*) ;; *) return ;; esac
    room=$rooms/$name
    room_make "$room" "$suite" $packages
    room_copy_checkout "$room/room/tandem"
    chroot "$room" chown -R "$user" /room/tandem
    [ "$user" = root ] || chroot "$room" sh -c 'chmod 700 /usr/bin/apt*'
    echo "== $name ($suite and: ${packages:-nothing}), as $user"
    started=$SECONDS
    room_run "$room" "$user" /room/tandem "{ $command; }" >"$room.log" 2>&1
    local code=$?
    if [ $code = 0 ] && (cd "$room/room/tandem" && env=.venv/env log=$room.log bash -c "$proof"); then
        result=passed
    else
        status=1
        tail -n 25 "$room.log"
    fi
    local brought
    brought=$(sed -n 's/^set-up: \(installing\|bringing\) //p' "$room.log" | tr '\n' ';')
    printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$result" "$(((SECONDS - started + 30) / 60)) min" "${packages:-nothing}" "${brought:-nothing}" >>"$table"
}

# As far as the bindings: bindgen has read llama.cpp's headers through libclang, cmake comes next.
as_far_as_bindings='make bindings & building=$!
    until ls target/release/build/llama-cpp-sys-2-*/out/bindings.rs 2>/dev/null; do
        kill -0 $building 2>/dev/null || { wait $building; exit; }
        sleep 1
    done
    . .venv/env && cmake --version'

try bare root "make" \
    'started=$SECONDS && make demo && echo "room: make demo took $((SECONDS - started)) s" && make test-short &&
        make install PREFIX=/room/installed && /room/installed/bin/tandem run --pair tiny --mode small --max-tokens 4 hi' \
    'grep -q "tokens/s" "$log" && grep -Eq "[1-9][0-9]* passed, 0 failed" "$log"'
try libclang-cpp root "make g++ cmake python3-pip libclang-cpp14" \
    "$as_far_as_bindings" \
    'grep -q "^export LIBCLANG_PATH=.*libclang[-.0-9]*so" $env'
try user person "make g++ python3-pip" \
    "$as_far_as_bindings" \
    'grep -q "wheels/clang/native/libclang" $env'
try full root "make g++ cmake libclang-dev python3-pip git" \
    "$as_far_as_bindings" \
    '! grep -Eq "^set-up: (installing|bringing)" "$log"'

echo
{
    printf 'room\tresult\ttime\tinstalled beforehand\tbrought by set-up\n'
    cat "$table"
} | column -t -s "$(printf '\t')"
sed -n 's/^room: //p' "$rooms/bare.log" 2>/dev/null
rm -f "$table"
exit $status
