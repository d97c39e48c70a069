#include "exchange/protocol/ownership.h"

#include <algorithm>
#include <vector>

#include "base/jitter.h"

namespace millrace::inline exchange {
namespace {

struct Candidate {
  uint16_t node;
  size_t room;
};

}  // namespace

void AssignOwners(const View& view, std::span<uint16_t> owners) {
  std::vector<Candidate> candidates;
  const size_t synced = view.synced();
  for (const Member& member : view.members) {
    if (member.role != Role::kSynced) continue;
    candidates.push_back({member.node, (owners.size() + synced - 1) / synced});
  }
  for (size_t chunk = 0; chunk < owners.size(); ++chunk) {
    Candidate* best = nullptr;
    uint64_t best_score = 0;
    for (Candidate& candidate : candidates) {
      if (candidate.room == 0) continue;
      const uint64_t score = MixBits((uint64_t{chunk} << 16 | candidate.node) * 0x9e3779b97f4a7c15);
      if (best && score <= best_score) continue;
      best = &candidate;
      best_score = score;
    }
    owners[chunk] = best ? best->node : kNoNode;
    if (best) --best->room;
  }
}

}  // namespace millrace::inline exchange
