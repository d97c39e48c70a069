// Sessions in C.
#include "millrace/session.h"

#include <cmath>
#include <memory>
#include <vector>

#include "capi/call.h"
#include "capi/net.h"
#include "millrace/metrics.h"

using millrace::Call;
using millrace::Given;
using millrace::GivenText;
using millrace::ValueOf;

struct millrace_session {
  explicit millrace_session(std::unique_ptr<millrace::Session> given)
      : session(std::move(given)), net(&session->net()) {
    for (int i = 0; i < session->test_nets(); ++i) {
      test_nets.push_back(std::make_unique<millrace_net>(&session->test_net(i)));
    }
  }

  const std::unique_ptr<millrace::Session> session;
  millrace_net net;
  std::vector<std::unique_ptr<millrace_net>> test_nets;
  millrace::Texts texts;
  // Results of the last test.
  int64_t tested_iteration = 0;
  std::vector<millrace::TestOutput> outputs;
};

namespace {

template <typename Open>
int OpenSession(const char* function, const millrace_session_options* given,
                millrace_session** result, Open open) {
  return Call(function, [&] {
    Given(function, "session", result);
    const millrace_session_options options =
        millrace::TakenOr(function, "millrace_session_options", given, {});
    millrace::SessionOptions session;
    session.weights = millrace::ListOf(options.weights);
    session.snapshot = millrace::TextOrNone(options.snapshot);
    session.topology = millrace::TextOrNone(options.topology);
    session.node = millrace::TextOrNone(options.node);
    session.rendezvous = millrace::TextOrNone(options.rendezvous);
    session.nodes = millrace::TextOrNone(options.nodes);
    if (!(options.join_seconds >= 0)) {
      throw millrace::Error(function, ": join_seconds is ", options.join_seconds,
                            ", expected 0 or more");
    }
    if (options.join_seconds > 0) session.join_seconds = options.join_seconds;
    session.shard_index = options.shard_index;
    session.shard_count = options.shard_count;
    session.plain_blobs = options.live_blobs != 0;
    session.past_max_iter = options.past_max_iter != 0;
    if (options.solvers != 0) session.solvers = options.solvers;
    session.gpus = millrace::TextOrNone(options.gpus);
    if (options.precision != nullptr) session.precision = options.precision;
    if (options.metrics != 0) session.metrics = &millrace::MetricsRegistry::OfProcess();
    *result = new millrace_session(open(session));
  });
}

millrace::Session& SessionOf(const char* function, millrace_session* session) {
  return *Given(function, "session", session).session;
}

}  // namespace

int millrace_session_open(const char* solver_file, const millrace_session_options* options,
                          millrace_session** session) {
  return OpenSession(__func__, options, session, [&](const millrace::SessionOptions& given) {
    return millrace::Session::Open(GivenText("millrace_session_open", "solver_file", solver_file),
                                   given);
  });
}

int millrace_session_open_text(const char* text, const char* name,
                               const millrace_session_options* options,
                               millrace_session** session) {
  return OpenSession(__func__, options, session, [&](const millrace::SessionOptions& given) {
    return millrace::Session::OpenText(GivenText("millrace_session_open_text", "text", text),
                                       GivenText("millrace_session_open_text", "name", name),
                                       given);
  });
}

void millrace_session_close(millrace_session* session) { delete session; }

int millrace_session_step(millrace_session* session, millrace_step* result) {
  const char* const function = __func__;
  return Call(function, [&]() -> int {
    if (result != nullptr) millrace::CheckResult(function, "millrace_step", result);
    const auto made = SessionOf(function, session).Step();
    if (!made) return MILLRACE_END;
    millrace_step step = MILLRACE_STEP_INIT;
    step.iteration = made->iteration;
    step.loss = made->loss;
    step.learning_rate = made->learning_rate;
    if (result != nullptr) millrace::Give(step, result);
    return MILLRACE_OK;
  });
}

int64_t millrace_session_iteration(millrace_session* session) {
  const char* const function = __func__;
  return ValueOf(function, int64_t{-1}, [&] { return SessionOf(function, session).iteration(); });
}

