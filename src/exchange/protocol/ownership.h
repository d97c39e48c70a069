// Assignment of chunks to masters: a pure function of the view, so that all members agree without
// messages.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_OWNERSHIP_H_
#define MILLRACE_EXCHANGE_PROTOCOL_OWNERSHIP_H_

#include <cstdint>
#include <span>

#include "exchange/protocol/view.h"

namespace millrace::inline exchange {

// Sets owners[c] to the master of each chunk c: a synced member of the view, or kNoNode if there is
// none. No member masters more than ceil(chunks / synced members) chunks. Rendezvous hashing
// (Thaler, Ravishankar: "Using name-based mappings to increase hit rates", 1998) with that bound:
// when a member joins or leaves, few chunks other than its own move.
void AssignOwners(const View& view, std::span<uint16_t> owners);

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_OWNERSHIP_H_
