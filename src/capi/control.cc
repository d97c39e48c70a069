// Control services and their commands in C.
#include "millrace/control.h"

#include <memory>
#include <string>

#include "capi/run.h"
#include "capi/tables.h"

using millrace::Call;
using millrace::Given;
using millrace::TextOrNone;

struct millrace_control {
  millrace_control(const millrace::ControlOptions& options, millrace::RunHandle* run)
      : service(options, run), url(service.url()) {}

  millrace::ControlService service;
  const std::string url;
};

struct millrace_call {
  explicit millrace_call(millrace::RunHandle* of) : run(of) {}

  millrace_run run;
  std::string result = "null";
};

int millrace_control_open(const millrace_control_options* given, millrace_run* run,
                          millrace_control** control) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "control", control);
    millrace_control_options none = MILLRACE_CONTROL_OPTIONS_INIT;
    const millrace_control_options options =
        millrace::TakenOr(function, "millrace_control_options", given, none);
    millrace::ControlOptions start;
    start.address = TextOrNone(options.address);
    start.topology = TextOrNone(options.topology);
    start.node = TextOrNone(options.node);
    start.key_file = TextOrNone(options.key_file);
    start.certificate = TextOrNone(options.certificate);
    start.private_key = TextOrNone(options.private_key);
    start.authorities = TextOrNone(options.authorities);
    start.solver = TextOrNone(options.solver);
    start.rendezvous = TextOrNone(options.rendezvous);
    start.rendezvous_user = TextOrNone(options.rendezvous_user);
    start.rendezvous_password_file = TextOrNone(options.rendezvous_password_file);
    *control = new millrace_control(start, Given(function, "run", run).run);
  });
}

void millrace_control_close(millrace_control* control) { delete control; }

const char* millrace_control_url(millrace_control* control) {
  const char* const function = __func__;
  return millrace::ValueOf<const char*>(
      function, nullptr, [&] { return Given(function, "control", control).url.c_str(); });
}

int millrace_register_command(const millrace_command_type* given) {
  const char* const function = __func__;
  return Call(function, [&] {
    const millrace_command_type type = millrace::Taken(function, "millrace_command_type", given);
    const std::string name = millrace::GivenText(function, "name", type.name);
    const std::string help = millrace::GivenText(function, "help", type.help);
    millrace::CheckFunction(function, "run", type.run);
    millrace::RegisterControlCommand(
        {.name = name,
         .help = help,
         .run = [run = type.run, user = type.user, name](const millrace::ControlCall& of) {
           millrace_call call(&of.run);
           millrace::Callback("command " + name + ": run", run, &call, user, of.arguments.c_str());
           return call.result;
         }});
  });
}

int millrace_call_return(millrace_call* call, const char* json) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "call", call).result = millrace::GivenText(function, "json", json);
  });
}

millrace_run* millrace_call_run(millrace_call* call) {
  const char* const function = __func__;
  return millrace::ValueOf<millrace_run*>(function, nullptr,
                                          [&] { return &Given(function, "call", call).run; });
}
