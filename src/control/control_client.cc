#include "control/control_client.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "control/access.h"
#include "control/cluster_addresses.h"
#include "control/run_report.h"
#include "segment/auth/key_file.h"

namespace millrace::inline control {
namespace {

std::string NameOf(const Endpoint& endpoint) {
  return StrCat(endpoint.address.text(), " (process ", endpoint.pid,
                endpoint.node.empty() ? "" : ", node " + endpoint.node, ", ", endpoint.solver, ")");
}

// The only one of them.
const Endpoint& OnlyOne(const std::vector<Endpoint>& endpoints) {
  if (endpoints.empty()) {
    throw Error("no run of this user on this machine has a control service; expected one that was ",
                "started with --control, or --control=HOST:PORT here");
  }
  if (endpoints.size() == 1) return endpoints.front();
  std::string list;
  for (const Endpoint& each : endpoints) list += (list.empty() ? "" : ", ") + NameOf(each);
  throw Error("several runs have a control service, expected --control of one of them: ", list);
}

const Endpoint* AtAddress(const std::vector<Endpoint>& endpoints, const HttpAddress& address) {
  const auto found = std::find_if(endpoints.begin(), endpoints.end(), [&](const Endpoint& each) {
    return each.address.text() == address.text();
  });
  return found == endpoints.end() ? nullptr : &*found;
}

HttpResponse CheckStatus(HttpResponse response) {
  if (response.status < 400) return response;
  control_api::Problem problem;
  ReadJson(response.body, StrCat("status ", response.status), &problem);
  if (problem.has_error()) throw Error(problem.error());
  throw Error("the control service answered with status ", response.status);
}

}  // namespace

std::shared_ptr<const SecretKey> SharedKey(const SecretKey& key) {
  auto copy = std::make_shared<SecretKey>();
  std::copy(key.bytes().begin(), key.bytes().end(), copy->bytes().begin());
  return copy;
}

ControlClient::ControlClient(HttpAddress address, HttpClientConfig config,
                             std::shared_ptr<const SecretKey> key, std::string node)
    : address_(std::move(address)),
      config_(std::move(config)),
      key_(std::move(key)),
      node_(std::move(node)) {}

ControlClient ControlClient::Find(const ControlTarget& target) {
  HttpClientConfig config{.tls = target.tls, .authorities = target.authorities};
  const ClusterAddresses cluster = ReadClusterAddresses(target.topology, "", false);
  const std::string key_file = target.key_file.empty() ? cluster.key_file : target.key_file;
  std::shared_ptr<const SecretKey> key;
  if (!key_file.empty()) key = std::make_shared<SecretKey>(ControlKey(ReadKeyFile(key_file)));
  std::string address = target.address, node = target.node;
  if (address.empty() && !target.topology.empty()) {
    if (node.empty()) throw Error("--topology: expected --node too, or --control");
    address = cluster.AddressOf(node);
    node.clear();
    if (address.empty()) {
      throw Error("node \"", target.node, "\" has no control service: its `control` in ",
                  target.topology, " is missing");
    }
  }
  const std::vector<Endpoint> endpoints = FindEndpoints();
  const Endpoint* endpoint = nullptr;
  if (!address.empty()) {
    endpoint = AtAddress(endpoints, ExpectHttpAddress(address));
  } else {
    const auto own = std::find_if(endpoints.begin(), endpoints.end(), [&](const Endpoint& each) {
      return !node.empty() && each.node == node;
    });
    endpoint = own != endpoints.end() ? &*own : &OnlyOne(endpoints);
    if (endpoint->node == node) node.clear();
  }
  if (endpoint == nullptr) return {ExpectHttpAddress(address), config, key, node};
  config.tls = config.tls || endpoint->tls;
  return {endpoint->address, config, key ? key : SharedKey(endpoint->key), node};
}

HttpRequest ControlClient::Signed(HttpRequest request) const {
  constexpr std::string_view kRoot = "/v1/";
  if (!node_.empty()) {
    request.target = StrCat("/v1/nodes/", node_, "/",
                            request.target.starts_with(kRoot) ? request.target.substr(kRoot.size())
                                                              : request.target.substr(1));
  }
  if (key_) Sign(*key_, static_cast<int64_t>(UnixSeconds()), DrawNonce(SystemRandom), &request);
  return request;
}

HttpResponse ControlClient::Send(HttpRequest request) const {
  return SendHttp(config_, address_, Signed(std::move(request)));
}

std::string ControlClient::Get(const std::string& path) const {
  return CheckStatus(Send({.method = "GET", .target = path})).body;
}

std::string ControlClient::Post(const std::string& path, const std::string& body) const {
  return CheckStatus(Send({.method = "POST", .target = path, .body = body})).body;
}

control_api::Status ControlClient::Status() const {
  control_api::Status status;
  ReadJson(Get("/v1/status"), "control service at " + address_.text(), &status);
  return status;
}

void ControlClient::Events(const OnHttpEvent& on_event) const {
  CheckStatus(ReadHttpEvents(config_, address_, Signed({.target = "/v1/events"}), on_event));
}

const SecretKey& ControlClient::key() const {
  if (!key_) throw Error("expected --key_file, or a run of this user on this machine");
  return *key_;
}

std::string ControlClient::control_token() const { return ControlToken(key()); }
std::string ControlClient::read_token() const { return ReadToken(key()); }

}  // namespace millrace::inline control
