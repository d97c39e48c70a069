#include "nn/gpu/cuda_api.h"

#include <glog/logging.h>

#include "device/cuda_library_files.h"

namespace millrace::inline nn {
namespace {

std::string FileOf(const char* name, int major) { return StrCat("lib", name, ".so.", major); }

}  // namespace

#define MILLRACE_FIND(name) library.Find(#name, &api.name);

// The file that cuBLAS has loaded for itself, wherever that is: the linker loads one of a name.
static void FindCublasLt(CublasApi& api) {
  const LoadedLibrary library(FileOf("cublasLt", CUBLAS_VER_MAJOR));
  MILLRACE_CUBLASLT_FUNCTIONS(MILLRACE_FIND)
  LOG(INFO) << "cuBLASLt: " << library.Origin();
}

const CublasApi& Cublas() {
  static const CublasApi api = [] {
    const LoadedLibrary library(FileOf("cublas", CUBLAS_VER_MAJOR));
    CublasApi api{};
    MILLRACE_CUBLAS_FUNCTIONS(MILLRACE_FIND)
    MILLRACE_FIND(cublasGemmEx)
    FindCublasLt(api);
    int version[3] = {};
    for (const libraryPropertyType part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
      api.cublasGetProperty(part, &version[part]);
    }
    LOG(INFO) << "cuBLAS " << version[0] << "." << version[1] << "." << version[2] << ": "
              << library.Origin();
    return api;
  }();
  return api;
}

const CudnnApi& Cudnn() {
  static const CudnnApi api = [] {
    const LoadedLibrary library(FileOf("cudnn", CUDNN_MAJOR));
    CudnnApi api{};
    MILLRACE_CUDNN_FUNCTIONS(MILLRACE_FIND)
    const size_t version = api.cudnnGetVersion();  // 10000 * major + 100 * minor + patch level
    LOG(INFO) << "cuDNN " << version / 10000 << "." << version / 100 % 100 << "." << version % 100
              << ": " << library.Origin();
    return api;
  }();
  return api;
}

#undef MILLRACE_FIND

}  // namespace millrace::inline nn
