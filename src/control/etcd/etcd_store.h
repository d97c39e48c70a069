// The registry of a run in etcd, over its JSON gateway (API version 3, etcd 3.4 or later).
#ifndef MILLRACE_CONTROL_ETCD_ETCD_STORE_H_
#define MILLRACE_CONTROL_ETCD_ETCD_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "control/http_address.h"
#include "control/http_client.h"
#include "proto/etcd.pb.h"
#include "rendezvous/rendezvous.h"

namespace millrace::inline control {

// The end of the range of keys that begin with `prefix`, which is not empty.
std::string RangeEnd(std::string prefix);
// The request of RegistryStore::Commit.
etcd::TxnRequest MakeTxn(const std::vector<RegistryCondition>& conditions,
                         const std::vector<RegistryChange>& changes, int64_t lease);
// Parses the body of a response, and ignores fields that the message lacks. Throws Error with one
// line.
void ParseEtcd(const std::string& json, google::protobuf::Message* message);
// One line of an error response: etcd's own, or one with the status.
std::string EtcdProblem(const HttpResponse& response);

class EtcdStore : public RegistryStore {
 public:
  // Reads the password file. `tls`: all endpoints are https. Throws Error with one line.
  EtcdStore(const RendezvousConfig& config, bool tls);

  int64_t Grant(int64_t seconds) override;
  bool KeepAlive(int64_t lease) override;
  void Revoke(int64_t lease) override;
  std::vector<RegistryEntry> Read(const std::string& prefix) override;
  bool Commit(const std::vector<RegistryCondition>& conditions,
              const std::vector<RegistryChange>& changes, int64_t lease) override;

 private:
  // Posts to the endpoint that answered last, then to the others.
  HttpResponse Post(const std::string& path, const google::protobuf::Message& request);
  HttpResponse PostAuthenticated(const std::string& path, const google::protobuf::Message& request);
  // The same, and parses the response. Throws Error for a status above 299.
  void Ask(const std::string& path, const google::protobuf::Message& request,
           google::protobuf::Message* response);
  void Authenticate();
  // Names the endpoint that has given this response.
  Error Refusal(const HttpResponse& response) const;

  HttpClientConfig client_;
  std::vector<HttpAddress> endpoints_;
  size_t endpoint_ = 0;  // that answered last
  const std::string user_;
  std::string password_, token_;
};

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_ETCD_ETCD_STORE_H_
