// The millrace program: finds the subcommand, parses its flags, and turns errors into one line and
// exit status 1.
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <map>

#include "base/error.h"
#include "tools/command.h"
#include "tools/flags.h"

namespace millrace {
namespace {

std::map<std::string, Command>& Commands() {
  static std::map<std::string, Command> commands;
  return commands;
}

// Flags of the logging library that every command accepts.
const std::vector<std::string> kCommonFlags = {"minloglevel",     "v",   "logtostderr", "log_dir",
                                               "alsologtostderr", "help"};

void PrintUsage(std::ostream& out) {
  out << "Millrace trains Caffe-format models with solvers that share their weights.\n\n"
         "usage: millrace <command> [--flag=value ...]\n\n";
  for (const auto& [name, command] : Commands()) {
    out << "  " << name << std::string(name.size() < 27 ? 27 - name.size() : 1, ' ')
        << command.summary << "\n";
  }
  out << "\n`millrace <command> --help` lists the flags of a command.\n";
}

void PrintUsage(std::ostream& out, const Command& command) {
  out << "usage: millrace " << command.name << " [--flag=value ...] " << command.arguments << "\n"
      << command.summary << "\n\n";
  for (const std::string& name : command.flags) {
    gflags::CommandLineFlagInfo info;
    gflags::GetCommandLineFlagInfo(name.c_str(), &info);
    out << "  --" << name << "  (" << info.type;
    if (!info.default_value.empty()) out << ", default " << info.default_value;
    out << ")\n      " << info.description << "\n";
  }
}

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "--" : ", --") + name;
  return text;
}

// gflags accepts the flags of all commands. This limits each command to its own.
void CheckFlags(const Command& command, int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--") return;
    if (flag.size() < 2 || flag[0] != '-') continue;
    flag = flag.substr(flag[1] == '-' ? 2 : 1);
    flag = flag.substr(0, flag.find('='));
    std::string positive = flag.starts_with("no") ? flag.substr(2) : flag;
    const auto among = [&](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), flag) != names.end() ||
             std::find(names.begin(), names.end(), positive) != names.end();
    };
    if (!among(command.flags) && !among(kCommonFlags)) {
      throw Error(command.name, " has no flag --", flag, command.flags.empty() ? "" : "; it takes ",
                  Joined(command.flags));
    }
  }
}

int Main(int argc, char** argv) {
  if (argc < 2 || std::string(argv[1]) == "--help" || std::string(argv[1]) == "help" ||
      std::string(argv[1]) == "-help") {
    PrintUsage(argc < 2 ? std::cerr : std::cout);
    return argc < 2 ? 1 : 0;
  }
  const auto found = Commands().find(argv[1]);
  if (found == Commands().end()) {
    throw Error("there is no command '", argv[1], "'; `millrace help` lists them");
  }
  const Command& command = found->second;
  for (int i = 2; i < argc; ++i) {
    if (std::string(argv[i]) == "--help" || std::string(argv[i]) == "-help") {
      PrintUsage(std::cout, command);
      return 0;
    }
  }
  CheckFlags(command, argc, argv);
  FLAGS_logtostderr = true;
  // The name of the command replaces the name of the program.
  char** rest = argv + 1;
  int count = argc - 1;
  gflags::ParseCommandLineFlags(&count, &rest, true);
  google::InitGoogleLogging("millrace");
  // Once, before there are threads: every log line needs the local time.
  tzset();
  LoadPlugins();
  // Each solver is single-threaded; parallelism comes from several solvers.
  omp_set_num_threads(1);
  return command.run(std::vector<std::string>(rest + 1, rest + count));
}

}  // namespace

RegisterCommand::RegisterCommand(Command command) { Commands()[command.name] = command; }

void ExpectArguments(const std::vector<std::string>& arguments, size_t count, const char* usage) {
  if (arguments.size() != count) {
    throw Error(arguments.size(), " arguments given, expected ", usage);
  }
}

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
