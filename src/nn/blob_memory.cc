#include "nn/blob_memory.h"

#include <algorithm>

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

}  // namespace millrace::inline nn
