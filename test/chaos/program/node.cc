#include "test/chaos/program/node.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "weights/shm_file.h"

namespace millrace::test {
namespace {

// Memory growth is checked once a process has this many samples. The maximum of the second half may
// exceed that of the first half by this factor plus this constant.
constexpr size_t kLooksToJudge = 600;
constexpr double kGrowthFactor = 1.25, kGrowthMib = 24;

double RssMib(pid_t pid) {
  std::ifstream file(StrCat("/proc/", pid, "/statm"));
  double size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

}  // namespace

ChaosNode::ChaosNode(const Network& network, int machine, std::vector<std::string> command,
                     std::string folder)
    : network_(network),
      machine_(machine),
      name_(1, static_cast<char>('a' + machine)),
      command_(std::move(command)),
      folder_(std::move(folder)),
      shm_(StrCat("millrace_chaos_", getpid(), "_", name_)) {}

ChaosNode::~ChaosNode() {
  if (running()) {
    Kill();
    waitpid(pid_, nullptr, 0);
    Ended();
  }
  replica_.reset();
  RemoveSharedMemory(last_pid_);
}

// Only for processes that have exited; a process that exits cleanly leaves no files.
void ChaosNode::RemoveSharedMemory(pid_t pid) const {
  std::error_code ignored;
  std::filesystem::remove(ShmPath(shm_), ignored);
  std::filesystem::remove(StrCat("/dev/shm/millrace_counters.", pid), ignored);
}

void ChaosNode::Start(int64_t clock_shift) {
  RemoveSharedMemory(last_pid_);
  replica_.reset();
  view_ = {};
  rss_mib_.clear();
  frozen_ = stopping_ = false;
  std::ofstream(log_path(), std::ios::app)
      << "== start " << ++starts_ << " of node " << name_ << "\n";
  log_begin_ = std::filesystem::file_size(log_path());
  network_.Inside(machine_, [&] {
    // A signal sent before the program installs its handlers must not be lost: blocked, it stays
    // pending.
    sigset_t stops, before;
    sigemptyset(&stops);
    for (const int signal : {SIGINT, SIGTERM}) sigaddset(&stops, signal);
    pthread_sigmask(SIG_BLOCK, &stops, &before);
    pid_ = fork();
    if (pid_ == 0) Exec(clock_shift);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  });
  if (pid_ < 0) throw Error("fork: ", ErrnoText(errno));
  last_pid_ = pid_;
  joining_since_ = std::chrono::steady_clock::now();
  join_met_fault_ = false;
}

std::optional<JoinTime> ChaosNode::TakeJoin() {
  if (!joining_since_ || !running() || !view_.in_sync) return std::nullopt;
  const auto since = *std::exchange(joining_since_, std::nullopt);
  return JoinTime{std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count(),
                  join_met_fault_};
}

void ChaosNode::Exec(int64_t clock_shift) const {
  const auto open_to = [](const std::string& path, int as) {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(fd, as);
  };
  open_to(folder_ + "/" + name_ + ".out", 1);
  open_to(log_path(), 2);
  dup2(open("/dev/null", O_RDONLY), 0);
  setpriority(PRIO_PROCESS, 0, 0);
  setenv("TZ", ":/etc/localtime", 0);
  if (clock_shift != 0) {
    const char* const build = getenv("BUILD");
    setenv("LD_PRELOAD", StrCat(build ? build : "build", "/test/set_clock.so").c_str(), 1);
    setenv("CLOCK_SHIFT_SECONDS", std::to_string(clock_shift).c_str(), 1);
  }
  std::vector<std::string> arguments = command_;
  for (const std::string& each : MoreArguments()) arguments.push_back(each);
  std::vector<char*> argv;
  for (std::string& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

void ChaosNode::Signal(int signal) {
  if (!running()) return;
  kill(pid_, signal);
  if (signal == SIGSTOP) frozen_ = true;
  if (signal == SIGCONT) frozen_ = false;
  if (signal != SIGTERM) return;
  stopping_ = true;
  stop_time_ = std::chrono::steady_clock::now();
}

double ChaosNode::StoppingFor() const {
  if (!stopping_) return 0;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - stop_time_).count();
}

void ChaosNode::Kill() {
  Signal(SIGKILL);
  killed_ = true;
  stopping_ = false;
}

std::optional<int> ChaosNode::Reap() {
  int status = 0;
  if (!running() || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  Ended();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void ChaosNode::Ended() {
  JudgeMemory();
  pid_ = -1;
  was_stopped_ = stopping_;
  was_killed_ = killed_;
  frozen_ = stopping_ = killed_ = false;
}

void ChaosNode::JudgeMemory() {
  if (rss_mib_.size() < kLooksToJudge) return;
  // Skips the first tenth, in which the process builds the net and joins.
  const auto begin = rss_mib_.begin() + static_cast<std::ptrdiff_t>(rss_mib_.size() / 10);
  const auto middle = begin + (rss_mib_.end() - begin) / 2;
  const double first = *std::max_element(begin, middle);
  const double second = *std::max_element(middle, rss_mib_.end());
  if (second <= kGrowthFactor * first + kGrowthMib) return;
  growth_ = StrCat("the memory of node ", name_, " grew from ", first, " to ", second, " MiB");
}

void ChaosNode::Update(const std::vector<CounterFileReading>& counter_files) {
  for (const CounterFileReading& counter_file : counter_files) {
    if (counter_file.pid != pid_) continue;
    view_.members = static_cast<int>(counter_file.Value("segment lan", "members"));
    view_.in_sync = counter_file.Value("segment lan", "in_sync") != 0;
    view_.is_leader = counter_file.Value("segment lan", "is_leader") != 0;
  }
  if (running()) {
    const double rss = RssMib(pid_);
    most_rss_mib_ = std::max(most_rss_mib_, rss);
    // A node that still waits for the weights of the run has allocated little, so it is not
    // sampled.
    if (view_.in_sync) rss_mib_.push_back(rss);
    // A frozen process may hold the lock that attaching takes.
    if (!replica_ && view_.members > 0 && !frozen_) Attach();
  }
  if (!replica_) return;
  view_.global = replica_->clock().global();
  view_.own = replica_->clock().own();
}

void ChaosNode::Attach() {
  JoinWait wait;
  wait.timeout_seconds = 0;
  try {
    replica_ = WeightBuffer::AttachReader(shm_, nullptr, wait);
  } catch (const Error&) {
    // The process has just exited.
  }
}

std::vector<float> ChaosNode::Replica() const {
  if (!replica_) return {};
  return {replica_->data(), replica_->data() + replica_->size()};
}

bool ChaosNode::LeavesFiles() const {
  return !running() && (FileExists(ShmPath(shm_)) ||
                        FileExists(StrCat("/dev/shm/millrace_counters.", last_pid_)));
}

std::string ChaosNode::Log() const { return ReadFile(log_path()).substr(log_begin_); }

}  // namespace millrace::test
