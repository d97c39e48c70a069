#include "nn/gradient_memory.h"

#include <algorithm>

namespace millrace::inline nn {

void GradientMemory::Add(Blob* blob, size_t first, size_t last) {
  members_.push_back({blob, first, last});
}

bool GradientMemory::Holds(const Blob* blob) const {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const Member& member) { return member.blob == blob; });
}

ArenaPlan GradientMemory::Plan() const {
  std::vector<ArenaItem> items;
  for (const Member& member : members_) {
    items.push_back({member.blob->count() * sizeof(float), member.first, member.last});
  }
  return PlanArena(items);
}

void GradientMemory::Prepare(Queue* queue) {
  if (std::all_of(members_.begin(), members_.end(), [](const Member& member) {
        return member.placed_count == member.blob->count();
      })) {
    return;
  }
  const ArenaPlan plan = Plan();
  if (plan.bytes > arena_.bytes()) {
    queue->Synchronize();  // no earlier pass uses the old memory
    arena_ = Buffer();
    arena_ = Buffer(*memory_, plan.bytes);
    memory_->Fill(arena_.get(), 0, plan.bytes);
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    members_[i].blob->BindDiff(arena_.get<float>() + plan.offsets[i] / sizeof(float));
    members_[i].placed_count = members_[i].blob->count();
  }
}

}  // namespace millrace::inline nn
