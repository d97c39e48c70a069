#include "control/commands.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/registration.h"
#include "base/text/names.h"

namespace millrace {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<ControlCommand> commands;
  static Registry& Get() {
    static auto* const registry = new Registry;  // threads may outlive static objects
    return *registry;
  }
};

std::string ProblemOf(const ControlCommand& command) {
  if (!IsIdentifier(command.name)) {
    return StrCat("control command \"", command.name,
                  "\": expected a name of 1 to 64 letters, digits, '-', '_' or '.'");
  }
  return command.run ? "" : StrCat("control command ", command.name, ": expected a function");
}

bool Has(const std::vector<ControlCommand>& commands, const std::string& name) {
  return std::any_of(commands.begin(), commands.end(),
                     [&](const ControlCommand& each) { return each.name == name; });
}

}  // namespace

RegisterControlCommand::RegisterControlCommand(ControlCommand command) {
  const std::string problem = ProblemOf(command);
  if (!problem.empty()) {
    ReportBadRegistration(problem);
    return;
  }
  Registry& registry = Registry::Get();
  std::lock_guard lock(registry.mutex);
  if (Has(registry.commands, command.name)) {
    ReportSecondRegistration("control command", command.name);
  } else {
    registry.commands.push_back(std::move(command));
  }
}

inline namespace control {

std::vector<ControlCommand> CommandsOf(const std::vector<ControlCommand>& more) {
  Registry& registry = Registry::Get();
  std::lock_guard lock(registry.mutex);
  std::vector<ControlCommand> commands = registry.commands;
  for (const ControlCommand& command : more) {
    const std::string problem = ProblemOf(command);
    if (!problem.empty()) throw Error(problem);
    if (Has(commands, command.name)) {
      throw Error("control command ", command.name, ": two of them have this name, expected one");
    }
    commands.push_back(command);
  }
  std::sort(commands.begin(), commands.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return commands;
}

bool IsJson(const std::string& text) {
  google::protobuf::Value value;
  return google::protobuf::util::JsonStringToMessage(text, &value).ok();
}

}  // namespace control
}  // namespace millrace
