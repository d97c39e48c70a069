// Range checks for transport options, with one error format for all transports.
#ifndef MILLRACE_TRANSPORT_CHECK_RANGE_H_
#define MILLRACE_TRANSPORT_CHECK_RANGE_H_

#include <cstdint>

#include "base/error.h"

namespace millrace::inline transport {

// Throws Error unless least <= value <= most; rejects NaN. `kind` describes the value in the
// message, for example "a number".
template <typename Value>
void CheckRange(const char* transport, const char* field, Value value, Value least, Value most,
                const char* kind) {
  if (value >= least && value <= most) return;
  throw Error("transport ", transport, ": ", field, "=", value, ": expected ", kind, " from ",
              least, " to ", most);
}

inline void ExpectInteger(const char* transport, const char* field, int64_t value, int64_t least,
                          int64_t most) {
  CheckRange(transport, field, value, least, most, "an integer");
}

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_CHECK_RANGE_H_
