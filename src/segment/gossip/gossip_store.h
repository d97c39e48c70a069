// The newest gossip message of every node of a cluster on every topic, as far as this node has
// heard: what its segments fill and pass on, and what its program reads and writes.
//
// Thread-safe. All memory is set aside once: kGossipKeys * (kMaxGossipBytes + 40) bytes for
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

#include "base/node_id.h"
#include "segment/gossip/gossip_message.h"

namespace millrace {

struct GossipMessage {
  NodeId node = 0;           // whose it is
  uint32_t incarnation = 0;  // the life in which it published this
  uint64_t version = 0;      // counted by it from 1 on, over all topics
  std::vector<std::byte> bytes;
};

class GossipStore {
 public:
  // Segments are numbered as they are added; this is where own gossip messages come from.
  static constexpr int kOwn = -1;

  // What a segment wants to know of an entry.
  struct Entry {
    GossipVersion version;  // version 0: there is no gossip message
    int via = kOwn;         // the link that it came by
    size_t bytes = 0;
  };

  // Of the cluster's nodes [0, nodes) this one is `node`, in its life `incarnation`.
  GossipStore(size_t nodes, NodeId node, uint32_t incarnation);

  // Replaces this node's gossip message on `topic`. Throws Error if it is longer than
  // kMaxGossipBytes.
  void Publish(GossipKey key, std::span<const std::byte> bytes);
  // The newest of every node that has one on `topic`, this one's included; by node.
  std::vector<GossipMessage> Read(GossipKey key) const;

  // Own gossip messages are of this life from now on, if it is a later one: others know of one
  // before it.
  void RaiseIncarnation(uint32_t incarnation);

  // ---- For segments, which name entries by number; nothing of this allocates. ----

  size_t nodes() const { return incarnations_.size(); }
  NodeId node() const { return node_; }
  size_t entries() const { return entries_.size(); }
  static size_t EntryOf(NodeId node, GossipKey key) {
    return size_t{node} * kGossipKeys + static_cast<size_t>(key);
  }
  static NodeId NodeOf(size_t entry) { return static_cast<NodeId>(entry / kGossipKeys); }
  static GossipKey KeyOf(size_t entry) { return static_cast<GossipKey>(entry % kGossipKeys); }

  int AddLink() { return links_.fetch_add(1); }
  // Of the entry; where its node lives again and has no gossip message yet, {its life, 0}.
  GossipVersion Newest(size_t entry) const;
  // Takes what `link` has brought, unless there is as new an edition. A node's new life
  // also does away with what it published before.
  bool Take(size_t entry, const GossipVersion& version, std::span<const std::byte> bytes, int link);
  // The entry, and its bytes in the front of `out`.
  Entry Copy(size_t entry, std::span<std::byte, kMaxGossipBytes> out) const;

  // Grows with every change.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  // each(entry number, entry) of those that changed after `since`; returns changes().
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
  std::vector<uint32_t> incarnations_;  // by node: the newest life heard of
  std::vector<Slot> entries_;
  std::vector<std::byte> bytes_;
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_GOSSIP_GOSSIP_STORE_H_
