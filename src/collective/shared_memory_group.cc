#include "collective/shared_memory_group.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/process_identity.h"
#include "millrace/file_descriptor.h"

namespace millrace::inline collective {
namespace {

constexpr int kMaxMembers = 64;
constexpr size_t kAlignment = 4096;

// In the shared memory; a file of zeros is its initial state.
struct Header {
  enum State : uint32_t { kAbsent, kJoining, kJoined, kLeft };

  std::atomic<uint64_t> layout;      // of size and floats, set by the first member
  std::atomic<uint32_t> arrived;     // members that wait at the barrier
  std::atomic<uint32_t> generation;  // barriers that have opened; a futex
  struct Member {
    std::atomic<uint32_t> state;
    ProcessIdentity process;
  } members[kMaxMembers];
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

constexpr char kPrefix[] = "millrace.group.";

// Whether the file `name` of shm_open is a group of this user, at least one of whose members has
// joined and none of which is running: they were killed before the others came.
bool IsAbandoned(const std::string& name) {
  const FileDescriptor file(shm_open(name.c_str(), O_RDONLY | O_CLOEXEC, 0));
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0 || status.st_uid != geteuid()) return false;
  if (status.st_size < static_cast<off_t>(sizeof(Header))) return false;  // being made
  void* const memory = mmap(nullptr, sizeof(Header), PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return false;
  bool joined = false, running = false;
  for (const Header::Member& member : static_cast<const Header*>(memory)->members) {
    const uint32_t state = member.state;
    joined |= state >= Header::kJoined;
    // One that is joining has not yet said which process it is.
    running |= state == Header::kJoining || (state == Header::kJoined && IsAlive(member.process));
  }
  munmap(memory, sizeof(Header));
  return joined && !running;
}

// Removes groups that nobody uses any more; else their memory would be lost until the next boot.
void RemoveAbandoned() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !IsAbandoned("/" + name)) continue;
    if (shm_unlink(("/" + name).c_str()) == 0) {
      LOG(INFO) << "Removed /dev/shm/" << name << ", whose processes were killed";
    }
  }
}

