// millrace backends: lists the modules, where each lies, and why one cannot be used.
#include <cstdio>

#include "base/module.h"
#include "tools/command.h"

namespace millrace {
namespace {

int RunBackends(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  for (const Module& module : Modules()) {
    const std::string name(module.name);
    const std::string reason = LoadModule(name);
    const std::string state = reason.empty() ? ModuleFile(name) : "not usable: " + reason;
    std::printf("%-8s %s\n         %s\n", name.c_str(), std::string(module.holds).c_str(),
                state.c_str());
  }
  return 0;
}

const RegisterCommand registered_backends(
    {"backends",
     "",
     "lists the modules of this installation and what each holds",
     {},
     RunBackends});

}  // namespace
}  // namespace millrace
