#include "exchange/protocol/view.h"

#include <algorithm>

#include "base/wire_bytes.h"

namespace millrace::inline exchange {
namespace {

constexpr size_t kHeadBytes = 24, kMemberBytes = 15;

bool Before(const Member& member, uint16_t node) { return member.node < node; }

}  // namespace

void PutViewId(const ViewId& id, std::byte* out) {
  Put<uint32_t>(out, 0, id.epoch);
  Put<uint16_t>(out, 4, id.coordinator);
  Put<uint32_t>(out, 6, id.incarnation);
}

ViewId GetViewId(const std::byte* in) {
  return {Get<uint32_t>(in, 0), Get<uint16_t>(in, 4), Get<uint32_t>(in, 6)};
}

void View::Reserve(uint16_t max_nodes) {
  ancestors.reserve(kAncestors + 1);
  members.reserve(max_nodes);
}

const Member* View::Find(uint16_t node) const {
  const auto found = std::lower_bound(members.begin(), members.end(), node, Before);
  return found != members.end() && found->node == node ? &*found : nullptr;
}

void View::Insert(const Member& member) {
  members.insert(std::lower_bound(members.begin(), members.end(), member.node, Before), member);
}

bool View::Has(uint16_t node, uint32_t incarnation) const {
  const Member* member = Find(node);
  return member && member->incarnation == incarnation;
}

bool View::DescendsFrom(ViewId other) const {
  return std::find(ancestors.begin(), ancestors.end(), other) != ancestors.end();
}

size_t View::synced() const {
  return std::count_if(members.begin(), members.end(),
                       [](const Member& m) { return m.role == Role::kSynced; });
}

size_t ViewBytes(const View& view) {
  return kHeadBytes + kViewIdBytes * view.ancestors.size() + kMemberBytes * view.members.size();
}

size_t MaxViewBytes(uint16_t max_members) {
  return kHeadBytes + kViewIdBytes * View::kAncestors + kMemberBytes * max_members;
}

void EncodeView(const View& view, std::byte* out) {
  PutViewId(view.id, out);
  Put<uint64_t>(out, 10, view.past_clock);
  Put<uint16_t>(out, 18, static_cast<uint16_t>(view.ancestors.size()));
  Put<uint16_t>(out, 20, static_cast<uint16_t>(view.members.size()));
  Put<uint16_t>(out, 22, 0);
  out += kHeadBytes;
  for (const ViewId& id : view.ancestors) {
    PutViewId(id, out);
    out += kViewIdBytes;
  }
  for (const Member& member : view.members) {
    Put<uint16_t>(out, 0, member.node);
    Put<uint8_t>(out, 2, static_cast<uint8_t>(member.role));
    Put<uint32_t>(out, 3, member.incarnation);
    Put<uint64_t>(out, 7, member.clock);
    out += kMemberBytes;
  }
}

bool DecodeView(std::span<const std::byte> in, uint16_t max_nodes, View* view) {
  if (in.size() < kHeadBytes) return false;
  const std::byte* p = in.data();
  const size_t ancestors = Get<uint16_t>(p, 18), members = Get<uint16_t>(p, 20);
  if (ancestors > View::kAncestors || members > max_nodes || Get<uint16_t>(p, 22) != 0 ||
      in.size() != kHeadBytes + ancestors * kViewIdBytes + members * kMemberBytes) {
    return false;
  }
  view->id = GetViewId(p);
  if (view->id.epoch > kMaxEpoch) return false;
  view->past_clock = Get<uint64_t>(p, 10);
  if (view->past_clock > kMaxClock) return false;
  view->ancestors.clear();
  view->members.clear();
  p += kHeadBytes;
  for (size_t i = 0; i < ancestors; ++i, p += kViewIdBytes) {
    view->ancestors.push_back(GetViewId(p));
  }
  for (size_t i = 0; i < members; ++i, p += kMemberBytes) {
    const Member member{Get<uint16_t>(p, 0), static_cast<Role>(Get<uint8_t>(p, 2)),
                        Get<uint32_t>(p, 3), Get<uint64_t>(p, 7)};
    if (member.node >= max_nodes || member.role > Role::kLeaving) return false;
    if (member.clock > kMaxClock) return false;
    if (i > 0 && member.node <= view->members.back().node) return false;
    view->members.push_back(member);
  }
  return true;
}

}  // namespace millrace::inline exchange
