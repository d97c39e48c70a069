# Machines in miniature, for scripts to source: network namespaces at the ports of a
# bridge, and a node of a cluster on each. Needs root, ip, and for lossy networks nft.
# All paths are relative to the working directory, the repository's root.
#
#   machines_make N           makes machines for nodes a, b, c, ...; up to 9
#   machines_lose PERCENT     from now on each loses that share of the packets that arrive;
#                             packets are then as long as on a wire, not batches of them
#   machines_lost             prints how many they have lost so far
#   machines_shape RATE       from now on each sends no more than that, such as 1gbit
#   machines_topology TRANSPORT [FIELDS]
#                             prints a topology of them, a segment "lan" of all nodes
#   machines_start NODE COMMAND...
#                             starts a program on one of them
#   machines_train MILLRACE FOLDER SOLVER...
#                             starts `MILLRACE train` with that solver file on each, which
#                             writes FOLDER/NODE.{out,log,jsonl}; FOLDER/topology.prototxt
#                             has to be there. Further arguments are passed on.
#   machines_running          whether one of them still trains
#   machines_processes        prints the process ids of those that do
#   machines_wait             waits for all; stops the others and fails if one fails
#   machines_remove           stops what runs and removes the machines; safe to call twice

machines_nodes=() machines_pids=() machines_lab=

machines_make() {
  [ "$(id -u)" = 0 ] || { echo "${0##*/}: needs root, for network namespaces" >&2; return 1; }
  local all=(a b c d e f g h i) i node
  machines_lab=millrace-$$
  machines_nodes=("${all[@]:0:$1}")
  ip netns add "$machines_lab-hub"
  ip -n "$machines_lab-hub" link add br0 type bridge
  ip -n "$machines_lab-hub" link set br0 up
  for i in "${!machines_nodes[@]}"; do
    node=$machines_lab-${machines_nodes[$i]}
    ip netns add "$node"
    ip -n "$machines_lab-hub" link add "port$i" type veth peer name eth0 \
      address "02:00:00:97:00:0$((i + 1))" netns "$node"
    ip -n "$machines_lab-hub" link set "port$i" master br0 up
    ip -n "$node" address add "10.97.0.$((i + 1))/24" dev eth0
    ip -n "$node" link set lo up
    ip -n "$node" link set eth0 up
  done
}

machines_lose() {
  local node per_mille
  per_mille=$(awk "BEGIN { printf \"%d\", 10 * $1 + 0.5 }")
  [ "$per_mille" -gt 0 ] || return 0
  for node in "${machines_nodes[@]}"; do
    # Otherwise up to 64 KB travel and are lost as one packet.
    ip -n "$machines_lab-$node" link set dev eth0 gso_max_segs 1
    ip netns exec "$machines_lab-$node" nft -f - <<EOF
table netdev loss {
  chain arriving {
    type filter hook ingress device "eth0" priority 0
    numgen random mod 1000 < $per_mille counter drop
  }
}
EOF
  done
}

machines_lost() {
  local node
  for node in "${machines_nodes[@]}"; do
    ip netns exec "$machines_lab-$node" nft list ruleset
  done | awk '{ for (i = 1; i < NF; ++i) if ($i == "packets") sum += $(i + 1) } END { print sum + 0 }'
}

machines_shape() {
  local node
  for node in "${machines_nodes[@]}"; do
    tc -n "$machines_lab-$node" qdisc add dev eth0 root tbf rate "$1" burst 64kb latency 2ms
  done
}

machines_topology() {
  local i
  echo "name: \"$machines_lab\""
  for i in "${!machines_nodes[@]}"; do
    echo "node { name: \"${machines_nodes[$i]}\" address: \"10.97.0.$((i + 1))\"" \
      "interface: \"eth0\" mac: \"02:00:00:97:00:0$((i + 1))\" }"
  done
  echo "segment { name: \"lan\" transport: \"$1\" ${2:-} }"
}

machines_start() {
  local node=$1
  shift
  ip netns exec "$machines_lab-$node" "$@" &
  machines_pids+=($!)
}

machines_train() {
  local millrace=$1 folder=$2 solver=$3 node
  shift 3
  for node in "${machines_nodes[@]}"; do
    rm -f "$folder/$node.jsonl"
    ip netns exec "$machines_lab-$node" "$millrace" train --solver="$solver" \
      --topology="$folder/topology.prototxt" --node="$node" --metrics="$folder/$node.jsonl" "$@" \
      >"$folder/$node.out" 2>"$folder/$node.log" &
    machines_pids+=($!)
  done
}

machines_running() {
  local pid
  for pid in "${machines_pids[@]}"; do kill -0 "$pid" 2>/dev/null && return 0; done
  return 1
}

machines_processes() { echo "${machines_pids[@]}"; }

machines_wait() {
  local pid left status=0
  while [ ${#machines_pids[@]} -gt 0 ]; do
    left=()
    for pid in "${machines_pids[@]}"; do
      if kill -0 "$pid" 2>/dev/null; then
        left+=("$pid")
      elif ! wait "$pid"; then
        status=1
        kill "${machines_pids[@]}" 2>/dev/null || true
      fi
    done
    machines_pids=("${left[@]}")
    [ ${#left[@]} = 0 ] || sleep 0.1
  done
  return $status
}

machines_remove() {
  [ ${#machines_pids[@]} = 0 ] || kill "${machines_pids[@]}" 2>/dev/null || true
  machines_wait || true
  local node
  for node in "${machines_nodes[@]}" hub; do
    ip netns del "$machines_lab-$node" 2>/dev/null || true
  done
  machines_nodes=()
}
