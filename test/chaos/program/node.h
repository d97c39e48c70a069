// One node of a cluster under faults: its `millrace train` process, which is restarted as often as
// needed, its logs, its counter file and its replica.
#ifndef MILLRACE_TEST_CHAOS_PROGRAM_NODE_H_
#define MILLRACE_TEST_CHAOS_PROGRAM_NODE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/metrics.h"
#include "test/netns/network.h"
#include "weights/weight_buffer.h"

namespace millrace::test {

// Last state that the node's process published while it ran.
struct NodeView {
  int members = 0;  // 0: unknown
  bool in_sync = false, is_leader = false;
  int64_t global = -1;  // iterations of the run; -1: unknown
  int64_t own = 0;      // iterations that this process has contributed
};

// How long a process took from its start until it was in sync.
struct JoinTime {
  double seconds = 0;
  bool met_fault = false;  // a fault was active meanwhile, on any node or link
};

class ChaosNode {
 public:
  // `command` is the program to run on that machine, without --shm. Its output is appended to
  // FOLDER/NAME.out and FOLDER/NAME.log.
  ChaosNode(const Network& network, int machine, std::vector<std::string> command,
            std::string folder);
  // Kills a running process and removes its files in shared memory.
  virtual ~ChaosNode();
  ChaosNode(const ChaosNode&) = delete;
  ChaosNode& operator=(const ChaosNode&) = delete;

  const std::string& name() const { return name_; }
  std::string log_path() const { return folder_ + "/" + name_ + ".log"; }
  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0; }
  bool frozen() const { return frozen_; }
  // The process still runs but was sent a terminating signal.
  bool ending() const { return stopping_ || killed_; }
  int starts() const { return starts_; }

  // Precondition: the process is not running. `clock_shift`: offset of its wall clock in seconds.
  void Start(int64_t clock_shift = 0);
  virtual void Signal(int signal);
  // Does not wait for the exit: a busy kernel takes seconds to close a packet socket.
  void Kill();
  // Exit status of a process that has exited since the last call, or 128 + n after signal n.
  std::optional<int> Reap();
  // Whether the last reaped process had been sent SIGTERM.
  bool was_stopped() const { return was_stopped_; }
  // Whether the last reaped process had been killed.
  bool was_killed() const { return was_killed_; }
  // Seconds since the running process was sent SIGTERM; 0 if it was not.
  double StoppingFor() const;

  // Reads the current state of the process; after its exit the last state is kept. `counter_files`
  // holds the counter files of all processes.
  virtual void Update(const std::vector<CounterFileReading>& counter_files);
  const NodeView& view() const { return view_; }
  // Weights of the process, also after its exit; empty if the replica was never attached.
  std::vector<float> Replica() const;

  // Description of a memory leak in any process of this node; "" if none was found.
  const std::string& growth() const { return growth_; }
  double most_rss_mib() const { return most_rss_mib_; }
  // Whether the newest process has left files in shared memory.
  bool LeavesFiles() const;
  // Text that the newest process has logged so far.
  std::string Log() const;

  // A fault is active now, on any node or link.
  void NoteFault() { join_met_fault_ = true; }
  // Returns the time of the newest process once it is in sync, once; nothing before.
  std::optional<JoinTime> TakeJoin();

 protected:
  // Arguments of the program beside those of the command.
  virtual std::vector<std::string> MoreArguments() const { return {"--shm=" + shm_}; }

  NodeView view_;

 private:
  void Exec(int64_t clock_shift) const;
  void Ended();
  void JudgeMemory();
  void Attach();
  void RemoveSharedMemory(pid_t pid) const;

  const Network& network_;
  const int machine_;
  const std::string name_;
  const std::vector<std::string> command_;
  const std::string folder_;
  const std::string shm_;  // shared-memory name of its weights
  pid_t pid_ = -1, last_pid_ = -1;
  int starts_ = 0;
  size_t log_begin_ = 0;  // offset of the newest process's text in the log
  bool frozen_ = false, stopping_ = false, killed_ = false;
  bool was_stopped_ = false, was_killed_ = false;
  std::chrono::steady_clock::time_point stop_time_;
  std::optional<std::chrono::steady_clock::time_point> joining_since_;
  bool join_met_fault_ = false;
  std::unique_ptr<WeightBuffer> replica_;
  std::vector<double> rss_mib_;  // of this process, one value per Look
  double most_rss_mib_ = 0;
  std::string growth_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CHAOS_PROGRAM_NODE_H_
