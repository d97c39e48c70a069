// What the nodes of a cluster have told each other on one topic.
#ifndef MILLRACE_CLUSTER_READ_GOSSIP_H_
#define MILLRACE_CLUSTER_READ_GOSSIP_H_

#include <map>
#include <utility>
#include <vector>

#include "base/node_id.h"
#include "cluster/cluster.h"

namespace millrace {

// By node; bulletins that are no `Message` (a protobuf one) are left out.
template <typename Message>
std::map<NodeId, Message> ReadBulletins(const std::vector<Bulletin>& bulletins) {
  std::map<NodeId, Message> messages;
  for (const Bulletin& bulletin : bulletins) {
    Message message;
    if (message.ParseFromArray(bulletin.bytes.data(), static_cast<int>(bulletin.bytes.size()))) {
      messages[bulletin.node] = std::move(message);
    }
  }
  return messages;
}

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_READ_GOSSIP_H_
