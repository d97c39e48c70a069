// The commands of programs and plugins (millrace/control.h).
#ifndef MILLRACE_CONTROL_COMMANDS_H_
#define MILLRACE_CONTROL_COMMANDS_H_

#include <string>
#include <vector>

#include "millrace/control.h"

namespace millrace::inline control {

// Returns the registered commands and `more`, by name. Throws Error if one has a wrong name, no
// function, or the name of another.
std::vector<ControlCommand> CommandsOf(const std::vector<ControlCommand>& more);

// Whether `text` is JSON of any type.
bool IsJson(const std::string& text);

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_COMMANDS_H_
