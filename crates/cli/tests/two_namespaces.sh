#!/usr/bin/env bash
# A cloud in one network namespace and an edge in another, 60 ms apart there and back; prints the
# edge's JSON. Exit code 77 where namespaces or delays cannot be made.
#
# usage: two_namespaces.sh TANDEM MODEL
set -eu
tandem=$1 model=$2
a=tandem-a-$$ b=tandem-b-$$

clean() {
    [ -z "${cloud:-}" ] || kill "$cloud" 2>/dev/null || true
    ip netns del "$a" 2>/dev/null || true
    ip netns del "$b" 2>/dev/null || true
}
trap clean EXIT

cannot() {
    echo "$1" >&2
    exit 77
}

command -v ip >/dev/null && command -v tc >/dev/null || cannot "no ip or tc"
ip netns add "$a" 2>/dev/null && ip netns add "$b" 2>/dev/null || cannot "no network namespaces"
ip link add va netns "$a" type veth peer name vb netns "$b" 2>/dev/null || cannot "no veth"
ip -n "$a" addr add 10.99.0.1/24 dev va
ip -n "$b" addr add 10.99.0.2/24 dev vb
ip -n "$a" link set va up
ip -n "$b" link set vb up
ip netns exec "$a" tc qdisc add dev va root netem delay 30ms 2>/dev/null &&
    ip netns exec "$b" tc qdisc add dev vb root netem delay 30ms 2>/dev/null ||
    cannot "no netem in this kernel"
ip netns exec "$b" "$tandem" cloud --listen 10.99.0.2:8090 --cloud-model "$model" \
    --context 1024 --key k 2>/dev/null &
cloud=$!
ip netns exec "$a" "$tandem" run "Tell me about the sea." --cloud http://10.99.0.2:8090 \
    --cloud-key k --threshold 1 --max-tokens 10 --json --on-cloud-error wait
