// Memory for what a net's activations need during a part of an iteration only: gradients, from the
// layers that consume a blob back to the one that writes it, and values that no backward pass
// reads, from the layer that writes them to the last one that consumes them. Arrays that are in use
// at different times share memory.
#ifndef MILLRACE_NN_BLOB_MEMORY_H_
#define MILLRACE_NN_BLOB_MEMORY_H_

#include <cstddef>
#include <vector>

#include "millrace/blob.h"
#include "millrace/queue.h"

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

// Not thread-safe. Outlives the work that uses the arrays.
class BlobMemory {
 public:
  explicit BlobMemory(MemorySpace& memory) : memory_(&memory) {}

  // The values or the gradient of `blob` are in use from step `first` to step `last` of an
  // iteration, and at no other time. The shape of a blob whose values are added does not change.
  void AddValues(Blob* blob, size_t first, size_t last);
  void AddGradient(Blob* blob, size_t first, size_t last);

  // Binds the arrays to their memory, if that has not been done for the present shapes. Call when
  // none is in use, after the last change of a shape. `queue` is the one whose work uses the
  // arrays. They are undefined then.
  void Prepare(Queue* queue);

  bool empty() const { return members_.empty(); }
  // Bytes for the present shapes.
  size_t bytes() const { return Plan().bytes; }
  bool HoldsValues(const Blob* blob) const { return Holds(blob, true); }
  bool HoldsGradient(const Blob* blob) const { return Holds(blob, false); }

 private:
  struct Member {
    Blob* blob;
    bool values;  // false: the gradient
    size_t first, last;
    int64_t placed_count = -1;  // of the blob when it was placed
  };

  ArenaPlan Plan() const;
  bool Holds(const Blob* blob, bool values) const;

  MemorySpace* memory_;
  std::vector<Member> members_;
  Buffer arena_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_BLOB_MEMORY_H_
