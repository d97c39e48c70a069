// By which way a network device gets at the memory of a GPU. The choice is pure logic over
// attempts that somebody else makes (verbs_gpu_memory.h).
#ifndef MILLRACE_TRANSPORT_GPU_DIRECT_MODE_H_
#define MILLRACE_TRANSPORT_GPU_DIRECT_MODE_H_

#include <string>

#include "device/copy_rate.h"

namespace millrace {

enum class GpuDirectMode {
  kDmaBuf,      // the device reads the memory itself, by a file that the GPU's driver gives
  kPeerMemory,  // the same, by a kernel module that knows both (nvidia_peermem)
  kStaged,      // it does not: whoever sends copies through page-locked host memory
};

// Attempts, in the order in which they are made. Each is made once at most.
class NicProbes {
 public:
  virtual ~NicProbes() = default;
  // Register the memory. "" if that is done, else why not.
  virtual std::string TryDmaBuf() = 0;
  virtual std::string TryPeerMemory() = 0;
  // Copies through page-locked memory, to see how fast that is. "" if that works, else why not.
  virtual std::string TryStaging(CopyRate* rate) = 0;
};

struct NicChoice {
  GpuDirectMode path;
  std::string line;  // for the log
};

// The first that works. `nic` and `memory` are names, for messages. Throws Error with one line
// if none does: there is no way from this memory to that device.
NicChoice ChooseNicPath(const std::string& nic, const std::string& memory, NicProbes* probes);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_GPU_DIRECT_MODE_H_
