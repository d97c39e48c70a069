#include "transport/check_descriptor.h"

#include <algorithm>

#include "base/error.h"

namespace millrace::inline transport {
namespace {

constexpr const char* kNameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789_-";

std::string ProblemOfAddressing(const TransportDescriptor& transport) {
  const TransportAddressing& addressing = transport.addressing;
  if (addressing.keys.empty()) return "";
  for (const AddressKey& key : addressing.keys) {
    if (key.name.empty()) return "an address key has no name";
    if (key.noun.empty()) return StrCat("address key ", key.name, " has no noun");
    if (std::count(key.expected.begin(), key.expected.end(), '$') != 1) {
      return StrCat("address key ", key.name, ": expected one $ in `expected`");
    }
  }
  if (!addressing.locate) return "it has address keys, but no function `locate`";
  for (const std::string& option : {std::string(kPeersOption), addressing.own_option}) {
    if (!transport.Accepts(option)) {
      return StrCat("it has address keys, so `options` must list \"", option, "\"");
    }
  }
  return "";
}

std::string ProblemOfOptions(const TransportDescriptor& transport) {
  if (transport.passes_options) return "";
  if (!transport.Accepts(kMaxFrameBytesOption)) {
    return StrCat("`options` must list \"", kMaxFrameBytesOption, "\"");
  }
  if (transport.has_group != transport.Accepts(kGroupOption)) {
    return StrCat("`options` must list \"", kGroupOption, "\" if and only if it has a group");
  }
  for (const auto& [key, value] : transport.segment_options) {
    if (!transport.Accepts(key)) return StrCat("`options` must list \"", key, "\"");
    if (transport.IsPlanned(key)) {
      return StrCat("`segment_options` sets \"", key, "\", which a plan sets");
    }
  }
  return ProblemOfAddressing(transport);
}

}  // namespace

std::string ProblemOf(const TransportDescriptor& transport) {
  if (transport.name.empty() ||
      transport.name.find_first_not_of(kNameCharacters) != std::string::npos) {
    return StrCat("transport \"", transport.name,
                  "\": expected a name of lower-case letters, digits, '_' and '-'");
  }
  const std::string problem = transport.frame_bytes
                                  ? ProblemOfOptions(transport)
                                  : "it has no function `frame_bytes`, which is required";
  return problem.empty() ? "" : StrCat("transport ", transport.name, ": its descriptor: ", problem);
}

}  // namespace millrace::inline transport
