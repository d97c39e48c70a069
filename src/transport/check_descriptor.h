// Checks the descriptors of transports when they are registered.
#ifndef MILLRACE_TRANSPORT_CHECK_DESCRIPTOR_H_
#define MILLRACE_TRANSPORT_CHECK_DESCRIPTOR_H_

#include <string>

#include "millrace/transport_descriptor.h"

namespace millrace::inline transport {

// What a descriptor lacks or contradicts, in one line; "" if nothing. A descriptor without a
// problem can be used to read and to plan topology files.
std::string ProblemOf(const TransportDescriptor& transport);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_CHECK_DESCRIPTOR_H_
