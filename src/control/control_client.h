// Watches and controls a run through its control service.
#ifndef MILLRACE_CONTROL_CONTROL_CLIENT_H_
#define MILLRACE_CONTROL_CONTROL_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "control/endpoint_file.h"
#include "control/http_client.h"
#include "proto/control.pb.h"

namespace millrace::inline control {

// How a user names a run; all "": the only run of this user on this machine.
struct ControlTarget {
  std::string address = "";   // "host:port" of the service
  std::string topology = "";  // the topology file, for addresses and the key
  std::string node = "";      // a node of the cluster
  std::string key_file =
      "";  // the cluster's secret; "": that of the topology, or of the run itself
  bool tls = false;
  std::string authorities = "";  // as HttpClientConfig
};

// Thread-safe.
class ControlClient {
 public:
  // `key`: the control key; null: requests are not signed. `node`: of the cluster, if the service
  // at `address` is to forward to it; "": that service itself.
  ControlClient(HttpAddress address, HttpClientConfig config, std::shared_ptr<const SecretKey> key,
                std::string node = "");
  // Finds the service. Throws Error in one line if there is none, or more than one.
  static ControlClient Find(const ControlTarget& target);

  // Sends a signed request and returns the response, whatever its status. Throws Error if there is
  // none. `request.target`: a path such as "/v1/status".
  HttpResponse Send(HttpRequest request) const;
  // The body of the response. Throws Error with the problem if the status is 400 or more.
  std::string Get(const std::string& path) const;
  std::string Post(const std::string& path, const std::string& body = "") const;
  control_api::Status Status() const;
  // Until `on_event` returns false, or the run's process ends.
  void Events(const OnHttpEvent& on_event) const;

  const HttpAddress& address() const { return address_; }
  // The tokens of the service (control/access.h). Throw Error without a key.
  std::string control_token() const;
  std::string read_token() const;

 private:
  HttpRequest Signed(HttpRequest request) const;
  const SecretKey& key() const;

  const HttpAddress address_;
  const HttpClientConfig config_;
  const std::shared_ptr<const SecretKey> key_;
  const std::string node_;
};

// Keys can only be moved; this is a copy to share.
std::shared_ptr<const SecretKey> SharedKey(const SecretKey& key);

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_CONTROL_CLIENT_H_
