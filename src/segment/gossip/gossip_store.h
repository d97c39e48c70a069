// The newest known gossip message of each node of a cluster, by key. The node's segments add and
// forward messages; the program publishes and reads them.
//
// Thread-safe. Message memory is allocated once: kGossipKeys * (kMaxGossipBytes + 40) bytes for
// each node of the cluster.
#ifndef MILLRACE_SEGMENT_GOSSIP_GOSSIP_STORE_H_
#define MILLRACE_SEGMENT_GOSSIP_GOSSIP_STORE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "millrace/node_id.h"
#include "segment/gossip/gossip_message.h"

namespace millrace::inline segment {

struct GossipMessage {
  NodeId node = 0;           // origin
  uint32_t incarnation = 0;  // of the origin when it published the message
  uint64_t version = 0;      // counts the origin's messages from 1 on, over all keys
  std::vector<std::byte> bytes;
};

class GossipStore {
 public:
  // Link of this node's own messages. Segments are numbered from 0 by AddLink.
  static constexpr int kOwn = -1;

  // Metadata of an entry.
  struct Entry {
    GossipVersion version;  // number 0: there is no message
    int via = kOwn;         // link over which it arrived
    size_t bytes = 0;
  };

  // For a cluster with the nodes [0, nodes). This one is `node`, with this incarnation.
  GossipStore(size_t nodes, NodeId node, uint32_t incarnation);

  // Replaces this node's message under `key`. Throws Error if it is longer than kMaxGossipBytes.
  void Publish(GossipKey key, std::span<const std::byte> bytes);
  // The newest message under `key` of every node that has one, this node included; ordered by node.
  std::vector<GossipMessage> Read(GossipKey key) const;

  // Raises the incarnation of this node's messages, if it is larger: other nodes know an earlier
  // start of this node.
  void RaiseIncarnation(uint32_t incarnation);

  // ---- For segments, which identify entries by number. Nothing here allocates. ----

  size_t nodes() const { return incarnations_.size(); }
  NodeId node() const { return node_; }
  size_t entries() const { return entries_.size(); }
  static size_t EntryOf(NodeId node, GossipKey key) {
    return size_t{node} * kGossipKeys + static_cast<size_t>(key);
  }
  static NodeId NodeOf(size_t entry) { return static_cast<NodeId>(entry / kGossipKeys); }
  static GossipKey KeyOf(size_t entry) { return static_cast<GossipKey>(entry % kGossipKeys); }

  int AddLink() { return links_.fetch_add(1); }
  // Version of the entry; {incarnation, 0} if its node has a new incarnation but no message yet.
  GossipVersion Newest(size_t entry) const;
  // Stores a message received over `link`, unless the entry has one at least as new; returns
  // whether it did. A new incarnation of a node also removes all its earlier messages.
  bool Take(size_t entry, const GossipVersion& version, std::span<const std::byte> bytes, int link);
  // Returns the entry and copies its bytes to the front of `out`.
  Entry Copy(size_t entry, std::span<std::byte, kMaxGossipBytes> out) const;

  // Increases with every change.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  // Calls each(entry number, entry), under the store's lock, for the entries that changed after
  // `since`. Returns changes().
  template <typename Each>
  uint64_t Changed(uint64_t since, Each each) const {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].changed > since) each(i, entries_[i].entry);
    }
    return changes();
  }

 private:
  struct Slot {
    Entry entry;
    uint64_t changed = 0;
  };

  void Set(size_t entry, const GossipVersion& version, std::span<const std::byte> bytes, int link);
  std::byte* bytes(size_t entry) { return bytes_.data() + entry * kMaxGossipBytes; }
  const std::byte* bytes(size_t entry) const { return bytes_.data() + entry * kMaxGossipBytes; }

  const NodeId node_;
  std::atomic<int> links_{0};
  std::atomic<uint64_t> changes_{0};
  mutable std::mutex mutex_;
  uint64_t published_ = 0;
  std::vector<uint32_t> incarnations_;  // by node: the newest known
  std::vector<Slot> entries_;
  std::vector<std::byte> bytes_;
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_GOSSIP_GOSSIP_STORE_H_
