// Loads plugins, written in C or C++.
#ifndef MILLRACE_CAPI_LOAD_PLUGIN_H_
#define MILLRACE_CAPI_LOAD_PLUGIN_H_

#include <string>

namespace millrace::inline capi {

// Loads the shared library at `path`, which stays until the process ends, and runs its
// millrace_plugin_init if it has one and has not been loaded before. Throws Error in one line if
// the file is no shared library, if that function reports an error, or for a mistake in a
// registration.
void LoadPlugin(const std::string& path);

}  // namespace millrace::inline capi

#endif  // MILLRACE_CAPI_LOAD_PLUGIN_H_