// Wakes all waiters of another process too.
void FutexWake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}
// Returns at a wake, after 10 ms, or if the word is no longer `value`.
void FutexWait(std::atomic<uint32_t>* word, uint32_t value) {
  const timespec timeout = {0, 10'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, value, &timeout, nullptr, 0);
}

class Group : public Collective {
 public:
  Group(const SharedMemoryGroupOptions& options, const std::function<void()>& check)
      : rank_(options.rank), size_(options.size), floats_(options.floats) {
    if (size_ < 1 || size_ > kMaxMembers || rank_ < 0 || rank_ >= size_) {
      throw Error("a group of processes: rank ", rank_, " of ", size_, ", expected a size of 1 to ",
                  kMaxMembers, " and a smaller rank");
    }
    const auto is_other = [](unsigned char c) { return std::isalnum(c) == 0; };
    if (options.name.empty() || options.name.size() > 64 ||
        std::any_of(options.name.begin(), options.name.end(), is_other)) {
      throw Error("a group of processes: name ", options.name,
                  ": expected 1 to 64 letters and digits");
    }
    path_ = StrCat("/", kPrefix, options.name);
    RemoveAbandoned();
    Map();
    try {
      Join(options.seconds, check);
    } catch (...) {
      if (joined_) {  // then no member can go on
        header().members[rank_].state = Header::kLeft;
        shm_unlink(path_.c_str());
      }
      Unmap();
      throw;
    }
    shm_unlink(path_.c_str());  // by each member: it may be gone
  }

  ~Group() override {
    header().members[rank_].state = Header::kLeft;
    FutexWake(&header().generation);
    Unmap();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void Broadcast(std::span<std::byte> bytes, const std::function<void()>& check) override {
    const size_t most = floats_ * sizeof(float);
    for (size_t begin = 0; begin < bytes.size(); begin += most) {
      const std::span<std::byte> part = bytes.subspan(begin, std::min(most, bytes.size() - begin));
      if (rank_ == 0) std::memcpy(result(), part.data(), part.size());
      Barrier(check);
      if (rank_ != 0) std::memcpy(part.data(), result(), part.size());
      Barrier(check);
    }
  }

  void StartSum(std::span<float> values, bool) override {
    if (started_ + values.size() > floats_) {
      throw Error("a group of processes: ", started_ + values.size(),
                  " values to sum, expected at most ", floats_);
    }
    started_ += values.size();
    sums_.push_back(values);
  }

  void Wait(const std::function<void()>& check) override {
    const std::vector<std::span<float>> sums = std::exchange(sums_, {});
    const size_t count = std::exchange(started_, 0);
    if (size_ == 1 || count == 0) return;
    float* to = part(rank_);
    for (const std::span<float> values : sums) to = std::copy(values.begin(), values.end(), to);
    Barrier(check);
    // Each member adds a range of all arrays, always in the order of the ranks.
    const size_t begin = count * rank_ / size_, end = count * (rank_ + 1) / size_;
    std::copy(part(0) + begin, part(0) + end, result() + begin);
    for (int other = 1; other < size_; ++other) {
      const float* const values = part(other);
      float* const sum = result();
      for (size_t i = begin; i < end; ++i) sum[i] += values[i];
    }
    Barrier(check);
    const float* from = result();
    for (const std::span<float> values : sums) {
      std::copy_n(from, values.size(), values.begin());
      from += values.size();
    }
  }

 private:
  Header& header() const { return *static_cast<Header*>(memory_); }
  // The values of a member, and behind those of all the sums.
  float* part(int index) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(memory_) + HeaderBytes()) +
           static_cast<size_t>(index) * floats_;
  }
  float* result() const { return part(size_); }
  static size_t HeaderBytes() { return (sizeof(Header) / kAlignment + 1) * kAlignment; }
  uint64_t Layout() const { return floats_ * 2 * kMaxMembers + static_cast<uint64_t>(size_); }

  void Map() {
    const FileDescriptor file(shm_open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    struct stat status {};
    if (file.get() < 0 || fstat(file.get(), &status) != 0) {
      throw Error(path_, ": ", ErrnoText(errno));
    }
    if (status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
      throw Error(path_, ": belongs to or is readable by another user");
    }
    bytes_ = HeaderBytes() + (static_cast<size_t>(size_) + 1) * floats_ * sizeof(float);
    // Reserves the memory, which would otherwise be missing at a write. Keeps what is there.
    if (const int error = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes_))) {
      throw Error(path_, ": ", bytes_, " bytes: ", ErrnoText(error));
    }
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory_ == MAP_FAILED) throw Error(path_, ": ", ErrnoText(errno));
  }
  void Unmap() { munmap(memory_, bytes_); }

  void Join(double seconds, const std::function<void()>& check) {
    uint64_t layout = 0;
    if (!header().layout.compare_exchange_strong(layout, Layout()) && layout != Layout()) {
      throw Error(
          "a group of processes: another member has another net or number of members, "
          "expected the same for all");
    }
    Header::Member& own = header().members[rank_];
    uint32_t state = Header::kAbsent;
    if (!own.state.compare_exchange_strong(state, Header::kJoining)) {
      throw Error("a group of processes: there are two members of rank ", rank_,
                  ", expected different ranks");
    }
    own.process = ThisProcess();
    own.state = Header::kJoined;
    joined_ = true;
    FutexWake(&header().generation);
    const SteadyClock clock;
    const double end = clock.NowSeconds() + seconds;
    for (int other = 0; other < size_; ++other) {
      while (header().members[other].state < Header::kJoined) {
        if (clock.NowSeconds() > end) {
          throw Error("a group of processes: rank ", other, " of ", size_, " has not come within ",
                      seconds, " s");
        }
        FutexWait(&header().generation, header().generation);
        if (check) check();
      }
    }
    Barrier(check);
  }

  // Returns when all members have called it as often as this one.
  void Barrier(const std::function<void()>& check) {
    const uint32_t generation = header().generation;
    if (header().arrived.fetch_add(1) + 1 == static_cast<uint32_t>(size_)) {
      header().arrived = 0;
      header().generation = generation + 1;
      return FutexWake(&header().generation);
    }
    constexpr int kSpins = 200;
    for (int i = 0; i < kSpins; ++i) {
      if (header().generation != generation) return;
    }
    while (header().generation == generation) {
      FutexWait(&header().generation, generation);
      if (header().generation != generation) return;
      if (check) check();
      ThrowIfEnded(generation);
    }
  }

  void ThrowIfEnded(uint32_t generation) const {
    for (int other = 0; other < size_; ++other) {
      const Header::Member& member = header().members[other];
      if (member.state != Header::kLeft && IsAlive(member.process)) continue;
      if (header().generation != generation) return;  // it had arrived before
      throw Error("a group of processes: rank ", other, " of ", size_, " has ended");
    }
  }

  const int rank_, size_;
  const size_t floats_;
  std::string path_;     // of shm_open
  bool joined_ = false;  // other members count on this one
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  std::vector<std::span<float>> sums_;  // that have been started
  size_t started_ = 0;                  // their values
};

}  // namespace

std::unique_ptr<Collective> JoinSharedMemoryGroup(const SharedMemoryGroupOptions& options,
                                                  const std::function<void()>& check) {
  return std::make_unique<Group>(options, check);
}

}  // namespace millrace::inline collective
