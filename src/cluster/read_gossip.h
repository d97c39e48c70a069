// What the nodes of a cluster have told each other on one topic.
#ifndef MILLRACE_CLUSTER_READ_GOSSIP_H_
#define MILLRACE_CLUSTER_READ_GOSSIP_H_

#include <map>
#include <utility>
#include <vector>

#include "base/node_id.h"
#include "cluster/cluster.h"

namespace millrace {

// By node; gossip messages that are no `Message` (a protobuf one) are left out.
template <typename Message>
std::map<NodeId, Message> ReadGossip(const std::vector<GossipMessage>& gossip) {
  std::map<NodeId, Message> messages;
  for (const GossipMessage& gossip : gossip) {
    Message message;
    if (message.ParseFromArray(gossip.bytes.data(), static_cast<int>(gossip.bytes.size()))) {
      messages[gossip.node] = std::move(message);
    }
  }
  return messages;
}

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_READ_GOSSIP_H_
