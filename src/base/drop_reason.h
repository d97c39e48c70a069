// The components of a segment that drop frames, and the reasons (millrace/drop_reason.h) of each.
#ifndef MILLRACE_BASE_DROP_REASON_H_
#define MILLRACE_BASE_DROP_REASON_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/drop_reason.h"

namespace millrace::inline base {

// The parts of a segment that drop frames.
enum class DropComponent : uint8_t { kExchange, kFilter, kHandshake, kTransport, kGossip, kCount };
inline constexpr size_t kDropComponents = static_cast<size_t>(DropComponent::kCount);

// "exchange", "filter", ...
const char* DropComponentName(DropComponent component);
// The reasons for which the component drops frames, in the order of the enumeration.
std::vector<DropReason> DropReasonsOf(DropComponent component);

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_DROP_REASON_H_
