#include "capi/load_plugin.h"

#include <dlfcn.h>

#include <mutex>
#include <set>

#include "base/registration.h"
#include "capi/call.h"
#include "millrace/plugin.h"

namespace millrace::inline capi {
namespace {

using Init = decltype(&millrace_plugin_init);

// Throws the error that the plugin reports. Calls each function until it has succeeded once.
void RunInit(Init init) {
  static std::mutex mutex;
  static std::set<Init> called;
  const std::lock_guard lock(mutex);
  if (called.count(init) != 0) return;
  Callback("millrace_plugin_init", init);
  called.insert(init);
}

}  // namespace

void LoadPlugin(const std::string& path) {
  // With a slash, so that the name is a path and not searched for among the system's libraries.
  const std::string name = path.find('/') == std::string::npos ? "./" + path : path;
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw Error(dlerror(), "; expected a shared library");
  try {
    // Also searches the libraries that this one needs.
    if (void* const init = dlsym(library, "millrace_plugin_init")) {
      RunInit(reinterpret_cast<Init>(init));
    }
    CheckRegistrations();
  } catch (const Error& error) {
    throw Error(path, ": ", error.what());
  }
}

}  // namespace millrace::inline capi

int millrace_load_plugin(const char* path) {
  const char* const function = __func__;
  return millrace::Call(function,
                        [&] { millrace::LoadPlugin(millrace::GivenText(function, "path", path)); });
}
