#include "nn/gpu/cuda_api.h"

#include <dlfcn.h>

namespace millrace::inline nn {
namespace {

// A library that stays loaded.
class Loaded {
 public:
  explicit Loaded(const std::string& file) : file_(file), handle_(dlopen(file.c_str(), RTLD_NOW)) {
    if (handle_ == nullptr) throw Error("nets on GPUs need ", file, ": ", dlerror());
  }

  template <typename Function>
  void Find(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (*function == nullptr) throw Error(file_, " has no function ", name);
  }

 private:
  const std::string file_;
  void* const handle_;
};

std::string FileOf(const char* name, int major) { return StrCat("lib", name, ".so.", major); }

}  // namespace

#define MILLRACE_FIND(name) library.Find(#name, &api.name);

const CublasApi& Cublas() {
  static const CublasApi api = [] {
    const Loaded library(FileOf("cublas", CUBLAS_VER_MAJOR));
    CublasApi api{};
    MILLRACE_CUBLAS_FUNCTIONS(MILLRACE_FIND)
    return api;
  }();
  return api;
}

const CudnnApi& Cudnn() {
  static const CudnnApi api = [] {
    const Loaded library(FileOf("cudnn", CUDNN_MAJOR));
    CudnnApi api{};
    MILLRACE_CUDNN_FUNCTIONS(MILLRACE_FIND)
    return api;
  }();
  return api;
}

#undef MILLRACE_FIND

}  // namespace millrace::inline nn
