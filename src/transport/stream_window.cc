#include "transport/stream_window.h"

namespace millrace {

void SendWindow::Credit(uint32_t freed, uint32_t window) {
  // Counted from the oldest unconfirmed frame, so that numbers may wrap; what was
  // never sent, or is behind another credit, lies outside.
  if (freed - freed_ > sent_ - freed_) return;
  freed_ = freed;
  window_ = std::clamp(window, 1u, limit_);
  if (Room() > 0) asking_ = false;
}

bool SendWindow::Refuse() {
  refused_ = true;
  return ++tries_ % kTriesPerProbe == 0;
}

bool SendWindow::OnFrame() {
  if (!reached_) return false;
  heard_ = true;
  const bool was_silent = silent_;
  silent_ = false;
  return was_silent;
}

bool SendWindow::ProbeDue(int64_t now_ns) {
  const bool stuck = silent_ || (refused_ && Room() == 0);
  if (!stuck) {
    asking_ = false;
    return false;
  }
  if (!asking_) {
    asking_ = true;
    heard_ = false;
    since_ns_ = now_ns;
    interval_ns_ = kFirstProbeNs;
    next_probe_ns_ = now_ns + interval_ns_;
    return false;
  }
  if (heard_) since_ns_ = now_ns;
  heard_ = false;
  if (now_ns - since_ns_ >= silence_ns_) silent_ = true;
  if (now_ns < next_probe_ns_) return false;
  interval_ns_ = std::min(2 * interval_ns_, kLongestProbeNs);
  next_probe_ns_ = now_ns + interval_ns_;
  return true;
}

bool ReceiveWindow::Probed(uint64_t session, uint32_t sequence, bool proven) {
  const bool begins = !known_ || session != session_;  // for the first time, or anew
  if (known_ && !proven && (proven_ || begins)) return false;
  known_ = true;
  proven_ = proven;
  session_ = session;
  highest_ = sequence;
  if (begins) announced_ = freed() - Quarter();  // a credit is due
  return true;
}

}  // namespace millrace
