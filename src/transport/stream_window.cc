#include "transport/stream_window.h"

#include <utility>

namespace millrace::inline transport {

void SendWindow::Credit(uint32_t freed, uint32_t window) {
  // Distances from the oldest unacknowledged frame are correct when numbers wrap. A number that
  // was never sent, or that precedes an earlier credit, is out of range.
  if (freed - freed_ > sent_ - freed_) return;
  freed_ = freed;
  window_ = std::clamp(window, 1u, limit_);
  if (Room() > 0) asking_ = false;
}

void SendWindow::Answered() {
  if (!reached_) return;
  answered_ = true;
  unresponsive_ = false;
}

bool SendWindow::ProbeDue(int64_t now_ns) {
  const bool stuck = unresponsive_ || (refused_ && Room() == 0);
  if (!stuck) {
    asking_ = false;
    return false;
  }
  const bool heard = std::exchange(heard_, false), answered = std::exchange(answered_, false);
  if (!asking_) {
    asking_ = true;
    since_ns_ = probed_ns_ = now_ns;
    interval_ns_ = kFirstProbeNs;
    next_probe_ns_ = now_ns + interval_ns_;
    return false;
  }
  if (answered) since_ns_ = now_ns;
  if (now_ns - since_ns_ >= silence_ns_) unresponsive_ = true;
  if (unresponsive_ && heard) {
    next_probe_ns_ = std::min(next_probe_ns_, probed_ns_ + kHeardProbeNs);
  }
  if (now_ns < next_probe_ns_) return false;
  const int64_t longest = unresponsive_ ? kMaxProbeNs : silence_ns_ / kProbesPerSilence;
  interval_ns_ =
      std::clamp(2 * interval_ns_, kFirstProbeNs, std::clamp(longest, kFirstProbeNs, kMaxProbeNs));
  probed_ns_ = now_ns;
  next_probe_ns_ = now_ns + interval_ns_;
  return true;
}

bool ReceiveWindow::Probed(uint64_t session, uint32_t sequence, bool validated) {
  const bool begins = !known_ || session != session_;  // first session, or a new one
  if (known_ && !validated && (validated_ || begins)) return false;
  known_ = true;
  validated_ = validated;
  session_ = session;
  highest_ = sequence;
  if (begins) announced_ = freed() - Quarter();  // makes a credit due
  return true;
}

}  // namespace millrace::inline transport
