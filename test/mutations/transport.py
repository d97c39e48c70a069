"""Bugs in what carries frames from node to node, as exchange.py has them; not in verbs, which
needs devices.
"""

WINDOW, WINDOW_H = "src/transport/stream_window.cc", "src/transport/stream_window.h"
SEND, RECEIVE = "src/transport/credited_send.cc", "src/transport/credited_receive.cc"
RECEIVE_QUEUE, COMPLETION_QUEUE = "src/transport/receive_queue.h", "src/transport/completion_queue.h"
RING, LOOPBACK = "src/transport/frame_ring.cc", "src/transport/loopback/transport.cc"
LOOPBACK_END = "src/transport/loopback/endpoint.cc"
LANE, PLAN, FAULTY = (f"src/transport/faulty/{name}.cc"
                      for name in ("fault_queue", "fault_plan", "transport"))
UDP_BATCH, UDP_LINK = "src/transport/udp/batch.cc", "src/transport/udp/link.cc"
UDP_PEERS, CHECKSUMS = "src/transport/inet_peers.cc", "src/transport/udp/checksum_errors.cc"
PACKET_BATCH, PACKET_WIRE = "src/transport/packet/batch.cc", "src/transport/packet/wire.h"

MUTANTS = [
    # ---- Registration and options -------------------------------------------
    ("a-second-transport-of-a-name-passes", [("src/transport/registry.cc", """\
  if (!descriptors_.emplace(name, std::move(descriptor)).second) {
    ReportSecondRegistration("transport", name);
  }
""", """\
  descriptors_.emplace(name, std::move(descriptor));
""")]),
    ("a-node-is-its-own-peer", [("src/transport/transport_config.cc", """\
    if (*node == this->node || *node == kAllNodes) {
""", """\
    if (*node == kAllNodes) {
""")]),
    # ---- Windows, credits and probes ----------------------------------------
    ("credit-for-frames-never-sent", [(WINDOW, """\
  if (freed - freed_ > sent_ - freed_) return;
""", """\
  if (static_cast<int32_t>(freed - freed_) < 0) return;
""")]),
    ("sender-allows-itself-what-the-receiver-does", [(WINDOW, """\
  window_ = std::clamp(window, 1u, limit_);
""", """\
  window_ = std::max(window, 1u);
""")]),
    ("a-busy-peer-becomes-unresponsive", [(WINDOW, """\
  if (answered) since_ns_ = now_ns;
""", "")]),
    ("probes-never-become-rarer", [(WINDOW, """\
  interval_ns_ = std::clamp(2 * interval_ns_, kFirstProbeNs,
""", """\
  interval_ns_ = std::clamp(interval_ns_, kFirstProbeNs,
""")]),
    ("an-unvalidated-probe-begins-a-session", [(WINDOW, """\
  if (known_ && !validated && (validated_ || begins)) return false;
""", """\
  if (known_ && !validated && validated_ && !begins) return false;
""")]),
    ("credit-counts-frames-that-are-kept", [(WINDOW_H, """\
  uint32_t freed() const { return highest_ - kept_; }
""", """\
  uint32_t freed() const { return highest_; }
""")]),
    ("frames-of-an-earlier-session-count", [(WINDOW_H, """\
    if (!known_ || tag != TagOf(session_) || sequence - highest_ - 1 >= reach_) return false;
""", """\
    if (!known_ || sequence - highest_ - 1 >= reach_) return false;
""")]),
    ("a-frame-may-be-any-distance-ahead", [(WINDOW_H, """\
    if (!known_ || tag != TagOf(session_) || sequence - highest_ - 1 >= reach_) return false;
""", """\
    if (!known_ || tag != TagOf(session_)) return false;
""")]),
    ("credits-of-any-session-are-taken", [(RECEIVE, """\
  if (!to_all && credit.echo != SessionOf(false)) return;
""", "")]),
    ("challenges-are-not-answered", [(RECEIVE, """\
  if (credit.window == 0 || is_new) SendProbe({peer, to_all});
""", """\
  if (credit.window > 0 && is_new) SendProbe({peer, to_all});
""")]),
    ("a-probe-tells-of-frames-still-in-the-batch", [(RECEIVE, """\
  const ControlMessage probe = {At(name).send.sent() - unsent, SessionOf(name.to_all),
""", """\
  const ControlMessage probe = {At(name).send.sent() - 0 * unsent, SessionOf(name.to_all),
""")]),
    ("credits-are-forgotten-where-the-kernel-is-full", [(RECEIVE, """\
    if (!link_->SendCredit(name.peer, credit)) return;
""", """\
    link_->SendCredit(name.peer, credit);
""")]),
    ("frames-of-a-deaf-peer-are-answers", [(WINDOW_H, """\
  void Heard() { heard_ = true; }
""", """\
  void Heard() { answered_ = heard_ = true; }
""")]),
    ("a-peer-that-returns-is-asked-late", [(WINDOW, """\
    next_probe_ns_ = std::min(next_probe_ns_, probed_ns_ + kHeardProbeNs);
""", """\
    next_probe_ns_ = std::max(next_probe_ns_, probed_ns_ + kHeardProbeNs);
""")]),

    # ---- Sending and receiving ----------------------------------------------
    ("numbers-of-unsent-frames-are-lost", [(SEND, """\
  for (size_t i = flushed.frames; i < batch_size_; ++i) GiveBackNumber(batch_[i]);
""", "")]),
    ("sends-without-room", [(SEND, """\
  if (!HasRoom(name)) return Taken::kBusy;
  AddToBatch(name.peer, frame);
""", """\
  HasRoom(name);
  AddToBatch(name.peer, frame);
""")]),
    ("first-frames-announce-no-session", [(SEND, """\
  if (number == 1) Begin(peer);
""", "")]),
    ("held-frames-stay-in-the-callers-memory", [(SEND, """\
    held_frames_.push_back({kAllNodes, {at, frame.bytes()}, {}});
""", """\
    held_frames_.push_back({kAllNodes, frame.header, frame.payload});
""")]),
    ("a-run-to-all-is-begun-again-after-a-part", [(SEND, """\
  if (wanted > 0 && copies_.size() == wanted) {
    copies_.clear();
    return 0;
  }
""", """\
  if (wanted > 0 && !copies_.empty()) {
    copies_.clear();
    return 0;
  }
""")]),
    ("lent-frames-do-not-fill-the-receive-queue", [(RECEIVE_QUEUE, """\
  bool full() const { return end_ - released_ == entries_.size(); }
""", """\
  bool full() const { return end_ - taken_ == entries_.size(); }
""")]),
    ("a-frame-is-given-back-before-it-has-left", [(COMPLETION_QUEUE, """\
    for (; begin_ != end_ && At(begin_).transmissions <= transmissions; ++begin_) {
""", """\
    for (; begin_ != end_ && At(begin_).transmissions <= transmissions + 1; ++begin_) {
""")]),

    # ---- UDP and raw Ethernet -----------------------------------------------
    ("a-longer-frame-joins-a-message", [(UDP_BATCH, """\
         last.datagram == first.datagram && frame.datagram <= first.datagram &&
""", """\
         last.datagram == first.datagram &&
""")]),
    ("frames-go-out-again-where-segmentation-fails", [(UDP_BATCH, """\
      Group(result.frames);
      sent = 0;
""", """\
      Group(0);
      sent = 0;
""")]),
    ("truncated-datagrams-are-taken", [(UDP_LINK, """\
  if (arrival.truncated || arrival.bytes.empty()) {
""", """\
  if (arrival.bytes.empty()) {
""")]),
    ("a-coalesced-buffer-is-one-datagram", [(UDP_LINK, """\
  for (size_t at = 0; at < arrival.bytes.size(); at += segment) {
""", """\
  for (size_t at = 0; at < std::min<size_t>(segment, arrival.bytes.size()); at += segment) {
""")]),
    ("addresses-of-one-hash-are-strangers", [(UDP_PEERS, """\
    if (addresses_[by_hash_[place]] == address) return by_hash_[place];
  }
""", """\
    return addresses_[by_hash_[place]] == address ? by_hash_[place] : kNone;
  }
""")]),
    ("checksum-errors-of-others-are-counted", [(CHECKSUMS, """\
  const uint64_t bad = std::min(drops - std::min(drops, no_room), checksum);
""", """\
  const uint64_t bad = std::min(drops, checksum);
""")]),
    ("packets-behind-a-full-queue-are-lost", [(PACKET_BATCH, """\
      result.of_device = error != EAGAIN;
      break;
""", """\
      result.of_device = error != EAGAIN;
      result.frames = count_;
      break;
""")]),
    ("padding-of-a-short-packet-is-taken-for-data", [(PACKET_WIRE, """\
  datagram->bytes = rest.first(prefix->bytes);
""", """\
  datagram->bytes = rest;
""")]),

    # ---- Loopback -----------------------------------------------------------
    ("a-queue-holds-more-than-it-was-given", [(RING, """\
      credits_(frames) {
""", """\
      credits_(mask_ + 1) {
""")]),
    ("a-refused-multicast-keeps-its-credits", [(LOOPBACK_END, """\
      for (NodeId other : credited_) GiveBack(other);
""", "")]),
    ("a-node-finds-the-frames-of-its-earlier-incarnation", [(LOOPBACK, """\
  while (place->ring->Ready()) place->ring->Take();
  place->ring->Release();
""", "")]),

    # ---- Faults -------------------------------------------------------------
    ("a-fault-shifts-those-behind-it", [(PLAN, """\
  decision.duplicate = rng->Uniform() < rates.duplicate;
""", """\
  decision.duplicate = rates.duplicate > 0 && rng->Uniform() < rates.duplicate;
""")]),
    ("a-truncated-frame-keeps-its-length", [(LANE, """\
    held.bytes = decision.length;
    Count""", """\
    Count""")]),
    ("a-reordered-frame-waits-for-its-time", [(LANE, """\
    held->after_taken = taken_ + held->decision.pass_frames;
    Count(&counts_.reordered);
""", """\
    held->after_taken = UINT64_MAX;
    Count(&counts_.reordered);
""")]),
    ("a-slot-is-free-before-its-frame-has-left", [(FAULTY, """\
    if (send_.held(slot).inner_number <= done) {
""", """\
    if (send_.held(slot).inner_number <= done + 1) {
""")]),
]

# Not in the table, because nobody could tell:
# - a loopback endpoint announces no room: a thread that waits looks every 5 ms by itself,
#   so only the time until it finds some changes.
