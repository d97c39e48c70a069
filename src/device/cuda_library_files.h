// Where the files of cuBLAS, cuDNN and NCCL are looked for: first by the dynamic linker
// (LD_LIBRARY_PATH, the program's own path, the system's folders), then in the packages of Python
// environments, which often are the only installation on a machine with GPUs.
#ifndef MILLRACE_DEVICE_CUDA_LIBRARY_FILES_H_
#define MILLRACE_DEVICE_CUDA_LIBRARY_FILES_H_

#include <string>
#include <vector>

#include "base/error.h"

namespace millrace::inline device {

// The existing folders PREFIX/lib/python3*/{site,dist}-packages/nvidia/*/lib, sorted within a
// prefix. The prefixes: `virtual_env`, the parents of the folders in `search_path` that are called
// "bin" and contain a python3, and `system`. Both lists are separated by colons; null: empty.
std::vector<std::string> PythonLibraryFolders(const char* virtual_env, const char* search_path,
                                              const char* system);

// Names the owner of a file, by its folders: "of a Python package", "of a CUDA toolkit" (a folder "cuda"
// or "cuda-13.0") or "of the system".
std::string OwnerOfLibrary(const std::string& path);

// A library that stays loaded.
class LoadedLibrary {
 public:
  // Looks for `file` in `folders` if the dynamic linker does not find it. Throws Error with one
  // line.
  LoadedLibrary(const std::string& file, const std::vector<std::string>& folders);
  // As above, in the folders of this process's environment.
  explicit LoadedLibrary(const std::string& file);

  // The file that was loaded, without symbolic links.
  const std::string& path() const { return path_; }
  // For the log: the file, and whose it is.
  std::string Origin() const { return path_ + " (" + OwnerOfLibrary(path_) + ")"; }
  // Throws Error if there is no such function.
  template <typename Function>
  void Find(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(Symbol(name));
  }

 private:
  void* Symbol(const char* name) const;

  const std::string file_;
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_CUDA_LIBRARY_FILES_H_
