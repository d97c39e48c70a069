#include "segment/gossip/gossip_store.h"

#include <glog/logging.h>

#include <algorithm>

#include "base/error.h"

namespace millrace::inline segment {

GossipStore::GossipStore(size_t nodes, NodeId node, uint32_t incarnation)
    : node_(node),
      incarnations_(nodes),
      entries_(nodes * kGossipKeys),
      bytes_(nodes * kGossipKeys * kMaxGossipBytes) {
  CHECK_LT(node, nodes);
  incarnations_[node] = incarnation;
}

void GossipStore::Publish(GossipKey key, std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxGossipBytes) {
    throw Error("a gossip message of ", bytes.size(), " bytes: expected at most ", kMaxGossipBytes);
  }
  std::lock_guard lock(mutex_);
  Set(EntryOf(node_, key), {incarnations_[node_], ++published_}, bytes, kOwn);
}

void GossipStore::RaiseIncarnation(uint32_t incarnation) {
  std::lock_guard lock(mutex_);
  if (incarnation <= incarnations_[node_]) return;
  incarnations_[node_] = incarnation;
  for (size_t key = 0; key < kGossipKeys; ++key) {
    Slot& slot = entries_[EntryOf(node_, static_cast<GossipKey>(key))];
    slot.entry.version.incarnation = incarnation;
    if (slot.entry.version.number == 0) continue;
    slot.changed = changes_.load(std::memory_order_relaxed) + 1;
    changes_.store(slot.changed, std::memory_order_release);
  }
}

std::vector<GossipMessage> GossipStore::Read(GossipKey key) const {
  std::vector<GossipMessage> all;
  std::lock_guard lock(mutex_);
  for (size_t node = 0; node < nodes(); ++node) {
    const size_t at = EntryOf(static_cast<NodeId>(node), key);
    const Entry& entry = entries_[at].entry;
    if (entry.version.number == 0) continue;
    all.push_back({static_cast<NodeId>(node),
                   entry.version.incarnation,
                   entry.version.number,
                   {bytes(at), bytes(at) + entry.bytes}});
  }
  return all;
}

GossipVersion GossipStore::Newest(size_t entry) const {
  std::lock_guard lock(mutex_);
  return {incarnations_[NodeOf(entry)], entries_[entry].entry.version.number};
}

bool GossipStore::Take(size_t entry, const GossipVersion& version, std::span<const std::byte> bytes,
                       int link) {
  std::lock_guard lock(mutex_);
  const NodeId node = NodeOf(entry);
  if (version <= GossipVersion{incarnations_[node], entries_[entry].entry.version.number})
    return false;
  if (version.incarnation > incarnations_[node]) {
    incarnations_[node] = version.incarnation;
    for (size_t key = 0; key < kGossipKeys; ++key) {
      const size_t old = EntryOf(node, static_cast<GossipKey>(key));
      if (entries_[old].entry.version.number > 0) Set(old, {version.incarnation, 0}, {}, link);
    }
  }
  Set(entry, version, bytes, link);
  return true;
}

GossipStore::Entry GossipStore::Copy(size_t entry,
                                     std::span<std::byte, kMaxGossipBytes> out) const {
  std::lock_guard lock(mutex_);
  std::copy_n(bytes(entry), entries_[entry].entry.bytes, out.data());
  return entries_[entry].entry;
}

void GossipStore::Set(size_t entry, const GossipVersion& version, std::span<const std::byte> bytes,
                      int link) {
  std::copy(bytes.begin(), bytes.end(), this->bytes(entry));
  const uint64_t change = changes_.load(std::memory_order_relaxed) + 1;
  entries_[entry] = {{version, link, bytes.size()}, change};
  changes_.store(change, std::memory_order_release);
}

}  // namespace millrace::inline segment
