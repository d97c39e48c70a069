// The error of text that is well-formed, but has fields that its messages lack.
#ifndef MILLRACE_PROTO_UNKNOWN_FIELDS_H_
#define MILLRACE_PROTO_UNKNOWN_FIELDS_H_

#include "base/error.h"

namespace millrace::inline proto {

// Names all of these fields in one line, in the order of the file. The message has been parsed
// without them.
class UnknownFields : public Error {
 public:
  using Error::Error;
};

}  // namespace millrace::inline proto

#endif  // MILLRACE_PROTO_UNKNOWN_FIELDS_H_
