// `custom_param` entries: the parameters of layers and update rules outside of Millrace.
#ifndef MILLRACE_PROTO_CUSTOM_PARAM_H_
#define MILLRACE_PROTO_CUSTOM_PARAM_H_

#include <google/protobuf/map.h>

#include <set>
#include <string>

namespace millrace::inline proto {

using CustomParams = google::protobuf::Map<std::string, std::string>;

// The number in `key`, or `default_value` if it is not set. Throws FieldError("custom_param", ...)
// if it is not a finite number.
double CustomNumber(const CustomParams& params, const std::string& key, double default_value);
// The text in `key`, or `default_value` if it is not set.
std::string CustomText(const CustomParams& params, const std::string& key,
                       const std::string& default_value);

// Throws FieldError("custom_param", ...) if `params` has another key than `known`. `owner`, for the
// message: "a layer of type Pooling".
void CheckCustomParams(const CustomParams& params, const std::set<std::string>& known,
                       const std::string& owner);

}  // namespace millrace::inline proto

#endif  // MILLRACE_PROTO_CUSTOM_PARAM_H_
