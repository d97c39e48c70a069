#include "tools/signals.h"

#include <pthread.h>
#include <time.h>

#include "base/error.h"

namespace millrace {

RunCommand ParseSignalEffect(const std::string& flag, const std::string& text) {
  if (text == "none") return RunCommand::kNone;
  if (text == "stop") return RunCommand::kStop;
  if (text == "snapshot") return RunCommand::kSnapshot;
  throw Error("--", flag, "=", text, ": expected stop, snapshot or none");
}

SignalWatch::SignalWatch(RunCommand on_int, RunCommand on_hup) : on_int_(on_int), on_hup_(on_hup) {
  sigemptyset(&watched_);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&watched_, signal);
  pthread_sigmask(SIG_BLOCK, &watched_, &before_);
  signal(SIGPIPE, SIG_IGN);  // until the process ends, when it writes what it has buffered
}

SignalWatch::~SignalWatch() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

RunCommand SignalWatch::Next(int milliseconds) {
  const timespec timeout = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
  switch (sigtimedwait(&watched_, nullptr, &timeout)) {
    case SIGINT:
      return on_int_;
    case SIGHUP:
      return on_hup_;
    case SIGTERM:
      return RunCommand::kStop;
    default:
      return RunCommand::kNone;
  }
}

}  // namespace millrace
