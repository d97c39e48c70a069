// The keys of random numbers that a layer draws anew in each pass.
#ifndef MILLRACE_NN_LAYERS_RANDOM_KEY_H_
#define MILLRACE_NN_LAYERS_RANDOM_KEY_H_

#include <cstdint>

#include "base/rng.h"
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/write_number_kernels.h"

namespace millrace::inline nn {

// A function of (seed, purpose, layer, pass); `purpose` is one of base/rng.h.
inline uint64_t KeyOfPass(const LayerContext& context, uint64_t purpose) {
  const uint64_t pass = context.pass ? *context.pass : 0;
  return Rng(context.seed, {purpose, context.layer_id, pass}).Next64();
}

// The key in the memory of a device, where recorded kernels read another one in each pass.
class RandomKey {
 public:
  // Before the first Store. Calls after the first one do nothing.
  void Allocate(MemorySpace& memory) {
    if (key_.bytes() == 0) key_ = Buffer(memory, sizeof(uint64_t));
  }
  // Kernels that are enqueued from now on read the key of the present pass.
  void Store(const LayerContext& context, uint64_t purpose) {
    Launch(*context.queue, 1,
           WriteNumber<uint64_t>{KeyOfPass(context, purpose), key_.get<uint64_t>()});
  }
  const uint64_t* get() const { return key_.get<uint64_t>(); }

 private:
  Buffer key_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_RANDOM_KEY_H_
