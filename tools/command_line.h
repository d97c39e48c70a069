// The arguments of the program in all of Caffe's forms: one dash or two, the value after '=' or as
// the next argument, flags before or after the command, '-' or '_' in names.
#ifndef MILLRACE_TOOLS_COMMAND_LINE_H_
#define MILLRACE_TOOLS_COMMAND_LINE_H_

#include <string>
#include <vector>

namespace millrace {

struct CommandLine {
  // A flag as given. `name` is without dashes and value, has '_' for '-', and is that of the flag
  // for a negated boolean one ("json" for --nojson).
  struct Flag {
    std::string name;
    std::string text;  // as gflags reads it: "--name", or "--name=value"
  };

  std::string command;  // the first argument that is neither a flag nor the value of one; "": none
  std::vector<Flag> flags;
  std::vector<std::string> arguments;  // the other arguments, in order
  bool help = false;                   // -h or -help is given
  bool version = false;                // -version is given
};

// Separates the flags from other arguments. Of the flags that gflags knows, all but boolean ones
// take the next argument if they have no '='. Flags that it does not know take none.
CommandLine ReadCommandLine(int argc, const char* const* argv);

// `name` with '_' for each '-'.
std::string WithUnderscores(std::string name);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_COMMAND_LINE_H_
