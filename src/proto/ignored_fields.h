// Fields of Caffe's forks that do not change what a net is, so that files with them are read
// without.
#ifndef MILLRACE_PROTO_IGNORED_FIELDS_H_
#define MILLRACE_PROTO_IGNORED_FIELDS_H_

#include <string>

namespace millrace::inline proto {

// Why the field `field` of the message `message` ("LayerParameter") has no effect, for a log line;
// "" if it must not be ignored.
std::string WhyIgnored(const std::string& message, const std::string& field);

}  // namespace millrace::inline proto

#endif  // MILLRACE_PROTO_IGNORED_FIELDS_H_
