#include "device/cuda_library_files.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/text/parse.h"

namespace millrace::inline device {
namespace {

namespace fs = std::filesystem;

// The folders in `folder` whose names begin with `prefix`, sorted. None if it cannot be read.
std::vector<fs::path> FoldersIn(const fs::path& folder, const std::string& prefix = "") {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->path().filename().string().starts_with(prefix) && it->is_directory(ignored)) {
      found.push_back(it->path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The folders of a variable of the environment, which may be null.
std::vector<std::string> FoldersOf(const char* list) {
  return SplitWords(list == nullptr ? "" : list, ':');
}

void AddFoldersOf(const fs::path& prefix, std::vector<std::string>* found) {
  for (const fs::path& python : FoldersIn(prefix / "lib", "python3")) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      for (const fs::path& package : FoldersIn(python / packages / "nvidia")) {
        const std::string folder = package / "lib";
        std::error_code error;
        if (fs::is_directory(folder, error) &&
            std::find(found->begin(), found->end(), folder) == found->end()) {
          found->push_back(folder);
        }
      }
    }
  }
}

}  // namespace

std::vector<std::string> PythonLibraryFolders(const char* virtual_env, const char* search_path,
                                              const char* system) {
  std::vector<std::string> found;
  if (virtual_env != nullptr && *virtual_env != '\0') AddFoldersOf(virtual_env, &found);
  for (const std::string& each : FoldersOf(search_path)) {
    const fs::path folder = fs::path(each).lexically_normal();
    const fs::path bin = folder.has_filename() ? folder : folder.parent_path();
    std::error_code error;
    if (bin.filename() == "bin" && fs::exists(bin / "python3", error)) {
      AddFoldersOf(bin.parent_path(), &found);
    }
  }
  for (const std::string& each : FoldersOf(system)) AddFoldersOf(each, &found);
  return found;
}

std::string OwnerOfLibrary(const std::string& path) {
  for (const fs::path& part : fs::path(path).parent_path()) {
    const std::string name = part;
    if (name == "site-packages" || name == "dist-packages") return "of a Python package";
    if (name == "cuda" || name.starts_with("cuda-")) return "of a CUDA toolkit";
  }
  return "of the system";
}

LoadedLibrary::LoadedLibrary(const std::string& file, const std::vector<std::string>& folders)
    : file_(file), handle_(dlopen(file.c_str(), RTLD_NOW)) {
  const std::string why = handle_ == nullptr ? dlerror() : "";
  for (size_t i = 0; handle_ == nullptr && i < folders.size(); ++i) {
    handle_ = dlopen((folders[i] + "/" + file).c_str(), RTLD_NOW);
  }
  if (handle_ == nullptr) {
    throw Error("GPUs cannot be used without ", file, ": ", why, "; the folders of ",
                folders.size(),
                " Python packages lack it, too; expected its folder in LD_LIBRARY_PATH");
  }
  link_map* map = nullptr;
  path_ = dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : file;
  std::error_code error;
  const fs::path whole = fs::canonical(path_, error);
  if (!error) path_ = whole;
}

LoadedLibrary::LoadedLibrary(const std::string& file)
    : LoadedLibrary(file, PythonLibraryFolders(std::getenv("VIRTUAL_ENV"), std::getenv("PATH"),
                                               "/usr/local:/usr")) {}

void* LoadedLibrary::Symbol(const char* name) const {
  void* const symbol = dlsym(handle_, name);
  if (symbol == nullptr) throw Error(path_, " has no function ", name);
  return symbol;
}

}  // namespace millrace::inline device
