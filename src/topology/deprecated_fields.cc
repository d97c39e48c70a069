#include "topology/deprecated_fields.h"

#include <google/protobuf/message.h>

#include "base/error.h"
#include "proto/parse.h"

namespace millrace::inline topology {
namespace {

using google::protobuf::FieldDescriptor;

// Moves the value of a scalar field to another field of the same type.
void Move(google::protobuf::Message* message, const FieldDescriptor* from,
          const FieldDescriptor* to) {
  const google::protobuf::Reflection& access = *message->GetReflection();
  switch (from->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      access.SetBool(message, to, access.GetBool(*message, from));
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      access.SetInt32(message, to, access.GetInt32(*message, from));
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      access.SetFloat(message, to, access.GetFloat(*message, from));
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      access.SetDouble(message, to, access.GetDouble(*message, from));
      break;
    default:
      access.SetString(message, to, access.GetString(*message, from));
  }
  access.ClearField(message, from);
}

// `prefix`: path of the message, "" or "segment[0].".
void Replace(google::protobuf::Message* message, const std::string& prefix, const char* old_name,
             const char* name, std::vector<DeprecatedField>* replaced) {
  const FieldDescriptor* const from = message->GetDescriptor()->FindFieldByName(old_name);
  const FieldDescriptor* const to = message->GetDescriptor()->FindFieldByName(name);
  const google::protobuf::Reflection& access = *message->GetReflection();
  if (!access.HasField(*message, from)) return;
  if (access.HasField(*message, to)) {
    throw FieldError(prefix + old_name, "given, and ", name,
                     " too, which replaces it; expected only ", name);
  }
  Move(message, from, to);
  replaced->push_back({prefix + old_name, name});
}

}  // namespace

std::vector<DeprecatedField> ReplaceDeprecatedFields(topology_file::Topology* file) {
  std::vector<DeprecatedField> replaced;
  Replace(file, "", "split_test", "distributed_evaluation", &replaced);
  for (int i = 0; i < file->segment_size(); ++i) {
    const std::string prefix = StrCat("segment[", i, "].");
    topology_file::Segment* const segment = file->mutable_segment(i);
    Replace(segment, prefix, "rule", "merge_rule", &replaced);
    Replace(segment, prefix, "max_rate", "max_mbps", &replaced);
    Replace(segment, prefix, "begin", "range_begin", &replaced);
    Replace(segment, prefix, "end", "range_end", &replaced);
    Replace(segment, prefix, "suspect_ms", "peer_timeout_ms", &replaced);
    Replace(segment, prefix, "spin", "busy_poll", &replaced);
  }
  return replaced;
}

}  // namespace millrace::inline topology
