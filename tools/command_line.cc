#include "tools/command_line.h"

#include <gflags/gflags.h>

#include <algorithm>

namespace millrace {
namespace {

// "bool", "int32" and so on; "" if gflags knows no such flag.
std::string TypeOf(const std::string& flag) {
  gflags::CommandLineFlagInfo info;
  return gflags::GetCommandLineFlagInfo(flag.c_str(), &info) ? info.type : "";
}

}  // namespace

std::string WithUnderscores(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

CommandLine ReadCommandLine(int argc, const char* const* argv) {
  CommandLine line;
  bool flags_end = false;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (!flags_end && text == "--") {
      flags_end = true;
      continue;
    }
    if (flags_end || text.size() < 2 || text[0] != '-') {
      if (line.command.empty()) {
        line.command = text;
      } else {
        line.arguments.push_back(text);
      }
      continue;
    }
    const std::string flag = text.substr(text[1] == '-' ? 2 : 1);
    const size_t equals = flag.find('=');
    std::string name = WithUnderscores(flag.substr(0, equals));
    line.help |= name == "help" || name == "h";
    line.version |= name == "version";
    std::string read = "--" + name;
    const std::string type = TypeOf(name);
    if (equals != std::string::npos) {
      read += flag.substr(equals);
    } else if (!type.empty() && type != "bool" && i + 1 < argc) {
      read += std::string("=") + argv[++i];
    }
    if (type.empty() && name.starts_with("no") && TypeOf(name.substr(2)) == "bool") {
      name = name.substr(2);
    }
    line.flags.push_back({name, read});
  }
  return line;
}

}  // namespace millrace
