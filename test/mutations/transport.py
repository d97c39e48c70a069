"""Bugs in what carries frames from node to node, as exchange.py has them; not in verbs, which
needs devices.
"""

WINDOW, WINDOW_H = "src/transport/stream_window.cc", "src/transport/stream_window.h"
SEND, RECEIVE = "src/transport/credited_send.cc", "src/transport/credited_receive.cc"
RECEIVE_QUEUE, COMPLETION_QUEUE = "src/transport/receive_queue.h", "src/transport/completion_queue.h"
RING, LOOPBACK = "src/transport/frame_ring.cc", "src/transport/loopback/transport.cc"
LOOPBACK_END = "src/transport/loopback/endpoint.cc"
FAULT_QUEUE, FAULTY = (f"src/transport/faulty/{name}.cc" for name in ("fault_queue", "transport"))
UDP_BATCH, UDP_LINK = "src/transport/udp/batch.cc", "src/transport/udp/link.cc"
INET_ADDRESS, CHECKSUMS = "src/transport/inet_address.cc", "src/transport/udp/checksum_errors.cc"
PACKET_BATCH, PACKET_WIRE = "src/transport/packet/batch.cc", "src/transport/packet/wire.h"

MUTANTS = [
    # ---- Registration and options -------------------------------------------
    ("a-second-transport-of-a-name-passes",
     "src/transport/registry.cc", "TransportRegistry::Register",
     "if (!descriptors_.emplace(name, std::move(descriptor)).second) { "
     'ReportSecondRegistration("transport", name); }',
     "descriptors_.emplace(name, std::move(descriptor));"),
    ("a-node-is-its-own-peer",
     "src/transport/transport_config.cc", "TransportConfig::Peers", "this->node || *node ==", ""),
    # ---- Windows, credits and probes ----------------------------------------
    ("credit-for-frames-never-sent",
     WINDOW, "SendWindow::Credit",
     "freed - freed_ > sent_ - freed_", "static_cast<int32_t>(freed - freed_) < 0"),
    ("sender-allows-itself-what-the-receiver-does",
     WINDOW, "SendWindow::Credit", "clamp(window, 1u, limit_", "max(window, 1u"),
    ("a-caller-that-never-waits-asks-nobody",
     "src/transport/credited_send.cc", "CreditedEndpoint::HasRoom",
     "if (window.ProbeDue(clock_.NowNs())) SendProbe(name);", ""),
    ("a-busy-peer-becomes-unresponsive",
     WINDOW, "SendWindow::ProbeDue", "if (answered) since_ns_ = now_ns;", ""),
    ("probes-never-become-rarer", WINDOW, "SendWindow::ProbeDue", "2 *", ""),
    ("an-unvalidated-probe-begins-a-session",
     WINDOW, "ReceiveWindow::Probed", "(validated_ || begins)", "validated_ && !begins"),
    ("credit-counts-frames-that-are-kept", WINDOW_H, "", "highest_ - kept_", "highest_"),
    ("frames-of-an-earlier-session-count", WINDOW_H, "Arrived", "tag != TagOf(session_) ||", ""),
    ("a-frame-may-be-any-distance-ahead", WINDOW_H, "Arrived", "|| sequence - highest_ - 1 >= reach_", ""),
    ("credits-of-any-session-are-taken",
     RECEIVE, "CreditedEndpoint::TakeCredit", "if (!to_all && credit.echo != SessionOf(false)) return;", ""),
    ("challenges-are-not-answered", RECEIVE, "CreditedEndpoint::TakeCredit", "== 0 ||", "> 0 &&"),
    ("a-probe-tells-of-frames-still-in-the-batch",
     RECEIVE, "CreditedEndpoint::SendProbe", "unsent,", "0 * unsent,"),
    ("credits-are-forgotten-where-the-kernel-is-full",
     RECEIVE, "CreditedEndpoint::SendCredits",
     "if (!link_->SendCredit(name.peer, credit)) return", "link_->SendCredit(name.peer, credit)"),
    ("frames-of-a-deaf-peer-are-answers", WINDOW_H, "", "{ heard_", "{ answered_ = heard_"),
    ("a-peer-that-returns-is-asked-late", WINDOW, "SendWindow::ProbeDue", "min(", "max("),

    # ---- Sending and receiving ----------------------------------------------
    ("numbers-of-unsent-frames-are-lost",
     SEND, "CreditedEndpoint::Flush", "for (size_t i = flushed.frames; i < batch_size_; ... ;", ""),
    ("sends-without-room",
     SEND, "CreditedEndpoint::TakeUnicast", "if (!HasRoom(name)) return Taken::kBusy", "HasRoom(name)"),
    ("first-frames-announce-no-session",
     SEND, "CreditedEndpoint::AddToBatch", "if (number == 1) Begin(peer);", ""),
    ("held-frames-stay-in-the-callers-memory",
     SEND, "CreditedEndpoint::Hold", "{at, frame.bytes()}, {}", "frame.header, frame.payload"),
    ("a-run-to-all-is-begun-again-after-a-part",
     SEND, "CreditedEndpoint::TakeFannedOut", "copies_.size() == wanted", "!copies_.empty()"),
    ("lent-frames-do-not-fill-the-receive-queue", RECEIVE_QUEUE, "", "- released_", "- taken_"),
    ("a-frame-is-given-back-before-it-has-left",
     COMPLETION_QUEUE, "Finish", "transmissions;", "transmissions + 1;"),

    # ---- UDP and raw Ethernet -----------------------------------------------
    ("a-longer-frame-joins-a-message",
     UDP_BATCH, "UdpBatch::Extends", "frame.datagram <= first.datagram &&", ""),
    ("frames-go-out-again-where-segmentation-fails", UDP_BATCH, "UdpBatch::Flush", "result.frames)", "0)"),
    ("truncated-datagrams-are-taken", UDP_LINK, "UdpLink::TakeArrival", "truncated || arrival.", ""),
    ("a-coalesced-buffer-is-one-datagram",
     UDP_LINK, "UdpLink::TakeArrival",
     "< arrival.bytes.size(", "< std::min<size_t>(segment, arrival.bytes.size()"),
    ("addresses-of-one-hash-are-strangers",
     INET_ADDRESS, "InetPeers::Find",
     "if (addresses_[by_hash_[place]] == address) return by_hash_[place]",
     "return addresses_[by_hash_[place]] == address ? by_hash_[place] : kNone"),
    ("checksum-errors-of-others-are-counted",
     CHECKSUMS, "UdpDropClassifier::Classify", "- std::min(drops, no_room)", ""),
    ("packets-behind-a-full-queue-are-lost",
     PACKET_BATCH, "PacketBatch::Flush", "break;", "result.frames = count_; break;"),
    ("padding-of-a-short-packet-is-taken-for-data", PACKET_WIRE, "ParsePacket", ".first(prefix->bytes)", ""),

    # ---- Loopback -----------------------------------------------------------
    ("a-queue-holds-more-than-it-was-given", RING, "FrameRing::FrameRing", "frames) {", "mask_ + 1) {"),
    ("a-refused-multicast-keeps-its-credits",
     LOOPBACK_END, "LoopbackEndpoint::SendToAll", "for (NodeId other : credited_) GiveBack(other);", ""),
    ("a-node-finds-the-frames-of-its-earlier-incarnation",
     LOOPBACK, "LoopbackHub::State::Drain", "while (place->ring->Ready()) place->ring->Take(); ... ;", ""),

    # ---- Faults -------------------------------------------------------------
    ("a-fault-shifts-those-behind-it", FAULT_QUEUE, "Decide", "duplicate =", "duplicate = rates.duplicate > 0 &&"),
    ("a-truncated-frame-keeps-its-length", FAULT_QUEUE, "FaultQueue::Take", "held.bytes = decision.length;", ""),
    ("a-reordered-frame-waits-for-its-time",
     FAULT_QUEUE, "FaultQueue::Schedule", "taken_ + held->decision.pass_frames", "UINT64_MAX"),
    ("a-slot-is-free-before-its-frame-has-left", FAULTY, "FaultyTransport::PollSend", "done)", "done + 1)"),
]

# Not in the table, because nobody could tell:
# - a loopback endpoint announces no room: a thread that waits looks every 5 ms by itself,
#   so only the time until it finds some changes.
