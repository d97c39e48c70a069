#include <glog/logging.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/registration.h"
#include "base/threads/queue.h"
#include "base/threads/thread.h"
#include "control/access.h"
#include "control/api.h"
#include "control/cluster_addresses.h"
#include "control/commands.h"
#include "control/control_client.h"
#include "control/endpoint_file.h"
#include "control/http_server.h"
#include "millrace/control.h"
#include "millrace/run.h"

namespace millrace {
namespace {

using Task = std::function<void()>;

// Threads that run tasks in the order of their start. The destructor waits for those that have
// begun.
class Background {
 public:
  static constexpr size_t kMaxWaiting = 64;

  Background(const std::string& name, int threads) {
    for (int i = 0; i < threads; ++i) {
      threads_.push_back(std::make_unique<Thread>(
          StrCat(name, "-", i), [this] { Run(); }, &sink_));
    }
  }
  ~Background() {
    waiting_.Close();
    while (waiting_.TryPop()) {
    }
    for (auto& thread : threads_) thread->Join();
  }

  // False if too many wait. One thread at a time calls it.
  bool Start(Task task) { return waiting_.size() < kMaxWaiting && waiting_.Push(std::move(task)); }

 private:
  void Run() {
    while (std::optional<Task> task = waiting_.Pop()) (*task)();
  }

  ErrorSink sink_;  // tasks throw nothing
  BoundedQueue<Task> waiting_{kMaxWaiting};
  std::vector<std::unique_ptr<Thread>> threads_;
};

// A client with the cluster's key, or with that of the run at the address, if it is this user's on
// this machine.
ControlClient ClientOf(const ControlOptions& options, std::shared_ptr<const SecretKey> cluster_key,
                       const std::string& address) {
  const HttpClientConfig client{
      .tls = !options.certificate.empty(), .authorities = options.authorities, .seconds = 5};
  if (cluster_key) return {ExpectHttpAddress(address), client, std::move(cluster_key)};
  return ControlClient::Find(
      {.address = address, .tls = client.tls, .authorities = client.authorities});
}

}  // namespace

class ControlService::Impl {
 public:
  Impl(const ControlOptions& options, RunHandle* run)
      : options_(options),
        from_(ReadClusterAddresses(options.topology, options.node, true)),
        run_(*run) {
    CheckRegistrations();
    CheckFiles();
    const std::string key_file = options.key_file.empty() ? from_.key_file : options.key_file;
    const bool has_cluster_key = !key_file.empty();
    const SecretKey key = ControlKeyOf(key_file);
    if (has_cluster_key) cluster_key_ = SharedKey(key);
    std::string given = options.address;
    if (given.empty() && !from_.nodes.empty()) given = from_.AddressOf(from_.node);
    if (given.empty()) given = "127.0.0.1:0";
    HttpServerConfig server{.address = ExpectHttpAddress(given),
                            .certificate = options.certificate,
                            .private_key = options.private_key,
                            .metrics = options.metrics};
    access_.emplace(
        key, AccessCheck::AddressOf(server.address, !options.certificate.empty(), has_cluster_key));
    identity_ = {.node = from_.node, .cluster = from_.cluster, .solver = options.solver};
    api_.emplace(ApiConfig(), &run_, &*access_);
    server_.emplace(
        server, [this](HttpRequest request, const HttpDone& done) { api_->Handle(request, done); },
        [this] {
          RunStatus status = run_.status();
          api_->Follow(status);
          std::string json = JsonOf(StatusMessage(identity_, status));
          return std::pair(std::move(status), std::move(json));
        });
    Announce(key);
  }

  // Stops the server first: it uses the others.
  ~Impl() { server_->Stop(); }

  std::string url() const { return server_->url(); }

 private:
  void CheckFiles() const {
    if (options_.certificate.empty() != options_.private_key.empty()) {
      throw Error("control service: a certificate and its private key are given together");
    }
  }

  ControlApiConfig ApiConfig() {
    return {.identity = identity_,
            .commands = CommandsOf(options_.commands),
            .nodes = from_.nodes,
            .find_nodes = options_.rendezvous.empty() ? nullptr : FindNodes(),
            .metrics = options_.metrics,
            .unix_seconds = UnixSeconds,
            .start_command = [this](Task task) { return commands_.Start(std::move(task)); },
            .start_forward = [this](Task task) { return forwards_.Start(std::move(task)); },
            .send =
                [this](const std::string& address, HttpRequest request) {
                  return ClientOf(options_, cluster_key_, address).Send(std::move(request));
                }};
  }

  // Reads the registry once in a second at most, however many requests come.
  std::function<NodeAddresses()> FindNodes() {
    return [this] {
      std::lock_guard lock(nodes_mutex_);
      const int64_t now = clock_.NowNs();
      if (nodes_ns_ < 0 || now - nodes_ns_ > 1'000'000'000) {
        found_nodes_ = ReadElasticAddresses({.url = options_.rendezvous,
                                             .user = options_.rendezvous_user,
                                             .password_file = options_.rendezvous_password_file,
                                             .authorities = options_.authorities});
        nodes_ns_ = clock_.NowNs();
      }
      return found_nodes_;
    };
  }

  void Announce(const SecretKey& key) {
    try {
      Endpoint endpoint{.address = server_->address(),
                        .tls = !options_.certificate.empty(),
                        .node = options_.node,
                        .solver = options_.solver};
      std::copy(key.bytes().begin(), key.bytes().end(), endpoint.key.bytes().begin());
      file_.emplace(endpoint);
    } catch (const Error& error) {
      LOG(WARNING) << "millrace ctl will not find this run by itself: " << error.what();
    }
  }

  const ControlOptions options_;
  const ClusterAddresses from_;
  RunHandle& run_;
  RunIdentity identity_;
  std::shared_ptr<const SecretKey> cluster_key_;  // null: none
  std::optional<AccessCheck> access_;
  std::optional<ControlApi> api_;
  std::optional<EndpointFile> file_;
  std::optional<HttpServer> server_;
  const SteadyClock clock_;
  std::mutex nodes_mutex_;  // guards the nodes of the registry, and when they were read
  NodeAddresses found_nodes_;
  int64_t nodes_ns_ = -1;
  Background commands_{"commands", 1}, forwards_{"forwards", 4};
};

ControlService::ControlService(const ControlOptions& options, RunHandle* run)
    : impl_(std::make_unique<Impl>(options, run)) {}

ControlService::~ControlService() = default;

std::string ControlService::url() const { return impl_->url(); }

}  // namespace millrace
