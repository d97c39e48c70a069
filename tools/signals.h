// SIGINT and SIGHUP with Caffe's semantics: stop after a snapshot, or take a snapshot and continue.
#ifndef MILLRACE_TOOLS_SIGNALS_H_
#define MILLRACE_TOOLS_SIGNALS_H_

#include <signal.h>

#include <string>

#include "train/run_control.h"

namespace millrace {

// Parses "none", "stop" or "snapshot". Throws Error that names `flag` for any other text.
RunCommand ParseSignalEffect(const std::string& flag, const std::string& text);

// Blocks SIGINT, SIGTERM and SIGHUP while it exists; Next() receives them. Construct it before any
// thread starts, because threads inherit the signal mask. From then on the process ignores SIGPIPE:
// a reader of the log or of the results that ends, as `tee` does at Ctrl-C, does not end the run.
// Not thread-safe.
class SignalWatch : public RunControl {
 public:
  SignalWatch(RunCommand on_int, RunCommand on_hup);
  ~SignalWatch() override;
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // SIGTERM always stops, as schedulers expect.
  RunCommand Next(int milliseconds) override;

 private:
  const RunCommand on_int_, on_hup_;
  sigset_t watched_, before_;
};

}  // namespace millrace

#endif  // MILLRACE_TOOLS_SIGNALS_H_
