#include "collective/nccl/cuda_nccl_api.h"

#include <glog/logging.h>

#include "base/error.h"
#include "device/cuda_library_files.h"

namespace millrace::inline collective {

const NcclApi& Nccl() {
  static const NcclApi api = [] {
    const LoadedLibrary library("libnccl.so.2");
    NcclApi api{};
#define MILLRACE_FIND(name) library.Find(#name, &api.name);
    MILLRACE_NCCL_FUNCTIONS(MILLRACE_FIND)
#undef MILLRACE_FIND
    int version = 0;  // 10000 * major + 100 * minor + patch level, since 2.9
    api.ncclGetVersion(&version);
    if (version < NCCL_VERSION(2, 14, 0)) {
      throw Error(library.path(), " has version code ", version, ", expected NCCL 2.14 or later");
    }
    LOG(INFO) << "NCCL " << version / 10000 << "." << version / 100 % 100 << "." << version % 100
              << ": " << library.Origin();
    return api;
  }();
  return api;
}

}  // namespace millrace::inline collective
