// Decodes the gossip messages of one key.
#ifndef MILLRACE_CLUSTER_READ_GOSSIP_H_
#define MILLRACE_CLUSTER_READ_GOSSIP_H_

#include <cstddef>
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

// The same for callers that read a key often: parses only messages that have changed since the last
// call. Not thread-safe.
template <typename Message>
class GossipReader {
 public:
  // The result is valid until the next call.
  const std::map<NodeId, Message>& Read(std::vector<GossipMessage> gossip) {
    std::map<NodeId, std::vector<std::byte>> bytes;
    for (GossipMessage& entry : gossip) {
      const auto known = bytes_.find(entry.node);
      if (known == bytes_.end() || known->second != entry.bytes) {
        Message message;
        if (message.ParseFromArray(entry.bytes.data(), static_cast<int>(entry.bytes.size()))) {
          messages_[entry.node] = std::move(message);
        } else {
          messages_.erase(entry.node);
        }
      }
      bytes[entry.node] = std::move(entry.bytes);
    }
    bytes_ = std::move(bytes);
    std::erase_if(messages_, [this](const auto& each) { return !bytes_.contains(each.first); });
    return messages_;
  }

 private:
  std::map<NodeId, std::vector<std::byte>> bytes_;  // of the last call
  std::map<NodeId, Message> messages_;
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_READ_GOSSIP_H_
