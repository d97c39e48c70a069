// Multicast groups of a fabric. Each node has its own group, whose address follows from the node
// id; it sends to that group and receives from those of its peers. Groups are joined through
// rdma_cm, which asks the subnet manager (InfiniBand) or informs switches and interfaces (RoCE).
#ifndef MILLRACE_TRANSPORT_VERBS_GROUPS_H_
#define MILLRACE_TRANSPORT_VERBS_GROUPS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "millrace/node_id.h"
#include "transport/inet_address.h"
#include "transport/verbs/device.h"
#include "transport/verbs/queue_pair.h"

namespace millrace::inline transport {

// Default multicast address of node 0. Clusters and segments with different `group` get disjoint
// addresses, so that no device receives datagrams of another cluster: with IPv4 for up to 64
// nodes, with IPv6 for any number. With more nodes, the last nodes share addresses with another
// group; both then receive and discard each other's datagrams.
std::string DefaultMulticastBase(bool ipv6, uint16_t group);

class VerbsGroups {
 public:
  struct Joined {
    VerbsGroup group;
    // Destination for sending to the group.
    AddressHandle address;
    uint32_t queue_pair = 0, key = 0;
  };

  // `device` outlives this object. `base`: see VerbsOptions::multicast_base; `group`: see
  // VerbsOptions::group. Throws Error.
  VerbsGroups(const VerbsDevice* device, const std::string& base, uint16_t group);

  // Joins the group of node `of` for the lifetime of this object: to send to it if `own`, else to
  // receive from it. Returns nothing on failure, with a short reason in `*why`. Blocks for a few
  // seconds at most.
  std::optional<Joined> Join(NodeId of, bool own, std::string* why);

  // Readable when there may be an event.
  int fd() const { return channel_->fd; }
  // Processes pending events. Returns true if a group was lost, and sets `*of` to its node.
  bool TakeLoss(NodeId* of);

  std::string NameOf(NodeId of) const;

 private:
  InetAddress AddressOf(NodeId of) const;
  bool Ask(const InetAddress& address, NodeId of, bool only_send);
  std::optional<Joined> Await(std::string* why);

  const VerbsDevice& device_;
  CmChannel channel_;
  CmId id_;
  InetAddress base_;
  bool unresponsive_ = false;  // group management does not answer
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_VERBS_GROUPS_H_
