#include "nn/blob_memory.h"

#include <algorithm>
#include <numeric>

namespace millrace::inline nn {

void BlobMemory::AddValues(Blob* blob, size_t first, size_t last) {
  members_.push_back({blob, true, first, last});
}

void BlobMemory::AddGradient(Blob* blob, size_t first, size_t last) {
  members_.push_back({blob, false, first, last});
}

bool BlobMemory::Holds(const Blob* blob, bool values) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
    return member.blob == blob && member.values == values;
  });
}

ArenaPlan BlobMemory::Plan() const {
  std::vector<ArenaItem> items;
  for (const Member& member : members_) {
    items.push_back({member.blob->count() * sizeof(float), member.first, member.last});
  }
  return PlanArena(items);
}

void BlobMemory::Prepare(Queue* queue) {
  if (std::all_of(members_.begin(), members_.end(), [](const Member& member) {
        return member.placed_count == member.blob->count();
      })) {
    return;
  }
  const ArenaPlan plan = Plan();
  if (plan.bytes > arena_.bytes()) {
    queue->Synchronize();  // no earlier pass uses the old memory
    // The values' own memory, of the first iteration, before new memory is needed.
    for (const Member& member : members_) {
      if (member.values) member.blob->BindData(nullptr);
    }
    arena_ = Buffer();
    arena_ = Buffer(*memory_, plan.bytes);
    memory_->Fill(arena_.get(), 0, plan.bytes);
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    float* const place = arena_.get<float>() + plan.offsets[i] / sizeof(float);
    member.values ? member.blob->BindData(place) : member.blob->BindDiff(place);
    member.placed_count = member.blob->count();
  }
}

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
