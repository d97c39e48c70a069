// Membership views: the members of an exchange, as agreed on by all of them.
//
// Plain values and their wire format (docs/wire.md). membership.h defines how views follow each
// other.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_VIEW_H_
#define MILLRACE_EXCHANGE_PROTOCOL_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/protocol/frame.h"

namespace millrace::inline exchange {

enum class Role : uint8_t {
  kJoining = 0,  // receives positions until it has every chunk; masters none
  kSynced = 1,   // masters its share of the chunks
  kLeaving = 2,  // hands over its chunks and sends its remaining progress; masters none
};

struct Member {
  uint16_t node = 0;
  Role role = Role::kJoining;
  uint32_t incarnation = 0;
  uint64_t clock = 0;  // its iterations when the view was formed
  bool operator==(const Member&) const = default;
};

struct View {
  // Number of earlier views that a view names, to distinguish a successor from a rival view.
  static constexpr size_t kAncestors = 16;

  ViewId id;
  // The views that this one descends from, latest first; the first is its predecessor.
  std::vector<ViewId> ancestors;
  uint64_t past_clock = 0;      // iterations of incarnations that are no longer members
  std::vector<Member> members;  // by node, ascending

  // Reserves capacity, so that copies into this view allocate nothing.
  void Reserve(uint16_t max_nodes);
  const Member* Find(uint16_t node) const;
  // Inserts a member in order. REQUIRES: its node is not in the view.
  void Insert(const Member& member);
  // Whether the node is a member with exactly this incarnation.
  bool Has(uint16_t node, uint32_t incarnation) const;
  bool DescendsFrom(ViewId other) const;
  ViewId predecessor() const { return ancestors.empty() ? ViewId{} : ancestors[0]; }
  size_t synced() const;
};

// Size of a ViewId in payloads.
inline constexpr size_t kViewIdBytes = 10;
void PutViewId(const ViewId& id, std::byte* out);
ViewId GetViewId(const std::byte* in);

size_t ViewBytes(const View& view);
size_t MaxViewBytes(uint16_t max_members);
// Writes ViewBytes(view) bytes.
void EncodeView(const View& view, std::byte* out);
// Decodes a view that occupies all of `in`. Returns false if it is invalid: inconsistent sizes,
// nodes out of order or not below max_nodes, unknown roles, an epoch above kMaxEpoch, or a clock
// above kMaxClock. `*view` is then unspecified.
bool DecodeView(std::span<const std::byte> in, uint16_t max_nodes, View* view);

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_VIEW_H_
