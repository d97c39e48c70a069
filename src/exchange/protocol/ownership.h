// Which member of a view masters which chunk: a pure function of the view, so
// that all members agree without a word.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_OWNERSHIP_H_
#define MILLRACE_EXCHANGE_PROTOCOL_OWNERSHIP_H_

#include <cstdint>
#include <span>

#include "exchange/protocol/view.h"

namespace millrace {

// Sets owners[c] to the master of chunk c, for all c: one of the view's synced
// members, or kNoNode if there is none. No member masters more than
// ceil(chunks / members) of them. Rendezvous hashing (Thaler, Ravishankar: "Using
// name-based mappings to increase hit rates", 1998) with that bound: a member that
// comes or goes moves few chunks but its own.
void AssignOwners(const View& view, std::span<uint16_t> owners);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_OWNERSHIP_H_
