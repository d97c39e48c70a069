// The key of a pass's random numbers, where kernels read it.
#ifndef MILLRACE_NN_LAYERS_RANDOM_KEY_H_
#define MILLRACE_NN_LAYERS_RANDOM_KEY_H_

#include <cstdint>

#include "device/kernel.h"
#include "millrace/device.h"
#include "nn/layers/random_key_kernels.h"

namespace millrace::inline nn {

// In a device's memory, so that recorded kernels draw other numbers in each pass.
class RandomKey {
 public:
  // Waits for nothing. Does nothing the second time.
  void Allocate(MemorySpace& memory) {
    if (key_.bytes() == 0) key_ = Buffer(memory, sizeof(uint64_t));
  }
  // Kernels that are enqueued from now on read this key.
  void Store(Queue& queue, uint64_t key) { Launch(queue, 1, StoreKey{key, key_.get<uint64_t>()}); }
  const uint64_t* get() const { return key_.get<uint64_t>(); }

 private:
  Buffer key_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_RANDOM_KEY_H_
