// Memory for the gradients of a net's activations. A gradient is needed from the layers that
// consume the blob back to the layer that writes it, so gradients of distant blobs share memory.
#ifndef MILLRACE_NN_GRADIENT_MEMORY_H_
#define MILLRACE_NN_GRADIENT_MEMORY_H_

#include <vector>

#include "millrace/blob.h"
#include "millrace/queue.h"
#include "nn/arena_plan.h"

namespace millrace::inline nn {

// Not thread-safe. Outlives the work that uses the gradients.
class GradientMemory {
 public:
  explicit GradientMemory(MemorySpace& memory) : memory_(&memory) {}

  // The gradient of `blob` is written and read by the backward passes of layers `first` to `last`,
  // by their index, and by no others.
  void Add(Blob* blob, size_t first, size_t last);

  // Binds the gradients to their memory, if that has not been done for the present shapes. `queue`
  // is the one whose work uses the gradients. Their values are undefined then.
  void Prepare(Queue* queue);

  // Bytes for the present shapes.
  size_t bytes() const { return Plan().bytes; }
  bool Holds(const Blob* blob) const;

 private:
  struct Member {
    Blob* blob;
    size_t first, last;
    int64_t placed_count = -1;  // of the blob when it was placed
  };

  ArenaPlan Plan() const;

  MemorySpace* memory_;
  std::vector<Member> members_;
  Buffer arena_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GRADIENT_MEMORY_H_
