// The millrace program: finds the command, parses its flags, and turns errors into one line and
// exit status 1.
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "base/error.h"
#include "millrace/version.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/flags.h"
#include "tools/log_setup.h"

namespace millrace {
namespace {

// Flags of gflags that every command accepts.
const std::vector<std::string> kCommonFlags = {"help", "h", "version", "flagfile"};

bool IsAmong(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsCommon(const std::string& flag) {
  return IsAmong(flag, kCommonFlags) || IsAmong(flag, LogFlags());
}

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "--" : ", --") + name;
  return text;
}

const Command& CommandOf(const std::string& name) {
  const Command* command = FindCommand(name);
  if (command == nullptr) {
    throw Error("there is no command '", name, "'; `millrace help` lists them");
  }
  return *command;
}

// An unknown flag may have a value that was taken for the command: the flag is the error then.
const Command& CommandOf(const CommandLine& line) {
  if (FindCommand(line.command) == nullptr) {
    for (const CommandLine::Flag& flag : line.flags) {
      gflags::CommandLineFlagInfo info;
      if (IsCommon(flag.name) || gflags::GetCommandLineFlagInfo(flag.name.c_str(), &info)) continue;
      throw Error("there is no flag --", flag.name,
                  "; `millrace help` lists the commands, and "
                  "`millrace help COMMAND` its flags");
    }
  }
  return CommandOf(line.command);
}

// gflags accepts the flags of all commands. This limits each command to its own.
void CheckFlags(const Command& command, const CommandLine& line) {
  for (const CommandLine::Flag& flag : line.flags) {
    if (IsAmong(flag.name, command.flags) || IsAmong(flag.name, command.ignored)) continue;
    if (IsCommon(flag.name)) continue;
    throw Error(command.name, " has no flag --", flag.name,
                command.flags.empty() ? "" : "; it takes ", Joined(command.flags));
  }
}

void ParseFlags(const CommandLine& line) {
  std::vector<std::string> texts = {"millrace"};
  for (const CommandLine::Flag& flag : line.flags) texts.push_back(flag.text);
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  char** arguments = pointers.data();
  int count = static_cast<int>(texts.size());
  gflags::ParseCommandLineFlags(&count, &arguments, true);
}

void LogIgnored(const Command& command, const CommandLine& line) {
  for (const CommandLine::Flag& flag : line.flags) {
    if (!IsAmong(flag.name, command.ignored)) continue;
    LOG(WARNING) << flag.text << ": " << command.name << " ignores this flag, as Caffe does";
  }
}

// Prints the page of a command, or that of all commands for "".
int Help(const std::string& name) {
  std::fputs((name.empty() ? HelpPage() : HelpPage(CommandOf(name))).c_str(), stdout);
  return 0;
}

int Main(int argc, char** argv) {
  const CommandLine line = ReadCommandLine(argc, argv);
  if (line.version) {
    std::printf("millrace version %s\n", Version());
    return 0;
  }
  if (line.command == "help") {
    if (line.arguments.size() > 1) ExpectArguments(line.arguments, 1, "a command, or none");
    return Help(line.arguments.empty() ? "" : line.arguments[0]);
  }
  if (line.help) return Help(line.command);
  if (line.command.empty() && line.flags.empty()) {
    std::fputs(HelpPage().c_str(), stderr);
    return 1;
  }
  if (line.command.empty()) throw Error("no command is given; `millrace help` lists them");
  const Command& command = CommandOf(line);
  CheckFlags(command, line);
  SetLogDefaults();
  ParseFlags(line);
  StartLog();
  LogIgnored(command, line);
  // Once, before there are threads: every log line needs the local time.
  tzset();
  LoadPlugins();
  // Each solver is single-threaded; parallelism comes from several solvers.
  omp_set_num_threads(1);
  return command.run(line.arguments);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  try {
    return millrace::Main(argc, argv);
  } catch (const std::exception& error) {
    std::string line = error.what();
    std::replace(line.begin(), line.end(), '\n', ' ');
    std::fprintf(stderr, "millrace: %s\n", line.c_str());
    return 1;
  }
}
