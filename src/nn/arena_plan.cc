#include "nn/arena_plan.h"

#include <algorithm>
#include <numeric>

namespace millrace::inline nn {
namespace {

size_t Rounded(size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace

ArenaPlan PlanArena(const std::vector<ArenaItem>& items) {
  ArenaPlan plan;
  plan.offsets.resize(items.size());
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return items[a].bytes > items[b].bytes; });
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    size_t offset = 0;
    for (size_t other : placed) {
      if (items[other].last < items[i].first || items[i].last < items[other].first) continue;
      if (offset + Rounded(items[i].bytes) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + Rounded(items[other].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + Rounded(items[i].bytes));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
        i);
  }
  return plan;
}

}  // namespace millrace::inline nn
