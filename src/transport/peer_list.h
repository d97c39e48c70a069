// The peers that an option names: "1=10.0.0.2:7777,2=host:7777".
#ifndef MILLRACE_TRANSPORT_PEER_LIST_H_
#define MILLRACE_TRANSPORT_PEER_LIST_H_

#include <map>
#include <string>

#include "transport/registry.h"

namespace millrace {

// Option `peers` of `config`: NODE=ADDRESS, separated by commas; addresses are not
// looked at. `form` is what an address is to look like, for errors: "HOST:PORT". Throws
// Error with one line.
std::map<NodeId, std::string> ParsePeerList(const TransportConfig& config, const char* form);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_PEER_LIST_H_
