#include "base/module.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/names.h"
#include "base/text/parse.h"

namespace millrace::inline base {
namespace {

// The folder of the library, or of the program that it is linked into.
std::string FolderOfThisCode() {
  Dl_info self = {};
  dladdr(reinterpret_cast<const void*>(&LoadModule), &self);
  const std::string_view file(self.dli_fname ? self.dli_fname : "");
  // The path of a program is the one that it was started with.
  std::error_code ignored;
  return file.starts_with('/')
             ? std::filesystem::path(file).lexically_normal().parent_path()
             : std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::vector<std::string> Folders() {
  const char* const named = std::getenv("MILLRACE_MODULES");
  if (named == nullptr) {
    const std::string folder = FolderOfThisCode();
    return {folder + "/millrace", folder + "/modules"};
  }
  return Split(named, ':');
}

struct Loaded {
  void* handle = nullptr;
  std::string reason;
};

Loaded Load(const std::string& name) {
  const std::string file = ModuleFile(name);
  if (file.empty()) {
    return {nullptr, StrCat("module ", name, ", which is not installed (", name, ".so is not in ",
                            Joined(Folders()), ")")};
  }
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return {handle, ""};
  return {nullptr, StrCat("module ", name, ", which cannot be loaded (", dlerror(), ")")};
}

// Recursive: what a module registers may look for another one.
std::recursive_mutex& Mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

std::map<std::string, Loaded, std::less<>>& All() {
  static std::map<std::string, Loaded, std::less<>> all;
  return all;
}

}  // namespace

std::span<const Module> Modules() {
  static constexpr Module kModules[] = {
      {"contrib", "layer types and annotated data of Caffe's forks"},
      {"cuda", "NVIDIA GPUs, sums between them by NCCL"},
      {"mpi", "strategy allreduce between processes"},
      {"onnx", "ONNX models, in millrace convert"},
      {"opencv", "images that are neither JPEG nor PNG"},
      {"verbs", "transport verbs: RDMA over InfiniBand and RoCE"},
  };
  return kModules;
}

std::string ModuleFile(std::string_view name) {
  for (const std::string& folder : Folders()) {
    std::string file = StrCat(folder, "/", name, ".so");
    if (FileExists(file)) return file;
  }
  return "";
}

std::string LoadModule(std::string_view name) {
  const std::lock_guard lock(Mutex());
  const auto [entry, is_first] = All().try_emplace(std::string(name));
  if (is_first) {
    Loaded loaded = Load(entry->first);
    entry->second = std::move(loaded);
  }
  return entry->second.reason;
}

void* ModuleSymbol(std::string_view module, const std::string& symbol) {
  const std::lock_guard lock(Mutex());
  const auto found = All().find(module);
  if (found == All().end() || found->second.handle == nullptr) return nullptr;
  return dlsym(found->second.handle, symbol.c_str());
}

}  // namespace millrace::inline base
