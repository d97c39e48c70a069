#include <charconv>
#include <string_view>
#include <unordered_map>

#include "base/text/names.h"
#include "millrace/transport_registry.h"
#include "topology/read_fields.h"
#include "transport/network_names.h"

namespace millrace::inline topology {
namespace {

constexpr int kMaxSolvers = 1024;

// Address keys of all transports that are given as options of a node, with their definitions.
std::map<std::string, AddressKey> OptionKeys() {
  std::map<std::string, AddressKey> keys;
  for (const TransportDescriptor* transport : TransportRegistry::Get().Descriptors()) {
    for (const AddressKey& key : transport->addressing.keys) {
      if (!AdapterFields::IsField(key.name)) keys.emplace(key.name, key);
    }
  }
  return keys;
}

void CheckAddressOption(const std::string& field, const std::string& name,
                        const std::string& value) {
  const std::map<std::string, AddressKey> keys = OptionKeys();
  const auto key = keys.find(name);
  if (key == keys.end()) {
    std::vector<std::string> known;
    for (const auto& [each, definition] : keys) known.push_back(each);
    throw FieldError(field + ".key", "\"", name,
                     "\" given, which locates no transport's endpoints, ",
                     known.empty() ? "expected no option" : "expected one of " + NameList(known));
  }
  // Commas separate the addresses of peers.
  const bool is_valid = value.find(',') == std::string::npos &&
                        (!key->second.is_valid || key->second.is_valid(value));
  if (value.empty() || !is_valid) {
    throw FieldError(field + ".value", "\"", value, "\" given, expected the ", key->second.noun,
                     " of an endpoint");
  }
}

// Reads a topology_file::Node or a topology_file::Adapter; both have these fields.
template <typename Message>
TopologyAdapter ReadAdapter(const std::string& path, const Message& message) {
  TopologyAdapter adapter;
  if (message.has_address()) {
    const std::optional<NetworkHost> host = ParseHost(message.address());
    if (!host) {
      throw FieldError(path + ".address", "\"", message.address(),
                       "\" given, expected a host name or an IP address, without a port");
    }
    adapter.address = host->text;
  }
  if (message.has_interface()) {
    adapter.interface = message.interface();
    if (LooksLikeMac(adapter.interface)) {
      const std::optional<std::string> mac = ParseMac(adapter.interface);
      if (mac) adapter.interface = adapter.mac = *mac;
    }
    if (adapter.mac.empty() && !IsInterfaceName(adapter.interface)) {
      throw FieldError(path + ".interface", "\"", adapter.interface,
                       "\" given, expected the name of a network interface or its MAC address, "
                       "such as 52:54:00:12:34:56");
    }
  }
  if (message.has_mac()) {
    const std::optional<std::string> mac = ParseMac(message.mac());
    if (!mac) {
      throw FieldError(path + ".mac", "\"", message.mac(),
                       "\" given, expected the MAC address of one adapter, such as "
                       "52:54:00:12:34:56");
    }
    adapter.mac = *mac;
    if (adapter.interface.empty()) adapter.interface = adapter.mac;
  }
  adapter.options = ReadOptions(path + ".option", message.option(), CheckAddressOption);
  return adapter;
}

// kCpu if there is no such type. A build without CUDA knows its name, too.
DeviceType FindDeviceType(const std::string& name) {
  if (name == DeviceTypeName(DeviceType::kCuda)) return DeviceType::kCuda;
  for (const DeviceInfo& device : DeviceRegistry::Get().List()) {
    if (name == DeviceTypeName(device.type)) return device.type;
  }
  return DeviceType::kCpu;
}

TopologyMemory ReadMemory(const std::string& path, const topology_file::Node& message) {
  const std::string& text = message.memory();
  if (text == "host") return {};
  const size_t colon = text.find(':');
  TopologyMemory memory{FindDeviceType(text.substr(0, colon)), -1};
  if (colon != std::string::npos) {
    const char* const begin = text.data() + colon + 1;
    const char* const end = text.data() + text.size();
    const auto [read, error] = std::from_chars(begin, end, memory.ordinal);
    if (error != std::errc() || read != end) memory.ordinal = -1;
  }
  if (memory.on_host() || memory.ordinal < 0) {
    throw FieldError(path + ".memory", "\"", text,
                     "\" given, expected host, or a device such as cuda:0");
  }
  return memory;
}

void ReadAdapters(const std::string& path, const topology_file::Node& message, TopologyNode* node) {
  node->adapters.push_back(ReadAdapter(path, message));
  for (int i = 0; i < message.adapter_size(); ++i) {
    const std::string field = StrCat(path, ".adapter[", i, "]");
    const topology_file::Adapter& adapter = message.adapter(i);
    CheckName(field + ".name", adapter.has_name(), adapter.name());
    if (node->FindAdapter(adapter.name())) {
      throw FieldError(field + ".name", "node \"", node->name, "\" has an adapter \"",
                       adapter.name(), "\" already, expected another name");
    }
    node->adapters.push_back(ReadAdapter(field, adapter));
    node->adapters.back().name = adapter.name();
  }
}

// The default shard is the node's index, so the node whose shard is taken may be one without a
// `shard` field.
void ReadShards(const topology_file::Topology& file, std::vector<TopologyNode>* nodes) {
  const int count = static_cast<int>(nodes->size());
  std::vector<int> owner(count, -1);
  for (int i = 0; i < count; ++i) {
    const std::string field = StrCat("node[", i, "].shard");
    TopologyNode& node = (*nodes)[i];
    node.shard = i;
    if (file.node(i).has_shard()) {
      if (!file.shard_data()) {
        throw FieldError(field, "given, but shard_data is false: every node reads all data");
      }
      CheckRange(field, file.node(i).shard(), 0, count - 1);
      node.shard = file.node(i).shard();
    }
    if (owner[node.shard] >= 0) {
      throw FieldError(field, node.shard, " is the shard of node \"",
                       (*nodes)[owner[node.shard]].name, "\" already, expected another for \"",
                       node.name, "\"");
    }
    owner[node.shard] = i;
  }
}

}  // namespace

std::string NameList(const std::vector<std::string>& names) {
  constexpr size_t kMax = 16;
  std::string list;
  for (size_t i = 0; i < names.size() && i < kMax; ++i) list += (i ? ", " : "") + names[i];
  if (names.size() > kMax) list += StrCat(" and ", names.size() - kMax, " more");
  return list;
}

void CheckName(const std::string& field, bool given, const std::string& value) {
  constexpr const char* kExpected =
      "expected 1 to 64 letters, digits, '-', '_' or '.', the first a letter or digit";
  if (!given) throw FieldError(field, "missing, ", kExpected);
  if (!IsIdentifier(value)) throw FieldError(field, "\"", value, "\" given, ", kExpected);
}

void CheckRange(const std::string& field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw FieldError(field, value, " given, expected ", least, " to ", most);
}

std::vector<TopologyNode> ReadNodes(const topology_file::Topology& file) {
  if (file.node_size() == 0) throw FieldError("node", "missing, expected at least one");
  if (file.node_size() > kMaxTopologyEntries) {
    throw FieldError(StrCat("node[", kMaxTopologyEntries, "]"), file.node_size(),
                     " nodes given, expected at most ", kMaxTopologyEntries);
  }
  std::vector<TopologyNode> nodes;
  std::unordered_map<std::string, int> places;
  for (int i = 0; i < file.node_size(); ++i) {
    const topology_file::Node& message = file.node(i);
    const std::string path = StrCat("node[", i, "]");
    CheckName(path + ".name", message.has_name(), message.name());
    if (const auto [at, is_new] = places.emplace(message.name(), i); !is_new) {
      throw FieldError(path + ".name", "node[", at->second, "] is named \"", message.name(),
                       "\" already, expected another name");
    }
    CheckRange(path + ".solvers", message.solvers(), 1, kMaxSolvers);
    TopologyNode node;
    node.name = message.name();
    node.solvers = message.solvers();
    node.memory = ReadMemory(path, message);
    ReadAdapters(path, message, &node);
    if (message.has_control() && !ParseHostAndPort(message.control())) {
      throw FieldError(path + ".control", "\"", message.control(),
                       "\" given, expected host:port or [IPv6 address]:port");
    }
    node.control = message.control();
    nodes.push_back(std::move(node));
  }
  ReadShards(file, &nodes);
  return nodes;
}

}  // namespace millrace::inline topology
