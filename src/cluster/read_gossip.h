// Decodes the gossip messages of one key.
#ifndef MILLRACE_CLUSTER_READ_GOSSIP_H_
#define MILLRACE_CLUSTER_READ_GOSSIP_H_

#include <map>
#include <utility>
#include <vector>

#include "cluster/cluster.h"
#include "millrace/node_id.h"

namespace millrace::inline cluster {

// By node. Gossip messages that do not parse as `Message` (a protobuf type) are left out.
template <typename Message>
std::map<NodeId, Message> ReadGossip(const std::vector<GossipMessage>& gossip) {
  std::map<NodeId, Message> messages;
  for (const GossipMessage& entry : gossip) {
    Message message;
    if (message.ParseFromArray(entry.bytes.data(), static_cast<int>(entry.bytes.size()))) {
      messages[entry.node] = std::move(message);
    }
  }
  return messages;
}

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_READ_GOSSIP_H_
