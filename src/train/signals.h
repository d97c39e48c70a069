// SIGINT and SIGHUP as Caffe understands them: stop cleanly after a snapshot,
// or take a snapshot and go on.
#ifndef MILLRACE_TRAIN_SIGNALS_H_
#define MILLRACE_TRAIN_SIGNALS_H_

#include <signal.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"

namespace millrace {

enum class SignalEffect { kNone, kStop, kSnapshot };

// "none", "stop" or "snapshot"; throws Error naming `flag` for anything else.
SignalEffect ParseSignalEffect(const std::string& flag, const std::string& text);

// While it exists, SIGINT, SIGTERM and SIGHUP do not act on the process but wait
// for Next(). Construct it before any thread starts: threads inherit the mask. For one thread
// at a time.
class SignalWatch {
 public:
  // `clock` outlives it.
  SignalWatch(SignalEffect on_int, SignalEffect on_hup, const Clock* clock);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Waits up to `milliseconds` for a signal and returns what it asks for.
  // SIGTERM stops, as schedulers expect.
  SignalEffect Next(int milliseconds);

  // When Next first returned kStop; none: it has not.
  std::optional<int64_t> stopped_ns() const { return stopped_ns_; }

 private:
  SignalEffect EffectOf(int signal) const;

  SignalEffect on_int_, on_hup_;
  const Clock& clock_;
  std::optional<int64_t> stopped_ns_;
  sigset_t watched_, before_;
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_SIGNALS_H_
