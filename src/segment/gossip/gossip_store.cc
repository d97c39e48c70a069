#include "segment/gossip/gossip_store.h"

#include <glog/logging.h>

#include <algorithm>

#include "base/error.h"

namespace millrace {

BulletinStore::BulletinStore(size_t nodes, NodeId node, uint32_t incarnation)
    : node_(node),
      incarnations_(nodes),
      entries_(nodes * kTopics),
      bytes_(nodes * kTopics * kMaxBulletinBytes) {
  CHECK_LT(node, nodes);
  incarnations_[node] = incarnation;
}

void BulletinStore::Publish(Topic topic, std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxBulletinBytes) {
    throw Error("a bulletin of ", bytes.size(), " bytes: expected at most ", kMaxBulletinBytes);
  }
  std::lock_guard lock(mutex_);
  Set(EntryOf(node_, topic), {incarnations_[node_], ++published_}, bytes, kOwn);
}

void BulletinStore::RaiseIncarnation(uint32_t incarnation) {
  std::lock_guard lock(mutex_);
  if (incarnation <= incarnations_[node_]) return;
  incarnations_[node_] = incarnation;
  for (size_t topic = 0; topic < kTopics; ++topic) {
    Slot& slot = entries_[EntryOf(node_, static_cast<Topic>(topic))];
    slot.entry.edition.incarnation = incarnation;
    if (slot.entry.edition.version == 0) continue;
    slot.changed = changes_.load(std::memory_order_relaxed) + 1;
    changes_.store(slot.changed, std::memory_order_release);
  }
}

std::vector<Bulletin> BulletinStore::Read(Topic topic) const {
  std::vector<Bulletin> all;
  std::lock_guard lock(mutex_);
  for (size_t node = 0; node < nodes(); ++node) {
    const size_t at = EntryOf(static_cast<NodeId>(node), topic);
    const Entry& entry = entries_[at].entry;
    if (entry.edition.version == 0) continue;
    all.push_back({static_cast<NodeId>(node),
                   entry.edition.incarnation,
                   entry.edition.version,
                   {bytes(at), bytes(at) + entry.bytes}});
  }
  return all;
}

Edition BulletinStore::Newest(size_t entry) const {
  std::lock_guard lock(mutex_);
  return {incarnations_[NodeOf(entry)], entries_[entry].entry.edition.version};
}

bool BulletinStore::Take(size_t entry, const Edition& edition, std::span<const std::byte> bytes,
                         int link) {
  std::lock_guard lock(mutex_);
  const NodeId node = NodeOf(entry);
  if (edition <= Edition{incarnations_[node], entries_[entry].entry.edition.version}) return false;
  if (edition.incarnation > incarnations_[node]) {
    incarnations_[node] = edition.incarnation;
    for (size_t topic = 0; topic < kTopics; ++topic) {
      const size_t old = EntryOf(node, static_cast<Topic>(topic));
      if (entries_[old].entry.edition.version > 0) Set(old, {edition.incarnation, 0}, {}, link);
    }
  }
  Set(entry, edition, bytes, link);
  return true;
}

BulletinStore::Entry BulletinStore::Copy(size_t entry,
                                         std::span<std::byte, kMaxBulletinBytes> out) const {
  std::lock_guard lock(mutex_);
  std::copy_n(bytes(entry), entries_[entry].entry.bytes, out.data());
  return entries_[entry].entry;
}

void BulletinStore::Set(size_t entry, const Edition& edition, std::span<const std::byte> bytes,
                        int link) {
  std::copy(bytes.begin(), bytes.end(), this->bytes(entry));
  const uint64_t change = changes_.load(std::memory_order_relaxed) + 1;
  entries_[entry] = {{edition, link, bytes.size()}, change};
  changes_.store(change, std::memory_order_release);
}

}  // namespace millrace
