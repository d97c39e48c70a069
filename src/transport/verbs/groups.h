// The multicast groups of a fabric: each node has one of its own, whose number follows
// from its id, sends to it and hears those of its peers. Joined through rdma_cm, which
// asks the subnet manager (InfiniBand) or tells switches and interfaces (RoCE).
#ifndef MILLRACE_TRANSPORT_VERBS_GROUPS_H_
#define MILLRACE_TRANSPORT_VERBS_GROUPS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/node_id.h"
#include "transport/inet_address.h"
#include "transport/verbs/device.h"
#include "transport/verbs/queue_pair.h"

namespace millrace {

// The group of node 0 where no option names it. Clusters and segments of different `group`
// have different ones, so that no device passes on what is another's: up to 64 nodes of
// IPv4, any number of IPv6. (With more, the last nodes of one use groups that are also of
// another, which costs both the datagrams that they pass over.)
std::string DefaultMulticastBase(bool ipv6, uint16_t group);

class VerbsGroups {
 public:
  struct Joined {
    VerbsGroup group;
    // How to send to it.
    AddressHandle address;
    uint32_t queue_pair = 0, key = 0;
  };

  // `device` outlives it. `base` as VerbsOptions::multicast_base, `group` as its group.
  // Throws Error.
  VerbsGroups(const VerbsDevice* device, const std::string& base, uint16_t group);

  // The group of node `of`, which stays joined while this lives; to send to it if `own`,
  // else to hear it. None if it is refused: `why` says so in a few words. Waits for the
  // answer, for a few seconds at most.
  std::optional<Joined> Join(NodeId of, bool own, std::string* why);

  // Readable when there may be news.
  int fd() const { return channel_->fd; }
  // Takes the news in; true if a group was lost, that of `*of`.
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
  bool silent_ = false;  // whoever grants groups does not answer
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_VERBS_GROUPS_H_
