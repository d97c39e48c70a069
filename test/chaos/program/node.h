// One node of a cluster under faults: the process `millrace train`, started as often as it has to
// be, its logs, what it shows of itself, and its replica.
#ifndef MILLRACE_TEST_CHAOS_PROGRAM_NODE_H_
#define MILLRACE_TEST_CHAOS_PROGRAM_NODE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metrics/counter_file.h"
#include "test/netns/network.h"
#include "weights/weight_buffer.h"

namespace millrace::test {

// What the node's process last said of itself, while it ran.
struct NodeView {
  int members = 0;  // 0: it is not known yet
  bool in_sync = false, is_leader = false;
  int64_t global = -1;  // iterations of the run; -1: not known yet
  int64_t own = 0;      // of them done here, by this process
};

class ChaosNode {
 public:
  // `command`: what is run on that machine, without --shm. Its output is appended to
  // FOLDER/NAME.out and FOLDER/NAME.log.
  ChaosNode(const Network& network, int machine, std::vector<std::string> command,
            std::string folder);
  // Kills a process that still runs, and removes what it leaves in shared memory.
  ~ChaosNode();
  ChaosNode(const ChaosNode&) = delete;
  ChaosNode& operator=(const ChaosNode&) = delete;

  const std::string& name() const { return name_; }
  std::string log_path() const { return folder_ + "/" + name_ + ".log"; }
  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0; }
  bool frozen() const { return frozen_; }
  // It runs still, but was sent a signal that ends it.
  bool ending() const { return stopping_ || killed_; }
  int starts() const { return starts_; }

  // Not while it runs. `clock_shift`: seconds that its wall clock is off.
  void Start(int64_t clock_shift = 0);
  void Signal(int signal);
  // Does not wait for the end: a kernel that is busy takes seconds to close a packet socket.
  void Kill();
  // Exit status, or 128 + n after signal n, of a process that has ended since the last call.
  std::optional<int> Reap();
  // Whether the process that was reaped last had been sent SIGTERM.
  bool was_stopped() const { return was_stopped_; }
  // Or had been killed.
  bool was_killed() const { return was_killed_; }
  // Seconds since the process was sent SIGTERM, which it has not obeyed yet; 0: it was sent none.
  double StoppingFor() const;

  // Reads what the process shows now, of one that has ended its last counts; `boards` are those
  // of all processes.
  void Look(const std::vector<CounterFileReading>& counter_files);
  const NodeView& view() const { return view_; }
  // The weights of the process, also after its end; empty if they were never to be seen.
  std::vector<float> Replica() const;

  // What was wrong with how the memory of any process of this node grew; "" if nothing was.
  const std::string& growth() const { return growth_; }
  double most_rss_mib() const { return most_rss_mib_; }
  // Whether the newest process has left files in shared memory behind.
  bool LeavesFiles() const;
  // Text that the newest process has logged so far.
  std::string Log() const;

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
  const std::string shm_;  // where its weights are in shared memory
  pid_t pid_ = -1, last_pid_ = -1;
  int starts_ = 0;
  size_t log_begin_ = 0;  // where the newest process's text begins
  bool frozen_ = false, stopping_ = false, killed_ = false;
  bool was_stopped_ = false, was_killed_ = false;
  std::chrono::steady_clock::time_point stop_time_;
  NodeView view_;
  std::unique_ptr<WeightBuffer> replica_;
  std::vector<double> rss_mib_;  // of this process, one a look
  double most_rss_mib_ = 0;
  std::string growth_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CHAOS_PROGRAM_NODE_H_
