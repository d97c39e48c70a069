// Runs the nodes of a cluster: shows their output, starts again what dies, and ends all together.
#ifndef MILLRACE_CONTROL_LAUNCH_LAUNCHER_H_
#define MILLRACE_CONTROL_LAUNCH_LAUNCHER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/launch/child_process.h"
#include "control/launch/node_commands.h"
#include "train/run_control.h"

namespace millrace::inline control {

struct LauncherConfig {
  int restarts = 3;            // of each node
  double restart_seconds = 1;  // before the first; twice as long before each further one
  double stop_seconds = 60;    // after a stop; then nodes are killed
};

// Not thread-safe.
class Launcher {
 public:
  // `line` receives each line of output: a node's, with its name in front, or the launcher's own;
  // `is_error`: it is not of a standard output. `control` gives stops: the first asks the nodes to
  // stop, the second kills them. Everything outlives this object.
  using OnLine = std::function<void(bool is_error, const std::string& line)>;
  Launcher(const LauncherConfig& config, std::vector<NodeCommand> commands, RunControl* control,
           const Clock* clock, OnLine line);

  // Starts all nodes and returns when none runs and none is to be started again: 0 if the last
  // process of each ended with status 0, else 1. Throws Error if a program cannot be started.
  int Run();

 private:
  struct Node {
    NodeCommand command;
    size_t width = 0;
    std::unique_ptr<ChildProcess> process = {};  // null: does not run
    struct Stream {
      std::string begun = {};  // line
      bool is_open = false;
    };
    Stream output = {}, errors = {};
    int restarts = 0;
    double start_at = 0;      // when it is started next; no process
    bool is_waiting = false;  // for that
    int status = 0;           // of the last process
  };

  void Start(Node* node);
  void ReadAll(Node* node);
  void Read(const Node& node, int fd, bool is_error, Node::Stream* stream);
  void OnEnd(Node* node, int status);
  void TakeStop();
  void Say(const std::string& text) { line_(true, "launch: " + text); }
  void Await();

  const LauncherConfig config_;
  std::vector<Node> nodes_;
  RunControl& control_;
  const Clock& clock_;
  const OnLine line_;
  int stops_ = 0;
  double stopped_at_ = 0;
};

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_LAUNCH_LAUNCHER_H_
