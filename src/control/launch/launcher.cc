#include "control/launch/launcher.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace millrace::inline control {
namespace {

std::string Describe(int status) {
  return status > 128 ? StrCat("was ended by signal ", status - 128)
                      : StrCat("ended with status ", status);
}

}  // namespace

Launcher::Launcher(const LauncherConfig& config, std::vector<NodeCommand> commands,
                   RunControl* control, const Clock* clock, OnLine line)
    : config_(config), control_(*control), clock_(*clock), line_(std::move(line)) {
  size_t width = 0;
  for (const NodeCommand& each : commands) width = std::max(width, each.node.size());
  for (NodeCommand& each : commands) nodes_.push_back({.command = std::move(each), .width = width});
}

int Launcher::Run() {
  for (Node& node : nodes_) Start(&node);
  for (bool goes_on = true; goes_on;) {
    Await();
    TakeStop();
    goes_on = false;
    for (Node& node : nodes_) {
      if (node.process) {
        const std::optional<int> status = node.process->Ended();
        ReadAll(&node);
        if (status) OnEnd(&node, *status);
      }
      if (node.is_waiting && clock_.NowSeconds() >= node.start_at) Start(&node);
      goes_on |= node.process || node.is_waiting;
    }
  }
  const auto has_failed = [](const Node& node) { return node.status != 0; };
  return std::any_of(nodes_.begin(), nodes_.end(), has_failed) ? 1 : 0;
}

void Launcher::Start(Node* node) {
  node->is_waiting = false;
  node->process = std::make_unique<ChildProcess>(node->command.command);
  node->output.is_open = node->errors.is_open = true;
}

void Launcher::ReadAll(Node* node) {
  Read(*node, node->process->output(), false, &node->output);
  Read(*node, node->process->errors(), true, &node->errors);
}

void Launcher::Read(const Node& node, int fd, bool is_error, Node::Stream* stream) {
  const std::string& name = node.command.node;
  const std::string begin = name + std::string(node.width - name.size(), ' ') + " | ";
  std::string& begun = stream->begun;
  char bytes[4096];
  ssize_t got = 0;
  while ((got = read(fd, bytes, sizeof(bytes))) > 0) {
    begun.append(bytes, static_cast<size_t>(got));
    for (size_t end; (end = begun.find('\n')) != std::string::npos; begun.erase(0, end + 1)) {
      line_(is_error, begin + begun.substr(0, end));
    }
  }
  if (got == 0) stream->is_open = false;
  if (begun.empty() || (stream->is_open && !node.process->Ended())) return;
  line_(is_error, begin + begun);
  begun.clear();
}

void Launcher::OnEnd(Node* node, int status) {
  node->process.reset();
  node->status = status;
  if (status == 0) return;
  const std::string what = StrCat("node ", node->command.node, " ", Describe(status));
  if (stops_ > 0) return Say(what);
  if (node->restarts >= config_.restarts) {
    return Say(StrCat(what, " and is not started again, after ", node->restarts, " times"));
  }
  const double seconds = config_.restart_seconds * std::exp2(node->restarts++);
  node->is_waiting = true;
  node->start_at = clock_.NowSeconds() + seconds;
  Say(StrCat(what, "; starts again in ", seconds, " s (", node->restarts, " of ", config_.restarts,
             " times)"));
}

void Launcher::TakeStop() {
  if (stops_ >= 2) return;
  const bool is_late = stops_ == 1 && clock_.NowSeconds() > stopped_at_ + config_.stop_seconds;
  if (control_.Next(0) != RunCommand::kStop && !is_late) return;
  if (++stops_ == 1) {
    stopped_at_ = clock_.NowSeconds();
    Say("stopping all nodes; a second Ctrl-C kills them");
  } else {
    Say(is_late ? "killing the nodes that still run" : "killing all nodes");
  }
  for (Node& node : nodes_) {
    if (node.is_waiting) node.status = node.is_waiting = false;
    if (!node.process) continue;
    if (stops_ == 1 && node.command.stops_by_input) {
      node.process->CloseInput();
    } else {
      node.process->Signal(stops_ == 1 ? SIGINT : SIGKILL);
    }
  }
}

// Waits for output, for at most 50 ms.
void Launcher::Await() {
  std::vector<pollfd> waited;
  for (const Node& node : nodes_) {
    if (!node.process) continue;
    if (node.output.is_open) waited.push_back({node.process->output(), POLLIN, 0});
    if (node.errors.is_open) waited.push_back({node.process->errors(), POLLIN, 0});
  }
  poll(waited.data(), waited.size(), 50);
}

}  // namespace millrace::inline control
