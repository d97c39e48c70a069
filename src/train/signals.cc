#include "train/signals.h"

#include <pthread.h>
#include <time.h>

#include "base/error.h"

namespace millrace {

SignalEffect ParseSignalEffect(const std::string& flag, const std::string& text) {
  if (text == "none") return SignalEffect::kNone;
  if (text == "stop") return SignalEffect::kStop;
  if (text == "snapshot") return SignalEffect::kSnapshot;
  throw Error("--", flag, "=", text, ": expected stop, snapshot or none");
}

SignalWatch::SignalWatch(SignalEffect on_int, SignalEffect on_hup, const Clock* clock)
    : on_int_(on_int), on_hup_(on_hup), clock_(*clock) {
  sigemptyset(&watched_);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&watched_, signal);
  pthread_sigmask(SIG_BLOCK, &watched_, &before_);
}

SignalWatch::~SignalWatch() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

SignalEffect SignalWatch::Next(int milliseconds) {
  const timespec timeout = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
  const SignalEffect effect = EffectOf(sigtimedwait(&watched_, nullptr, &timeout));
  if (effect == SignalEffect::kStop && !stopped_ns_) stopped_ns_ = clock_.NowNs();
  return effect;
}

SignalEffect SignalWatch::EffectOf(int signal) const {
  switch (signal) {
    case SIGINT:
      return on_int_;
    case SIGHUP:
      return on_hup_;
    case SIGTERM:
      return SignalEffect::kStop;
    default:
      return SignalEffect::kNone;
  }
}

}  // namespace millrace
