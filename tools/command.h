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
  // Receives the arguments that are not flags; returns the exit status. Throws Error.
  int (*run)(const std::vector<std::string>& arguments);
  // Flags that it accepts with a warning and ignores, because Caffe's command of this name does.
  std::vector<std::string> ignored = {};
  std::string example = "";  // a complete command line, for the help page
  // What its first argument may be, for the help page: "status, rate NUMBER"; "": anything.
  std::string actions = "";
};

// Adds a command to the program's table.
struct RegisterCommand {
  explicit RegisterCommand(Command command);
};

// The command of this name, also with '-' for '_'; nullptr if there is none.
const Command* FindCommand(const std::string& name);

// The page of `millrace help`: all commands, or one.
std::string HelpPage();
std::string HelpPage(const Command& command);

// Throws Error unless `arguments` has exactly `count` entries.
void ExpectArguments(const std::vector<std::string>& arguments, size_t count, const char* usage);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_COMMAND_H_
