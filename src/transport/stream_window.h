// Credit-based flow control of one stream of numbered frames, without sockets or clocks. The
// receiver acknowledges all frames up to a number: they were received and released, or lost. The
// sender has at most a window of frames beyond it in flight. Both numberings are cumulative: any
// later credit replaces a lost one, and any later frame reveals lost frames. If nothing later
// follows, the sender sends a probe.
//
// Numbers are 32 bits and wrap. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_STREAM_WINDOW_H_
#define MILLRACE_TRANSPORT_STREAM_WINDOW_H_

#include <algorithm>
#include <cstdint>

#include "transport/datagram_link.h"

namespace millrace::inline transport {

// Sender side.
class SendWindow {
 public:
  // `limit`: maximum unacknowledged frames, whatever the receiver allows. `silence_ns`: a peer
  // that answers no probe of this stream for this long is unresponsive. Its own frames are no
  // answer: it may send and receive nothing.
  SendWindow(uint32_t limit, int64_t silence_ns)
      : limit_(limit), window_(std::min(limit, kFirstWindow)), silence_ns_(silence_ns) {}

  // Frames that may be sent now; 0 if the peer is unresponsive or unreachable.
  uint32_t Room() const {
    const uint32_t unconfirmed = sent_ - freed_;
    return unconfirmed < window_ && !unresponsive_ && reached_ ? window_ - unconfirmed : 0;
  }
  void SetReached(bool reached) { reached_ = reached; }
  // Returns the number of the frame that is sent now. Requires room, except in a multicast
  // stream, where unresponsive peers use the same numbers.
  uint32_t Take() { return ++sent_; }
  // The last `count` frames were not sent after all.
  void GiveBack(uint32_t count) { sent_ -= count; }
  uint32_t sent() const { return sent_; }

  // Applies a credit for this stream. Ignores one that is older than a previous credit.
  void Credit(uint32_t freed, uint32_t window);
  // The peer has answered this stream's frames or probes, be it with a credit that is ignored. Does
  // nothing while the peer is unreachable.
  void Answered();

  // A frame met no room; from now on the peer is probed until there is room.
  void Refuse() { refused_ = true; }
  bool refused() const { return refused_; }
  void ClearRefused() { refused_ = false; }
  // A frame to an unresponsive peer was dropped. Returns whether a probe should be sent at once:
  // every kTriesPerProbe-th time, so that a caller that never waits finds the peer again, too.
  bool Dropped() { return ++tries_ % kTriesPerProbe == 0; }

  bool unresponsive() const { return unresponsive_; }
  // The peer has sent something. An unresponsive one is probed soon, as it may have returned.
  void Heard() { heard_ = true; }
  // Returns true if a probe should be sent now. May mark the peer unresponsive.
  bool ProbeDue(int64_t now_ns);
  // When to call ProbeDue again; INT64_MAX if no probe is pending.
  int64_t NextProbeNs() const { return asking_ ? next_probe_ns_ : INT64_MAX; }

  // Window until the first credit.
  static constexpr uint32_t kFirstWindow = 24;

 private:
  static constexpr int64_t kFirstProbeNs = 2'000'000, kMaxProbeNs = 100'000'000;
  // Longest interval of probes to an unresponsive peer that sends something.
  static constexpr int64_t kHeardProbeNs = 10'000'000;
  // Minimum number of probes, some of which may get lost, before a peer counts as unresponsive.
  static constexpr int64_t kProbesPerSilence = 8;
  static constexpr uint32_t kTriesPerProbe = 256;

  const uint32_t limit_;
  uint32_t window_;
  const int64_t silence_ns_;
  uint32_t sent_ = 0, freed_ = 0;
  uint32_t tries_ = 0;
  bool refused_ = false, unresponsive_ = false, reached_ = true;
  bool answered_ = false;  // an answer has arrived since the last call of ProbeDue
  bool heard_ = false;     // anything has
  bool asking_ = false;    // probing; the next members are valid
  int64_t since_ns_ = 0, probed_ns_ = 0, next_probe_ns_ = 0, interval_ns_ = 0;
};

// Receiver side.
class ReceiveWindow {
 public:
  explicit ReceiveWindow(uint32_t window)
      : window_(window), reach_(2 * std::max(window, SendWindow::kFirstWindow)) {}

  // A frame has arrived; it occupies a buffer until Released(). It counts only if it belongs to
  // the session that Probed recorded and its number is one that the sender may use: frames are
  // not authenticated here. Returns true if it counts and the session is confirmed.
  bool Arrived(uint16_t tag, uint32_t sequence) {
    ++kept_;
    if (!known_ || tag != TagOf(session_) || sequence - highest_ - 1 >= reach_) return false;
    highest_ = sequence;
    return validated_;
  }
  // Handles a probe: `sequence` is the last number that the sender has used. A probe does not
  // overtake frames, so every frame up to it that has not arrived is lost. A lower number than
  // the highest seen is accepted too: a number corrupted in transit may lie ahead, and the sender
  // ignores credits for frames that it has not sent. (It likewise ignores credits caused by an
  // old probe.) `validated`: the probe echoes this node's session id. Without the echo, a probe is
  // accepted only if it is the first or of the same session, and no session has been confirmed.
  // Returns false if the probe is not accepted.
  bool Probed(uint64_t session, uint32_t sequence, bool validated);
  void Released() { --kept_; }

  // Whether a credit should be sent: a quarter of the window was freed since the last one, or the
  // sender has received none yet.
  bool CreditDue() const {
    return known_ && static_cast<int32_t>(freed() - announced_) >= static_cast<int32_t>(Quarter());
  }
  void Announced() { announced_ = freed(); }
  uint32_t freed() const { return highest_ - kept_; }
  uint64_t session() const { return session_; }
  uint32_t window() const { return window_; }

 private:
  uint32_t Quarter() const { return std::max(window_ / 4, 1u); }

  const uint32_t window_;
  // Bound on how far a number may lie ahead of the highest: one window, plus one more because an
  // old probe may have lowered `highest_`.
  const uint32_t reach_;
  bool known_ = false;  // a probe of session_ was accepted
  bool validated_ = false;
  uint64_t session_ = 0;
  uint32_t highest_ = 0, kept_ = 0, announced_ = 0;
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_STREAM_WINDOW_H_
