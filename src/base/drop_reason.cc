#include "base/drop_reason.h"

#include <iterator>

namespace millrace {
namespace {

constexpr unsigned Bit(DropComponent component) { return 1u << static_cast<unsigned>(component); }
constexpr unsigned kExchange = Bit(DropComponent::kExchange), kFilter = Bit(DropComponent::kFilter),
                   kHandshake = Bit(DropComponent::kHandshake),
                   kTransport = Bit(DropComponent::kTransport),
                   kGossip = Bit(DropComponent::kGossip);

constexpr unsigned kMessages = kExchange | kHandshake | kGossip;  // those with a header

using enum DropReason;

struct Row {
  DropReason reason;
  unsigned components;  // that drop frames for this reason
  const char* name;
  const char* help;
};

// In the order of the enumeration.
constexpr Row kRows[] = {
    {kNone, 0, "none", "accepted"},
    {kShort, kExchange, "short", "shorter than a header"},
    {kLength, kMessages, "length", "of another length than its kind or its header says"},
    {kMagic, kMessages, "magic", "not a frame of this protocol"},
    {kChecksum, kMessages, "checksum", "damaged on the way"},
    {kVersion, kMessages, "version", "another version of the format"},
    {kField, kMessages, "field", "a field has a value that no sender writes"},
    {kRun, kMessages, "run", "of another run"},
    {kDestination, kMessages, "destination", "addressed to another node"},
    {kIncarnation, kGossip, "incarnation", "of a peer or incarnation without a session"},
    {kStranger, kMessages, "stranger",
     "of no member of the view, an earlier incarnation of one, or no node of the cluster"},
    {kSelf, kMessages, "self", "from this node itself"},
    {kSourceMismatch, kFilter | kHandshake, "source_mismatch",
     "the transport received it from another node than its source"},
    {kNoSession, kFilter, "no_session", "no session with the sender is established"},
    {kNoKey, kHandshake, "no_key", "without a tag, but this node has a key"},
    {kForeignKey, kHandshake, "foreign_key", "with a tag, but this node has no key"},
    {kBadTag, kFilter | kHandshake, "bad_tag",
     "forged, altered, or signed with another key or session"},
    {kReplayed, kFilter, "replayed", "accepted before, or too old to check that"},
    {kUnauthenticated, kHandshake, "unauthenticated",
     "does not echo this node's challenge, so it may be a recording"},
    {kDiffers, kHandshake, "differs", "authenticated, but the settings differ"},
    {kView, kExchange, "view", "sent in another view"},
    {kChunk, kExchange, "chunk", "no such chunk, or wrong size of the chunk"},
    {kNotMaster, kExchange, "not_master",
     "position from, or diff to, a node that is not the chunk's master"},
    {kOld, kExchange, "old", "a position or diff that is out of date or already taken"},
    {kNonFinite, kExchange, "non_finite", "contains NaN or infinity"},
    {kPayload, kExchange, "payload", "malformed payload"},
    {kBeingRead, kExchange, "being_read",
     "an outgoing frame still reads the chunk's weights in place"},
    {kBusy, kExchange, "busy", "a solver was in the chunk's weights"},
    {kTooLong, kTransport, "too_long", "not sent: longer than max_frame_bytes"},
    {kNoSuchNode, kTransport, "no_such_node", "not sent: the destination is no peer"},
    {kUnreachable, kTransport, "unreachable",
     "not sent: the destination is unresponsive or not connected"},
    {kFailed, kTransport, "failed", "not sent: the device or the kernel failed"},
    {kOverrun, kTransport, "overrun", "received, but no buffer was free"},
    {kMalformed, kTransport, "malformed", "not a datagram of this transport"},
    {kBadChecksum, kTransport, "bad_checksum", "the kernel found a wrong checksum"},
    {kUnknownSender, kTransport, "unknown_sender", "from an address that belongs to no peer"},
};

constexpr bool IsInOrder() {
  for (size_t i = 0; i < kDropReasons; ++i) {
    if (kRows[i].reason != static_cast<DropReason>(i)) return false;
  }
  return true;
}
static_assert(std::size(kRows) == kDropReasons && IsInOrder());

constexpr const char* kComponentNames[] = {"exchange", "filter", "handshake", "transport",
                                           "gossip"};
static_assert(std::size(kComponentNames) == kDropComponents);

}  // namespace

const char* DropReasonName(DropReason reason) { return kRows[static_cast<size_t>(reason)].name; }

const char* DropReasonHelp(DropReason reason) { return kRows[static_cast<size_t>(reason)].help; }

const char* base::DropComponentName(DropComponent component) {
  return kComponentNames[static_cast<size_t>(component)];
}

std::vector<DropReason> base::DropReasonsOf(DropComponent component) {
  std::vector<DropReason> reasons;
  for (const Row& row : kRows) {
    if ((row.components & Bit(component)) != 0) reasons.push_back(row.reason);
  }
  return reasons;
}

}  // namespace millrace
