// The library itself in C: its versions, its log, memory for weights.
#include <glog/logging.h>

#include <cstdlib>
#include <limits>

#include "capi/call.h"
#include "millrace/version.h"

namespace {

constexpr size_t kAlignment = 64;  // as a ClusterMember needs it

}  // namespace

int millrace_abi_version() { return MILLRACE_ABI_VERSION; }

int millrace_check_abi(int version) {
  return millrace::Call("millrace_check_abi", [&] {
    if (version >= 1 && version <= MILLRACE_ABI_VERSION) return;
    throw millrace::Error("millrace_check_abi: compiled with interface ", version,
                          ", but Millrace ", millrace::Version(), " serves 1 to ",
                          MILLRACE_ABI_VERSION);
  });
}

const char* millrace_version() { return millrace::Version(); }

int millrace_set_log_level(int level) {
  return millrace::Call("millrace_set_log_level", [&] {
    if (level < google::GLOG_INFO || level > google::GLOG_ERROR) {
      throw millrace::Error("millrace_set_log_level: level is ", level, ", expected 0, 1 or 2");
    }
    FLAGS_logtostderr = true;
    FLAGS_minloglevel = level;
    FLAGS_stderrthreshold = level;
  });
}

float* millrace_floats_alloc(size_t count) {
  return millrace::ValueOf("millrace_floats_alloc", static_cast<float*>(nullptr), [&] {
    // aligned_alloc takes multiples of the alignment.
    constexpr size_t kMaxCount = (std::numeric_limits<size_t>::max() - kAlignment) / sizeof(float);
    if (count == 0 || count > kMaxCount) {
      throw millrace::Error("millrace_floats_alloc: count is ", count, ", expected 1 to ",
                            kMaxCount);
    }
    const size_t bytes = (count * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    void* const floats = std::aligned_alloc(kAlignment, bytes);
    if (floats == nullptr) throw std::bad_alloc();
    std::memset(floats, 0, bytes);
    return static_cast<float*>(floats);
  });
}

void millrace_floats_free(float* floats) { std::free(floats); }
