#include "millrace/transport_descriptor.h"

#include <algorithm>

#include "transport/network_names.h"

namespace millrace {
namespace {

const std::string* FieldOf(const AdapterFields& adapter, const std::string& key) {
  if (key == "address") return &adapter.address;
  if (key == "interface") return &adapter.interface;
  if (key == "mac") return &adapter.mac;
  return nullptr;
}

}  // namespace

const std::string& AdapterFields::Get(const std::string& key) const {
  static const std::string none;
  if (const std::string* const field = FieldOf(*this, key)) return *field;
  const auto found = options.find(key);
  return found == options.end() ? none : found->second;
}

bool AdapterFields::IsField(const std::string& key) {
  static const AdapterFields any;
  return FieldOf(any, key) != nullptr;
}

bool TransportDescriptor::Accepts(const std::string& option) const {
  return passes_options || std::find(options.begin(), options.end(), option) != options.end();
}

bool TransportDescriptor::IsPlanned(const std::string& option) const {
  if (option == kMaxFrameBytesOption) return true;
  if (has_group && option == kGroupOption) return true;
  return !addressing.keys.empty() && (option == kPeersOption || option == addressing.own_option);
}

TransportAddressing InetAddressing() {
  TransportAddressing addressing;
  addressing.keys = {
      {.name = "address", .noun = "address", .expected = "the host name or IP address of $ for"}};
  addressing.has_port = true;
  addressing.locate = [](const AdapterFields& adapter, int port) {
    return HostAndPort(*ParseHost(adapter.address), port);
  };
  addressing.own_option = "address";
  return addressing;
}

}  // namespace millrace
