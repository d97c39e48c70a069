// Descriptors of transports: all that differs by transport and is known without an endpoint.
// Topology files are validated and planned with descriptors alone. Each transport registers its own
// (transport_registry.h), also in builds without its backend.
//
// Plain values. The functions of a descriptor are pure and thread-safe.
#ifndef MILLRACE_TRANSPORT_DESCRIPTOR_H_
#define MILLRACE_TRANSPORT_DESCRIPTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "millrace/export.h"

namespace millrace {

struct TransportConfig;

// A network adapter of a node: the fields of a topology file from which transports make addresses;
// "" if the file omits one. `address` and `mac` are in canonical form: equal names are equal text.
struct MILLRACE_API AdapterFields {
  std::string address;                         // host name or IP address
  std::string interface;                       // name or MAC address
  std::string mac;                             // from `mac`, else from `interface`; lower case
  std::map<std::string, std::string> options;  // address keys without a field of their own

  // Value of the field, or else of the option, that `key` names.
  const std::string& Get(const std::string& key) const;
  // Whether `key` names a field, which therefore cannot be given as an option.
  static bool IsField(const std::string& key);
};

// A value that a transport needs of each node of a segment.
struct AddressKey {
  std::string name;  // "address", "interface", "mac", or the key of an `option` of the node
  std::string noun;  // "MAC address", for errors
  // Completes "missing, expected ... the NAME segment"; $ stands for the node's name: "the host
  // name or IP address of $ for".
  std::string expected;
  // For the value of an `option`: returns false if no endpoint accepts it. Null: any value without
  // commas. Fields are validated when they are read.
  std::function<bool(const std::string& value)> is_valid = nullptr;
};

// How a topology file locates the endpoints of a transport. No keys: endpoints find each other by
// options of the segment.
struct TransportAddressing {
  std::vector<AddressKey> keys;  // the last one distinguishes the nodes
  // Each node listens on the segment's `port`. Endpoints must then differ throughout the file,
  // otherwise within their segment.
  bool has_port = false;
  // Address of a node's endpoint in the option `peers` of the other nodes, without commas. All keys
  // are given; `port` is 0 without has_port.
  std::function<std::string(const AdapterFields& adapter, int port)> locate;
  // Option that holds the endpoint's own address, as `locate` returns it.
  std::string own_option;
  // `own_option` holds the name of a network interface of this machine instead: the one that the
  // field `interface` names. It must have the node's MAC address and allow the segment's MTU.
  bool own_is_interface = false;
};

// Topology files may name transports that reach other processes.
enum class TransportReach {
  kProcess,    // threads of one process
  kMachine,    // processes of one machine, and only these
  kNetwork,    // other machines
  kDecorated,  // as the transport below it
};

struct MILLRACE_API TransportDescriptor {
  std::string name;         // as topology files and TransportConfig name it
  std::string description;  // one line, for listings
  std::string privilege;    // what a process needs, such as "CAP_NET_RAW"; "": nothing
  TransportReach reach = TransportReach::kProcess;
  TransportAddressing addressing;
  // Takes the option `group`, a number from 0 to 65535 that separates clusters and segments on one
  // medium.
  bool has_group = false;
  std::vector<std::string> options;  // keys that an endpoint accepts, in the order of its page
  bool passes_options = false;       // accepts others too, for the transport below it
  // Endpoints change the addresses of their peers (Transport::SetPeerAddress), and the option
  // `peers` may have "" for a peer whose address is not known yet.
  bool moves_peers = false;
  // Options of every segment of a topology, unless the file sets them.
  std::map<std::string, std::string> segment_options;

  // Maximum frame length (header and payload), in bytes, between `members` for packets of `mtu`
  // bytes; negative if not even the transport's own prefix fits.
  std::function<int64_t(int64_t mtu, std::span<const AdapterFields* const> members)> frame_bytes;
  // Whether a frame to all nodes costs one transmission instead of one per peer, where the network
  // permits it. Null: never.
  std::function<bool(const TransportConfig& config)> multicasts;
  // kNetwork: whether only processes of this machine can send to an endpoint with this adapter, in
  // which `interface` is the name of this machine's interface if own_is_interface. Null: others
  // can.
  std::function<bool(const AdapterFields& own)> stays_on_host;

  // Whether topology files may name the transport.
  bool InTopologies() const {
    return reach == TransportReach::kMachine || reach == TransportReach::kNetwork;
  }
  bool Accepts(const std::string& option) const;
  // Whether a topology's plan derives this option from other fields of the file.
  bool IsPlanned(const std::string& option) const;
};

// The option that every plan sets: header and payload, in bytes.
inline constexpr const char* kMaxFrameBytesOption = "max_frame_bytes";
inline constexpr const char* kPeersOption = "peers";
inline constexpr const char* kGroupOption = "group";

// Addressing of transports that locate their endpoints by IP: the key `address` and the segment's
// port.
MILLRACE_API TransportAddressing InetAddressing();

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_DESCRIPTOR_H_
