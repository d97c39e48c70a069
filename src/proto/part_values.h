// The parameters of a named part (millrace/part.h) in a solver file.
#ifndef MILLRACE_PROTO_PART_VALUES_H_
#define MILLRACE_PROTO_PART_VALUES_H_

#include <string>

#include "millrace/part.h"
#include "proto/caffe.pb.h"

namespace millrace::inline proto {

inline PartValues ValuesOf(const google::protobuf::Map<std::string, double>& params) {
  PartValues values;
  for (const auto& [name, value] : params) values.emplace(name, value);
  return values;
}

}  // namespace millrace::inline proto

#endif  // MILLRACE_PROTO_PART_VALUES_H_
