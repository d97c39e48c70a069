// Places arrays that are in use at different times in one block of memory.
#ifndef MILLRACE_NN_ARENA_PLAN_H_
#define MILLRACE_NN_ARENA_PLAN_H_

#include <cstddef>
#include <vector>

namespace millrace::inline nn {

// An array that is in use from step `first` to step `last`, both included.
struct ArenaItem {
  size_t bytes = 0;
  size_t first = 0, last = 0;
};

struct ArenaPlan {
  std::vector<size_t> offsets;  // in bytes, one per item; multiples of kArenaAlignment
  size_t bytes = 0;             // of the whole block
};

inline constexpr size_t kArenaAlignment = 256;  // bytes; suits vectors and GPUs

// Gives each item a place that no other item has while both are in use. The largest items get
// theirs first, each the lowest that is free (greedy by size; Pisarchyk and Lee, "Efficient memory
// management for deep neural net inference", 2020). Time grows with the square of the number of
// items.
ArenaPlan PlanArena(const std::vector<ArenaItem>& items);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_ARENA_PLAN_H_
