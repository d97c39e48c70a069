#include "transport/gpu_direct_mode.h"

#include <cmath>

#include "base/error.h"

namespace millrace::inline transport {
namespace {

// Formats bytes per second in GB/s: "12.3" for 12.3e9.
std::string Gigabytes(double bytes_per_second) {
  return StrCat(std::round(bytes_per_second / 1e8) / 10);
}

}  // namespace

NicChoice ChooseNicPath(const std::string& nic, const std::string& memory, NicProbes* probes) {
  const std::string start = StrCat("transport verbs: ", nic, ": ");
  const std::string no_dma_buf = probes->TryDmaBuf();
  if (no_dma_buf.empty()) {
    return {GpuDirectMode::kDmaBuf,
            StrCat(start, "reads the memory of ", memory, " itself, by dma-buf")};
  }
  const std::string no_peer = probes->TryPeerMemory();
  if (no_peer.empty()) {
    return {GpuDirectMode::kPeerMemory,
            StrCat(start, "reads the memory of ", memory,
                   " itself, by peer memory; no dma-buf: ", no_dma_buf)};
  }
  CopyRate rate;
  const std::string no_staging = probes->TryStaging(&rate);
  if (!no_staging.empty()) {
    throw Error(start, "no way from the memory of ", memory,
                " to this device: dma-buf: ", no_dma_buf, "; peer memory: ", no_peer,
                "; staging: ", no_staging);
  }
  return {GpuDirectMode::kStaged,
          StrCat(start, "the memory of ", memory, " is copied through the host, ",
                 Gigabytes(rate.to_host), " GB/s out and ", Gigabytes(rate.from_host),
                 " GB/s in; dma-buf: ", no_dma_buf, "; peer memory: ", no_peer)};
}

}  // namespace millrace::inline transport
