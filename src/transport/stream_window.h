// How many frames may be on their way to a peer, without sockets or clocks: the
// two ends of a stream of numbered frames. The receiver says up to which number
// frames are done with (handed out and released, or lost), the sender keeps at most
// a window of frames beyond it. Both are cumulative, so any later credit makes up
// for a lost one, and any later frame for lost frames; where nothing is later, the
// sender asks (a probe).
//
// Numbers are 32 bits and wrap. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_STREAM_WINDOW_H_
#define MILLRACE_TRANSPORT_STREAM_WINDOW_H_

#include <algorithm>
#include <cstdint>

#include "transport/datagram_link.h"

namespace millrace {

// The sender's end.
class SendWindow {
 public:
  // `limit`: the most frames that this end leaves unconfirmed, whatever the
  // receiver allows. `silence_ns`: a peer that says nothing for so long while it is
  // being asked is taken to be gone.
  SendWindow(uint32_t limit, int64_t silence_ns)
      : limit_(limit), window_(std::min(limit, kFirstWindow)), silence_ns_(silence_ns) {}

  // Frames that may go out now. None to a silent peer, or one that is out of reach.
  uint32_t Room() const {
    const uint32_t unconfirmed = sent_ - freed_;
    return unconfirmed < window_ && !silent_ && reached_ ? window_ - unconfirmed : 0;
  }
  void SetReached(bool reached) { reached_ = reached; }
  // The number of the frame that goes out now. There must be room, but in a stream to
  // several peers, where those that are silent get the same numbers.
  uint32_t Take() { return ++sent_; }
  // The last `count` frames did not go out after all.
  void GiveBack(uint32_t count) { sent_ -= count; }
  uint32_t sent() const { return sent_; }

  // What a credit for this stream says. Ignored if it is older than another.
  void Credit(uint32_t freed, uint32_t window);

  // A frame met no room; asks the peer until there is. True if a probe should go out at
  // once: now and then, so that a caller who never waits is not stuck either.
  bool Refuse();
  bool refused() const { return refused_; }
  void ClearRefused() { refused_ = false; }
  // A frame to a silent peer was dropped; as Refuse.
  bool Dropped() { return ++tries_ % kTriesPerProbe == 0; }

  bool silent() const { return silent_; }
  // Anything came from the peer, which says nothing for one that is out of reach. True if
  // it was silent.
  bool OnFrame();
  // True if a probe should go out now. May find that the peer is silent.
  bool ProbeDue(int64_t now_ns);
  // When to call ProbeDue again; INT64_MAX if there is nothing to ask.
  int64_t NextProbeNs() const { return asking_ ? next_probe_ns_ : INT64_MAX; }

  // What is allowed until the receiver has said more.
  static constexpr uint32_t kFirstWindow = 24;

 private:
  static constexpr int64_t kFirstProbeNs = 2'000'000, kLongestProbeNs = 100'000'000;
  static constexpr uint32_t kTriesPerProbe = 256;

  const uint32_t limit_;
  uint32_t window_;
  const int64_t silence_ns_;
  uint32_t sent_ = 0, freed_ = 0;
  uint32_t tries_ = 0;
  bool refused_ = false, silent_ = false, reached_ = true;
  bool heard_ = false;   // since ProbeDue was called last
  bool asking_ = false;  // the next three mean something
  int64_t since_ns_ = 0, next_probe_ns_ = 0, interval_ns_ = 0;
};

// The receiver's end.
class ReceiveWindow {
 public:
  explicit ReceiveWindow(uint32_t window)
      : window_(window), reach_(2 * std::max(window, SendWindow::kFirstWindow)) {}

  // A frame has arrived, and is kept until Released(). It counts only in the session that
  // Probed has told, and if its number is one that the sender may use: frames are not
  // authenticated here. True if it counts, and the session is proven.
  bool Arrived(uint16_t tag, uint32_t sequence) {
    ++kept_;
    if (!known_ || tag != TagOf(session_) || sequence - highest_ - 1 >= reach_) return false;
    highest_ = sequence;
    return proven_;
  }
  // The sender says that `sequence` is the last number it has used: what has not arrived is
  // lost, since a probe overtakes nothing. It is believed downwards as well: a number that was
  // damaged on its way may lie ahead, and the sender ignores credits for what it has not sent.
  // (So it does those that an old probe leads to.) `proven`: it has echoed this node's session.
  // One that has not is believed only where it is the first, and none has proven itself since;
  // false for others.
  bool Probed(uint64_t session, uint32_t sequence, bool proven);
  void Released() { --kept_; }

  // Whether the sender should be told how far we are: a quarter of the window has
  // been freed, or it knows nothing yet.
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
  // No frame is further ahead of the newest: a window, and another since an old probe may
  // have set `highest_` back.
  const uint32_t reach_;
  bool known_ = false;  // a probe of this session has come
  bool proven_ = false;
  uint64_t session_ = 0;
  uint32_t highest_ = 0, kept_ = 0, announced_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_STREAM_WINDOW_H_
