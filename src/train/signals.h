// SIGINT and SIGHUP with Caffe's semantics: stop after a snapshot, or take a snapshot and continue.
#ifndef MILLRACE_TRAIN_SIGNALS_H_
#define MILLRACE_TRAIN_SIGNALS_H_

#include <signal.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"

namespace millrace {

enum class SignalEffect { kNone, kStop, kSnapshot };

// Parses "none", "stop" or "snapshot". Throws Error that names `flag` for any other text.
SignalEffect ParseSignalEffect(const std::string& flag, const std::string& text);

// Blocks SIGINT, SIGTERM and SIGHUP while it exists; Next() receives them. Construct it before any
// thread starts, because threads inherit the signal mask. Not thread-safe.
class SignalWatch {
 public:
  // `clock` outlives this object.
  SignalWatch(SignalEffect on_int, SignalEffect on_hup, const Clock* clock);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Waits up to `milliseconds` for a signal and returns its effect. SIGTERM always stops, as
  // schedulers expect.
  SignalEffect Next(int milliseconds);

  // When Next first returned kStop; none before that.
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
