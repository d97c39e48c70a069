#include "capi/run.h"

#include <cmath>

#include "capi/call.h"
#include "millrace/metrics.h"

using millrace::Call;
using millrace::Given;

namespace {

using State = millrace::RunStatus::State;
static_assert(static_cast<int>(State::kStarting) == MILLRACE_RUN_STARTING &&
              static_cast<int>(State::kTraining) == MILLRACE_RUN_TRAINING &&
              static_cast<int>(State::kPaused) == MILLRACE_RUN_PAUSED &&
              static_cast<int>(State::kStopping) == MILLRACE_RUN_STOPPING &&
              static_cast<int>(State::kEnded) == MILLRACE_RUN_ENDED);

millrace::RunHandle& RunOf(const char* function, millrace_run* run) {
  return *Given(function, "run", run).run;
}

// A run that the program has started.
millrace::Run& OwnRunOf(const char* function, millrace_run* run) {
  const std::unique_ptr<millrace::Run>& own = Given(function, "run", run).own;
  if (own == nullptr) throw millrace::Error(function, ": a command cannot wait for its run");
  return *own;
}

// A function of a run without arguments.
int Command(const char* function, millrace_run* run, void (millrace::RunHandle::*command)()) {
  return Call(function, [&] { (RunOf(function, run).*command)(); });
}

}  // namespace

int millrace_run_start(const millrace_run_options* given, millrace_run** run) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "run", run);
    const millrace_run_options options = millrace::Taken(function, "millrace_run_options", given);
    millrace::RunOptions start;
    start.solver_file =
        millrace::GivenText(function, "millrace_run_options.solver_file", options.solver_file);
    if (options.cpus < MILLRACE_NO_CPUS) {
      throw millrace::Error(function, ": cpus is ", options.cpus,
                            ", expected a number of threads, 0 or MILLRACE_NO_CPUS");
    }
    if (options.cpus != 0) start.cpus = options.cpus == MILLRACE_NO_CPUS ? 0 : options.cpus;
    start.gpus = millrace::TextOrNone(options.gpus);
    if (options.precision != nullptr) start.precision = options.precision;
    start.weights = millrace::ListOf(options.weights);
    start.snapshot = millrace::TextOrNone(options.snapshot);
    start.metrics_file = millrace::TextOrNone(options.metrics_file);
    start.topology = millrace::TextOrNone(options.topology);
    start.node = millrace::TextOrNone(options.node);
    start.rendezvous = millrace::TextOrNone(options.rendezvous);
    start.nodes = millrace::TextOrNone(options.nodes);
    if (options.metrics != 0) start.metrics = &millrace::MetricsRegistry::OfProcess();
    *run = new millrace_run(millrace::Run::Start(start));
  });
}

void millrace_run_close(millrace_run* run) { delete run; }

int millrace_run_get_status(millrace_run* run, millrace_run_status* result) {
  const char* const function = __func__;
  return Call(function, [&] {
    millrace::CheckResult(function, "millrace_run_status", result);
    const millrace::RunStatus now = RunOf(function, run).status();
    millrace_run_status status = MILLRACE_RUN_STATUS_INIT;
    status.state = static_cast<int>(now.state);
    status.iteration = now.iteration;
    status.max_iteration = now.max_iteration;
    status.loss = now.loss;
    status.learning_rate = now.learning_rate;
    status.seconds = now.seconds;
    status.iterations_per_second = now.iterations_per_second.value_or(-1);
    status.images_per_iteration = now.images_per_iteration;
    status.snapshot_iteration = now.snapshot_iteration;
    status.snapshot = run->texts.Keep(now.snapshot);
    status.node = run->texts.Keep(now.node);
    status.cluster = run->texts.Keep(now.cluster);
    millrace::Give(status, result);
  });
}

int millrace_run_test_output(millrace_run* run, size_t net, size_t index,
                             millrace_test_output* result) {
  const char* const function = __func__;
  return Call(function, [&]() -> int {
    millrace::CheckResult(function, "millrace_test_output", result);
    for (const millrace::RunTest& test : RunOf(function, run).status().tests) {
      if (static_cast<size_t>(test.net) != net || index >= test.outputs.size()) continue;
      millrace_test_output output = MILLRACE_TEST_OUTPUT_INIT;
      output.name = run->texts.Keep(test.outputs[index].name);
      output.mean = test.outputs[index].mean;
      output.iteration = test.iteration;
      millrace::Give(output, result);
      return MILLRACE_OK;
    }
    return MILLRACE_END;
  });
}

int millrace_run_pause(millrace_run* run) {
  return Command(__func__, run, &millrace::RunHandle::Pause);
}
int millrace_run_resume(millrace_run* run) {
  return Command(__func__, run, &millrace::RunHandle::Resume);
}
int millrace_run_snapshot(millrace_run* run) {
  return Command(__func__, run, &millrace::RunHandle::Snapshot);
}
int millrace_run_test(millrace_run* run) {
  return Command(__func__, run, &millrace::RunHandle::Test);
}
int millrace_run_stop(millrace_run* run) {
  return Command(__func__, run, &millrace::RunHandle::Stop);
}

int millrace_run_set_learning_rate(millrace_run* run, float rate) {
  const char* const function = __func__;
  return Call(function, [&] { RunOf(function, run).SetLearningRate(rate); });
}

int millrace_run_wait_for(millrace_run* run, double seconds) {
  const char* const function = __func__;
  return Call(function, [&]() -> int {
    millrace::Run& waited = OwnRunOf(function, run);
    if (!(seconds >= 0)) {
      throw millrace::Error(function, ": seconds is ", seconds, ", expected 0 or more");
    }
    return waited.WaitFor(seconds) ? MILLRACE_OK : MILLRACE_END;
  });
}

int millrace_run_wait(millrace_run* run, millrace_run_result* result) {
  const char* const function = __func__;
  return Call(function, [&] {
    if (result != nullptr) millrace::CheckResult(function, "millrace_run_result", result);
    const millrace::RunResult ended = OwnRunOf(function, run).Wait();
    if (result == nullptr) return;
    millrace_run_result given = MILLRACE_RUN_RESULT_INIT;
    given.iteration = ended.iteration;
    given.stopped_early = ended.stopped_early;
    given.loss = ended.loss;
    given.model = run->texts.Keep(ended.model);
    given.state = run->texts.Keep(ended.state);
    millrace::Give(given, result);
  });
}
