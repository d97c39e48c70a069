// What the control service answers to each request (docs/control.md), apart from sockets.
#ifndef MILLRACE_CONTROL_API_H_
#define MILLRACE_CONTROL_API_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "control/access.h"
#include "control/cluster_addresses.h"
#include "control/health.h"
#include "control/http_message.h"
#include "control/run_history.h"
#include "control/run_report.h"
#include "millrace/control.h"
#include "millrace/metrics.h"
#include "millrace/run.h"

namespace millrace::inline control {

struct ControlApiConfig {
  RunIdentity identity = {};
  std::vector<ControlCommand> commands = {};
  // The nodes of the cluster, in the order of the topology.
  NodeAddresses nodes = {};
  // In place of these, where nodes come and go. Called in the background. Throws Error. Null: none.
  std::function<NodeAddresses()> find_nodes = {};
  MetricsRegistry* metrics = nullptr;  // null: none
  std::function<double()> unix_seconds = {};
  // Call a function later, in other threads than the caller's: commands one at a time. False: too
  // many wait.
  std::function<bool(std::function<void()>)> start_command = {}, start_forward = {};
  // Sends a request to a node's control service and waits for the answer. Throws Error.
  std::function<HttpResponse(const std::string& address, HttpRequest)> send = {};
};

// Handle is called by one thread at a time.
class ControlApi {
 public:
  // `run` and `access` outlive this object.
  ControlApi(ControlApiConfig config, RunHandle* run, AccessCheck* access);

  // Follows the run: keeps its history and health. Called about ten times a second, by the thread
  // that calls Handle.
  void Follow(const RunStatus& status);
  // Answers a request, as HttpHandler. What takes long calls `done` in the background.
  void Handle(const HttpRequest& request, const HttpDone& done);

  struct Route {
    const char* method;
    const char* path;  // a last part of "{...}" stands for the rest of the path
    Access access;
    const char* summary;
    void (ControlApi::*answer)(const HttpRequest& request, const std::string& rest,
                               const HttpDone& done);
    const char* input;   // message of control.proto that the body is; "": none; "*": any JSON
    const char* output;  // that of the response, in the same way
  };
  static const std::vector<Route>& Routes();

 private:
  void Status(const HttpRequest&, const std::string&, const HttpDone&);
  void TrainerStatus(const HttpRequest&, const std::string&, const HttpDone&);
  void History(const HttpRequest&, const std::string&, const HttpDone&);
  void Health(const HttpRequest&, const std::string&, const HttpDone&);
  void Page(const HttpRequest&, const std::string&, const HttpDone&);
  void PageFile(const HttpRequest&, const std::string&, const HttpDone&);
  void Metrics(const HttpRequest&, const std::string&, const HttpDone&);
  void OpenMetrics(const HttpRequest&, const std::string&, const HttpDone&);
  void Events(const HttpRequest&, const std::string&, const HttpDone&);
  void Nodes(const HttpRequest&, const std::string&, const HttpDone&);
  void Forward(const HttpRequest&, const std::string&, const HttpDone&);
  void Commands(const HttpRequest&, const std::string&, const HttpDone&);
  void Call(const HttpRequest&, const std::string&, const HttpDone&);
  void Pause(const HttpRequest&, const std::string&, const HttpDone&);
  void Resume(const HttpRequest&, const std::string&, const HttpDone&);
  void Snapshot(const HttpRequest&, const std::string&, const HttpDone&);
  void Test(const HttpRequest&, const std::string&, const HttpDone&);
  void Stop(const HttpRequest&, const std::string&, const HttpDone&);
  void LearningRate(const HttpRequest&, const std::string&, const HttpDone&);
  void OpenApi(const HttpRequest&, const std::string&, const HttpDone&);
  // Calls `work`, which may block, by start_forward. Answers with its Error, or that too many wait.
  void InBackground(const HttpDone& done, std::function<void()> work);
  // The answer of node `name` to a request, or that `nodes` has no service of this name. Blocks.
  // Throws Error that names the node.
  HttpResponse Send(const NodeAddresses& nodes, const std::string& name,
                    const HttpRequest& request) const;
  // Answers a request whose function was not started.
  static void Busy(const HttpDone& done);
  // Calls `request` of the run: done, or a conflict with what the run does.
  void Ask(const HttpDone& done, const std::function<void()>& request);

  const ControlApiConfig config_;
  RunHandle& run_;
  AccessCheck& access_;
  RunHistory history_;
  HealthMonitor health_;
  double health_at_ = 0;  // when the last metrics were added to it
  Counter *answered_ = nullptr, *refused_ = nullptr, *failed_ = nullptr;
};

// The description of Routes() in the form of OpenAPI 3.0, as JSON.
std::string OpenApiDocument();

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_API_H_
