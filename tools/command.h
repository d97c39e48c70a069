// One subcommand of the millrace program.
#ifndef MILLRACE_TOOLS_COMMAND_H_
#define MILLRACE_TOOLS_COMMAND_H_

#include <string>
#include <vector>

namespace millrace {

struct Command {
  std::string name;
  std::string arguments;  // for the usage line
  std::string summary;
  std::vector<std::string> flags;  // the gflags that it accepts
  // Receives the arguments after the flags; returns the exit status. Throws Error.
  int (*run)(const std::vector<std::string>& arguments);
};

// Adds a command to the program's table.
struct RegisterCommand {
  explicit RegisterCommand(Command command);
};

// Throws Error unless `arguments` has exactly `count` entries.
void ExpectArguments(const std::vector<std::string>& arguments, size_t count, const char* usage);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_COMMAND_H_
