// Parses the option `peers`: "1=10.0.0.2:7777,2=host:7777".
#ifndef MILLRACE_TRANSPORT_PEER_LIST_H_
#define MILLRACE_TRANSPORT_PEER_LIST_H_

#include <map>
#include <string>

#include "transport/registry.h"

namespace millrace {

// Parses option `peers` of `config`: NODE=ADDRESS pairs, separated by commas. Does not check the
// addresses. `form` is the expected address format for errors, such as "HOST:PORT". Throws Error
// with one line.
std::map<NodeId, std::string> ParsePeerList(const TransportConfig& config, const char* form);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_PEER_LIST_H_
