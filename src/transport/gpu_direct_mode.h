// How a network device accesses the memory of a GPU. The choice is pure logic over probes that
// the caller implements (verbs/gpu_memory.cc).
#ifndef MILLRACE_TRANSPORT_GPU_DIRECT_MODE_H_
#define MILLRACE_TRANSPORT_GPU_DIRECT_MODE_H_

#include <string>

#include "device/copy_rate.h"

namespace millrace::inline transport {

enum class GpuDirectMode {
  kDmaBuf,      // the device reads GPU memory through a file exported by the GPU's driver
  kPeerMemory,  // the device reads GPU memory through a kernel module (nvidia_peermem)
  kStaged,      // no direct access: the sender copies through page-locked host memory
};

// Probes, in the order in which they are made. Each is made at most once.
class NicProbes {
 public:
  virtual ~NicProbes() = default;
  // Register the memory. Return "" on success, else the reason.
  virtual std::string TryDmaBuf() = 0;
  virtual std::string TryPeerMemory() = 0;
  // Measures copies through page-locked memory. Returns "" on success, else the reason.
  virtual std::string TryStaging(CopyRate* rate) = 0;
};

struct NicChoice {
  GpuDirectMode path;
  std::string line;  // log line
};

// Returns the first mode that works. `nic` and `memory` are names for messages. Throws Error with
// one line if none works: the device cannot use this memory at all.
NicChoice ChooseNicPath(const std::string& nic, const std::string& memory, NicProbes* probes);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_GPU_DIRECT_MODE_H_
