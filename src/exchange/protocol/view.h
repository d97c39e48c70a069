// Membership views: who takes part in an exchange, agreed on by all who do.
//
// Plain values and their wire format (docs/wire.md); how views follow each other
// is membership.h's business.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_VIEW_H_
#define MILLRACE_EXCHANGE_PROTOCOL_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/protocol/frame.h"

namespace millrace {

enum class Role : uint8_t {
  kJoining = 0,  // listens until it has every chunk; masters none
  kSynced = 1,   // masters its share
  kLeaving = 2,  // hands its chunks over and empties its queues; masters none
};

struct Member {
  uint16_t node = 0;
  Role role = Role::kJoining;
  uint32_t incarnation = 0;
  uint64_t clock = 0;  // iterations it had done when the view was formed
  bool operator==(const Member&) const = default;
};

struct View {
  // How many earlier views a view remembers, to be told apart from a rival one.
  static constexpr size_t kAncestors = 16;

  ViewId id;
  // The views that this one goes back to, latest first; the first is its predecessor.
  std::vector<ViewId> ancestors;
  uint64_t past_clock = 0;      // iterations done by incarnations that are members no more
  std::vector<Member> members;  // by node, ascending

  // Makes room, so that copies into this view allocate nothing.
  void Reserve(uint16_t max_nodes);
  const Member* Find(uint16_t node) const;
  // Of a node that is not in the view; keeps the order.
  void Insert(const Member& member);
  // Member of this very incarnation.
  bool Has(uint16_t node, uint32_t incarnation) const;
  bool DescendsFrom(ViewId other) const;
  ViewId predecessor() const { return ancestors.empty() ? ViewId{} : ancestors[0]; }
  size_t synced() const;
};

// A view's name in payloads.
inline constexpr size_t kViewIdBytes = 10;
void PutViewId(const ViewId& id, std::byte* out);
ViewId GetViewId(const std::byte* in);

size_t ViewBytes(const View& view);
size_t MaxViewBytes(uint16_t max_members);
// Writes ViewBytes(view) bytes.
void EncodeView(const View& view, std::byte* out);
// Reads a view that takes exactly all of `in`; false when it is none: sizes that do
// not add up, nodes out of order or not below max_nodes, roles that do not exist, an epoch
// above kMaxEpoch.
bool DecodeView(std::span<const std::byte> in, uint16_t max_nodes, View* view);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_VIEW_H_
