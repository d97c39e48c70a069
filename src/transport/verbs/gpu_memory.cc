#include "transport/verbs/gpu_memory.h"

#include <glog/logging.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/error.h"
#include "transport/gpu_direct_mode.h"

namespace millrace::inline transport {
namespace {

// Whether a kernel module that lets RDMA devices read GPU memory is loaded. A module under
// another name only makes the error message less precise.
bool PeerModuleLoaded() {
  struct stat found;
  return stat("/sys/module/nvidia_peermem", &found) == 0 ||
         stat("/sys/module/nv_peer_mem", &found) == 0;
}

class VerbsProbes : public NicProbes {
 public:
  VerbsProbes(const VerbsDevice& device, Device& owner, std::span<const std::byte> memory,
              const Clock& clock)
      : device_(device), owner_(owner), memory_(memory), clock_(clock) {}

  std::string TryDmaBuf() override {
    std::string why;
    const DmaBuf exported = owner_.memory().ExportDmaBuf(memory_.data(), memory_.size(), &why);
    if (exported.file.get() < 0) return why;
    region_ = device_.TryRegisterDmaBuf(exported, memory_);
    return region_ ? "" : StrCat("the device takes none: ", ErrnoText(errno));
  }

  std::string TryPeerMemory() override {
    region_ = device_.TryRegister(memory_);
    if (region_) return "";
    const int error = errno;
    return PeerModuleLoaded() ? ErrnoText(error) : "the module nvidia_peermem is not loaded";
  }

  std::string TryStaging(CopyRate* rate) override {
    try {
      *rate = MeasureCopies(owner_.memory(), owner_.staging(), clock_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  MemoryRegion TakeRegion() { return std::move(region_); }

 private:
  const VerbsDevice& device_;
  Device& owner_;
  const std::span<const std::byte> memory_;
  const Clock& clock_;
  MemoryRegion region_;
};

}  // namespace

MemoryRegion RegisterGpuMemory(const VerbsDevice& device, Device& owner,
                               std::span<const std::byte> memory, const Clock& clock) {
  VerbsProbes probes(device, owner, memory, clock);
  const NicChoice choice = ChooseNicPath(device.name(), owner.memory().name(), &probes);
  if (choice.path == GpuDirectMode::kStaged) {
    LOG(WARNING) << choice.line;
  } else {
    LOG(INFO) << choice.line;
  }
  return probes.TakeRegion();
}

}  // namespace millrace::inline transport
