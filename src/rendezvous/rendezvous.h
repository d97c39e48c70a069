// A node's connection to the registry of its run: registers the node, and in a thread keeps the
// registration while the run goes on.
#ifndef MILLRACE_RENDEZVOUS_RENDEZVOUS_H_
#define MILLRACE_RENDEZVOUS_RENDEZVOUS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/threads/thread.h"
#include "millrace/node_id.h"
#include "rendezvous/registration.h"
#include "rendezvous/registry_store.h"

namespace millrace::inline rendezvous {

// How a user names a run and its registry.
struct RendezvousOptions {
  std::string url = "";            // SCHEME://HOST:PORT[,HOST:PORT...]/RUN[?lease=10&restart=60...]
  std::string nodes = "";          // "MIN:MAX", or "MAX" for 1:MAX
  std::string user = "";           // of the registry; "": none
  std::string password_file = "";  // of the user
  std::string authorities = "";  // PEM file that the registry's certificate is checked by, for TLS
  std::string address = "";      // of this node; "": that from which it reaches the registry
  // "host:port" where this node's control service listens; "": none. Registered if other nodes
  // reach it; any address stands for `address`. Replaces that of the URL (control=).
  std::string control = "";
};

// The parsed form.
struct RendezvousConfig {
  std::string scheme, run;             // run: 1 to 64 letters, digits, '-', '_' or '.'
  std::vector<std::string> endpoints;  // "host:port", at least one
  int min_nodes = 1, max_nodes = 2;
  int64_t lease_seconds = 10, restart_seconds = -1;  // restart: -1: never
  std::string user, password_file, authorities, address, control;
};
// Throws Error with one line that names the option.
RendezvousConfig ParseRendezvous(const RendezvousOptions& options);
// Whether all endpoints of the registry are loopback addresses, so that the run is of this machine.
bool IsOfThisMachine(const RendezvousConfig& config);

// Reads the registry once, without a registration. `options.nodes` is ignored. Throws Error with
// one line, also if there is no answer.
RegistryView ReadRegistry(RendezvousOptions options);

// Makes the store of a scheme. Throws Error with one line.
using StoreFactory = std::function<std::unique_ptr<RegistryStore>(const RendezvousConfig&)>;
// Registers it; define one at namespace scope.
struct RegisterStore {
  RegisterStore(const std::string& scheme, StoreFactory factory);
};

// What a rendezvous needs of the node's cluster. Thread-safe functions.
struct RendezvousPeers {
  std::function<void(NodeId node, const std::string& address)> set_address;
  std::function<void()> allow_bootstrap;       // called once
  std::function<bool()> begun;                 // this node has the run's weights
  std::function<std::vector<NodeId>()> heard;  // sent frames since the last call
  // The run has ended before this node had its weights. Called again and again.
  std::function<void()> run_ended;
  std::function<void(const std::string& line)> fail;  // this node has to end
};

// One thread at a time calls it.
class Rendezvous {
 public:
  // Waits in a call for some milliseconds; true: the user wants to stop.
  using Pause = std::function<bool(int milliseconds)>;

  // Registers this node, and waits until it has an id. Throws Error with one line, also if `pause`
  // returns true. `store`: null: that of the scheme.
  Rendezvous(const RendezvousConfig& config, const Pause& pause,
             std::unique_ptr<RegistryStore> store = nullptr);
  // As Leave.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  NodeId node() const { return node_; }
  const std::string& address() const { return config_.address; }  // of this node
  const RendezvousConfig& config() const { return config_; }

  // From now until Detach calls the functions of `peers` from a thread.
  void Attach(RendezvousPeers peers);
  void Detach();
  // Ends the registration. `completed`: the run is complete, for this node and all others. Blocks
  // for some seconds at most.
  void Leave(bool completed = false);

 private:
  void Serve();
  void Follow();
  void LogLines();

  RendezvousConfig config_;
  const SteadyClock clock_;
  std::unique_ptr<RegistryStore> store_;
  std::unique_ptr<Registration> registration_;  // after the constructor for the thread only
  NodeId node_ = 0;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::optional<RendezvousPeers> peers_;
  bool has_begun_ = false, has_allowed_ = false, leaving_ = false, completed_ = false;
  std::vector<std::string> told_;  // addresses that peers_ has, by id
  ErrorSink errors_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace millrace::inline rendezvous

#endif  // MILLRACE_RENDEZVOUS_RENDEZVOUS_H_