int millrace_session_learning_rate(millrace_session* session, float* rate) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "rate", rate) = SessionOf(function, session).learning_rate();
  });
}

int millrace_session_on_gradients(millrace_session* session, int (*call)(void* user), void* user) {
  const char* const function = __func__;
  return Call(function, [&] {
    SessionOf(function, session).OnGradients([call, user] {
      if (call != nullptr) millrace::Callback("the callback of gradients", call, user);
    });
  });
}

int millrace_session_apply_update(millrace_session* session) {
  const char* const function = __func__;
  return Call(function, [&] { SessionOf(function, session).ApplyUpdate(); });
}

millrace_net* millrace_session_net(millrace_session* session) {
  const char* const function = __func__;
  return ValueOf(function, static_cast<millrace_net*>(nullptr),
                 [&] { return &Given(function, "session", session).net; });
}

size_t millrace_session_test_net_count(millrace_session* session) {
  const char* const function = __func__;
  return ValueOf(function, size_t{0},
                 [&] { return Given(function, "session", session).test_nets.size(); });
}

millrace_net* millrace_session_test_net(millrace_session* session, size_t index) {
  const char* const function = __func__;
  return ValueOf(function, static_cast<millrace_net*>(nullptr), [&] {
    return millrace::At(function, Given(function, "session", session).test_nets, index).get();
  });
}

int millrace_session_set_memory_data(millrace_session* session, const char* layer,
                                     const float* values, size_t value_count, const float* labels,
                                     size_t label_count) {
  const char* const function = __func__;
  return Call(function, [&] {
    SessionOf(function, session)
        .SetMemoryData(GivenText(function, "layer", layer),
                       {&Given(function, "values", values), value_count},
                       {&Given(function, "labels", labels), label_count});
  });
}

int millrace_session_test(millrace_session* session, size_t net, size_t* outputs) {
  const char* const function = __func__;
  return Call(function, [&] {
    millrace::Session& tested = SessionOf(function, session);
    if (net >= session->test_nets.size()) {
      throw millrace::Error(function, ": net is ", net, ", expected less than ",
                            session->test_nets.size());
    }
    session->outputs = tested.Test(static_cast<int>(net));
    session->tested_iteration = tested.iteration();
    if (outputs != nullptr) *outputs = session->outputs.size();
  });
}

int millrace_session_test_output(millrace_session* session, size_t index,
                                 millrace_test_output* result) {
  const char* const function = __func__;
  return Call(function, [&] {
    millrace::CheckResult(function, "millrace_test_output", result);
    const std::vector<millrace::TestOutput>& outputs = Given(function, "session", session).outputs;
    if (index >= outputs.size()) {
      throw millrace::Error(function, ": index is ", index, ", expected less than ", outputs.size(),
                            ", the values of the last test");
    }
    millrace_test_output output = MILLRACE_TEST_OUTPUT_INIT;
    output.name = session->texts.Keep(outputs[index].name);
    output.mean = outputs[index].mean;
    output.iteration = session->tested_iteration;
    millrace::Give(output, result);
  });
}

int millrace_session_snapshot(millrace_session* session, const char** path) {
  const char* const function = __func__;
  return Call(function, [&] {
    const std::string state = SessionOf(function, session).Snapshot();
    if (path != nullptr) *path = session->texts.Keep(state);
  });
}

int millrace_session_restore(millrace_session* session, const char* snapshot) {
  const char* const function = __func__;
  return Call(function, [&] {
    SessionOf(function, session).Restore(GivenText(function, "snapshot", snapshot));
  });
}

int millrace_session_is_leader(millrace_session* session) {
  const char* const function = __func__;
  return Call(function, [&]() -> int { return SessionOf(function, session).is_leader(); });
}

int millrace_session_finish(millrace_session* session) {
  const char* const function = __func__;
  return Call(function, [&] { SessionOf(function, session).Finish(); });
}

int millrace_session_leave(millrace_session* session) {
  const char* const function = __func__;
  return Call(function, [&] { SessionOf(function, session).Leave(); });
}
