// Answers of etcd, and the keys of a run in them: a line each of the answer, then the registry that
// its keys describe.
#include "control/etcd/etcd_store.h"
#include "rendezvous/registration.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {

std::vector<std::string> Corpus() {
  return {
      R"({"header":{"revision":"2"},"kvs":[{"key":"cnVuL25vZGUvMQ==","create_revision":"2",)"
      R"("mod_revision":"2","version":"1","value":"YWIgMTAuMC4wLjE=","lease":"7"}],"count":"1"})",
      R"({"header":{"revision":"9"},"kvs":[{"key":"cnVuL2hlbGQvMS8w","mod_revision":"9","value":"YQ=="},)"
      R"({"key":"cnVuL3J1bg==","mod_revision":"3","value":"YWI="}],"more":true})",
      R"({"result":{"header":{"revision":"1"},"ID":"2324035681965190150","TTL":"5"}})",
      R"({"header":{"revision":"1"},"ID":"2324035681965190150","TTL":"5"})",
      R"({"header":{"revision":"2"},"succeeded":true,"responses":[{"response_put":{}}]})",
      R"({"token":"abc.7"})",
      R"({"error":"etcdserver: requested lease not found","message":"x","code":5})",
      "run/node/1\nab 10.0.0.1",
      "run/control/1\n[::1]:8400",
      "run/held/1/0\nab"};
}

bool Target(const std::string& input) {
  constexpr int kNodes = 4;
  std::vector<RegistryEntry> entries;
  etcd::RangeResponse range;
  etcd::LeaseKeepAliveStream lease;
  etcd::LeaseGrantResponse grant;
  etcd::TxnResponse txn;
  etcd::AuthenticateResponse authenticated;
  for (google::protobuf::Message* message :
       {static_cast<google::protobuf::Message*>(&range),
        static_cast<google::protobuf::Message*>(&lease),
        static_cast<google::protobuf::Message*>(&grant),
        static_cast<google::protobuf::Message*>(&txn),
        static_cast<google::protobuf::Message*>(&authenticated)}) {
    try {
      ParseEtcd(input, message);
    } catch (const Error& error) {
      if (std::string(error.what()).find('\n') != std::string::npos) return false;
    }
  }
  for (const etcd::KeyValue& each : range.kvs()) {
    entries.push_back({each.key(), each.value(), each.mod_revision()});
  }
  const size_t end = input.find('\n');
  if (end != std::string::npos) entries.push_back({input.substr(0, end), input.substr(end + 1), 1});
  const RegistryView view = ParseRegistry("run/", kNodes, entries);
  if (view.nodes.size() != kNodes || view.registered() > kNodes) return false;
  for (const RegistryView::Node& node : view.nodes) {
    for (const NodeId holder : node.holders) {
      if (holder >= kNodes) return false;
    }
    if (node.control.find('\n') != std::string::npos) return false;
    if (!node.registered) continue;
    if (ParseRegisteredNode(RegisteredNodeText(*node.registered)) != node.registered) return false;
  }
  return EtcdProblem({.status = 400, .body = input}).find('\n') == std::string::npos;
}

}  // namespace millrace::fuzz
