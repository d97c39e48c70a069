#include "tools/command.h"

#include <gflags/gflags.h>

#include <map>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/text/parse.h"
#include "tools/command_line.h"

namespace millrace {
namespace {

std::map<std::string, Command>& Commands() {
  static std::map<std::string, Command> commands;
  return commands;
}

constexpr size_t kMaxColumns = 100;

// `text` in lines of at most kMaxColumns, each after `indent` blanks.
std::string Wrapped(const std::string& text, size_t indent) {
  std::istringstream words(text);
  std::string lines, line(indent, ' ');
  for (std::string word; words >> word;) {
    if (line.size() > indent && line.size() + 1 + word.size() > kMaxColumns) {
      lines += line + "\n";
      line.assign(indent, ' ');
    }
    line += (line.size() > indent ? " " : "") + word;
  }
  return lines + line + "\n";
}

const char kCommonFlagsHelp[] =
    "Flags of every command: --help, --version, --flagfile=FILE (a file with flags, one per line), "
    "and those of the log, which is glog's: --log_dir=FOLDER writes it to files there as well, "
    "--alsologtostderr, --logtostderr, --stderrthreshold, --minloglevel=1 (warnings and errors "
    "only), --v. One dash or two, `-flag value` or `-flag=value`, and '-' or '_' in names are the "
    "same.";

}  // namespace

RegisterCommand::RegisterCommand(Command command) { Commands()[command.name] = command; }

const Command* FindCommand(const std::string& name) {
  const auto found = Commands().find(WithUnderscores(name));
  return found == Commands().end() ? nullptr : &found->second;
}

std::string HelpPage() {
  std::ostringstream out;
  out << "Millrace trains Caffe-format models with solvers that share their weights.\n\n"
         "usage: millrace <command> [--flag=value ...]\n\n";
  for (const auto& [name, command] : Commands()) {
    out << "  " << name << std::string(name.size() < 27 ? 27 - name.size() : 1, ' ')
        << command.summary << "\n";
  }
  out << "\n`millrace help <command>` or `millrace <command> --help` lists the flags of a "
         "command.\n"
      << Wrapped(kCommonFlagsHelp, 0);
  return out.str();
}

std::string HelpPage(const Command& command) {
  std::ostringstream out;
  const std::string usage =
      StrCat("usage: millrace ", command.name, command.flags.empty() ? "" : " [--flag=value ...]");
  const bool fits = usage.size() + command.arguments.size() < kMaxColumns;
  out << usage
      << (command.arguments.empty() ? ""
          : fits                    ? " "
                                    : "\n       ")
      << command.arguments << "\n"
      << Wrapped(command.summary, 7);
  if (!command.actions.empty()) out << "\n" << Wrapped("actions: " + command.actions, 0);
  if (!command.example.empty()) out << "\nexample: " << command.example << "\n";
  if (!command.flags.empty()) out << "\n";
  for (const std::string& name : command.flags) {
    gflags::CommandLineFlagInfo info;
    gflags::GetCommandLineFlagInfo(name.c_str(), &info);
    out << "  --" << name << "  (" << info.type;
    // 0.1, not 0.10000000000000001
    const auto number =
        info.type == "double" ? ParseNumber<double>(info.default_value) : std::nullopt;
    if (number) {
      out << ", default " << *number;
    } else if (!info.default_value.empty()) {
      out << ", default " << info.default_value;
    }
    out << ")\n" << Wrapped(info.description, 6);
  }
  if (!command.ignored.empty()) {
    std::string names;
    for (const std::string& name : command.ignored) names += (names.empty() ? "--" : ", --") + name;
    out << "\n" << Wrapped("Accepted and ignored, as by Caffe's command: " + names + ".", 0);
  }
  out << "\n" << Wrapped(kCommonFlagsHelp, 0);
  return out.str();
}

void ExpectArguments(const std::vector<std::string>& arguments, size_t count, const char* usage) {
  if (arguments.size() != count) {
    throw Error(arguments.size(), " arguments given, expected ", usage);
  }
}

}  // namespace millrace
