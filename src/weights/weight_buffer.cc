#include "weights/weight_buffer.h"

#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/threads/thread.h"

namespace millrace::inline weights {
namespace {

ProcessIdentity IdentityOf(const ShmProcess& process) { return {process.pid, process.start_time}; }

bool IsAttached(const ShmProcess& process) {
  return process.role != kShmFree && IsAlive(IdentityOf(process));
}

// Pid of the trainer with the latest start time in the process table, dead or alive; 0 if there is
// none.
int32_t LastTrainer(const ShmHeader& header) {
  const ShmProcess* last = nullptr;
  for (const ShmProcess& process : header.processes) {
    if (process.role != kShmTrainer && process.role != kShmFinishing) continue;
    if (!last || process.start_time > last->start_time) last = &process;
  }
  return last ? last->pid : 0;
}

void Describe(const ParamLayout& layout, ShmHeader* header) {
  header->layout_digest = layout.Digest();
  header->param_count = layout.entries().size();
  header->array_floats = static_cast<uint64_t>(layout.size());
}

// As much of the text as the header holds.
std::string CutStrategy(const std::string& strategy) {
  return strategy.substr(0, sizeof(ShmHeader::strategy));
}

// Releases the clock and range slots of an owner whose process has ended.
void ReleaseSlotsOf(uint32_t owner, ShmHeader* header) {
  ReleaseSolversOf(header, owner);
  ReleaseRangesOf(&header->ranges, owner);
}

std::string Hex(uint64_t value) {
  char text[17];
  snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

JoinWait::JoinWait()
    : clock(std::make_shared<SteadyClock>()), should_stop([] { return false; }), pause([] {
        InterruptionPoint();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }) {}

std::unique_ptr<WeightBuffer> WeightBuffer::CreatePrivate(const ParamLayout& layout) {
  std::unique_ptr<WeightBuffer> buffer(new WeightBuffer(nullptr));
  Describe(layout, buffer->header_);
  const uint64_t floats = buffer->header_->array_floats;
  if (floats > SIZE_MAX / 8) throw Error("out of memory: cannot allocate ", floats, " weights");
  buffer->array_ = Mapping::Anonymous(floats * sizeof(float), "the weights");
  buffer->created_ = true;
  buffer->slot_ = 0;
  buffer->OpenTables();
  return buffer;
}

std::unique_ptr<WeightBuffer> WeightBuffer::JoinTraining(const std::string& name,
                                                         const ParamLayout& layout,
                                                         const JoinWait& wait,
                                                         const std::string& strategy) {
  const std::string path = ShmPath(name);
  for (;;) {
    if (std::unique_ptr<ShmFile> file = ShmFile::Open(path)) {
      auto buffer = Attach(std::move(file), kShmTrainer, {&layout, &strategy}, wait);
      if (buffer) return buffer;
      continue;  // removed while attaching
    }
    std::unique_ptr<ShmFile> file = ShmFile::Create(path, [&](ShmHeader* header) {
      const ProcessIdentity self = ThisProcess();
      Describe(layout, header);
      const std::string cut = CutStrategy(strategy);
      std::copy(cut.begin(), cut.end(), header->strategy);
      header->processes[0] = {self.start_time, self.pid, kShmTrainer, {}};
    });
    if (!file) continue;  // another process created it first
    std::unique_ptr<WeightBuffer> buffer(new WeightBuffer(std::move(file)));
    buffer->slot_ = 0;
    buffer->created_ = true;
    buffer->file_->AllocateArray();
    buffer->array_ = buffer->file_->MapArray(true);
    buffer->OpenTables();
    return buffer;
  }
}

std::unique_ptr<WeightBuffer> WeightBuffer::AttachReader(const std::string& name,
                                                         const ParamLayout* expected,
                                                         const JoinWait& wait) {
  const std::string path = ShmPath(name);
  std::unique_ptr<ShmFile> file = ShmFile::Open(path);
  std::unique_ptr<WeightBuffer> buffer;
  if (file) buffer = Attach(std::move(file), kShmReader, {expected, nullptr}, wait);
  if (!buffer) throw Error(path, ": no such file: no run shares its weights under that name");
  return buffer;
}

WeightBuffer::WeightBuffer(std::unique_ptr<ShmFile> file) : file_(std::move(file)) {
  if (!file_) private_header_ = std::make_unique<ShmHeader>();
  header_ = file_ ? file_->header() : private_header_.get();
  if (file_) self_ = ThisProcess();
}

WeightBuffer::~WeightBuffer() {
  if (!file_ || slot_ < 0 || self_.pid != getpid()) return;
  ShmFile::Lock lock(file_.get());
  const bool trainer = header_->processes[slot_].role != kShmReader;
  header_->processes[slot_] = {};
  ReleaseSlotsOf(static_cast<uint32_t>(slot_ + 1), header_);
  if (trainer && !AnyAlive(kShmTrainer) && !AnyAlive(kShmFinishing)) file_->Unlink();
}

// Returns nullptr if the file was removed during the wait.
std::unique_ptr<WeightBuffer> WeightBuffer::Attach(std::unique_ptr<ShmFile> file, ShmRole role,
                                                   const Expected& expected, const JoinWait& wait) {
  std::unique_ptr<WeightBuffer> buffer(new WeightBuffer(std::move(file)));
  const std::string& path = buffer->file_->path();
  const double give_up = wait.clock->NowSeconds() + wait.timeout_seconds;
  for (;;) {
    {
      ShmFile::Lock lock(buffer->file_.get());
      if (!buffer->file_->linked()) return nullptr;
      if (buffer->TryAttach(role, expected)) return buffer;
    }
    if (wait.should_stop()) throw Error(path, ": stopped while waiting for its weights");
    if (wait.clock->NowSeconds() >= give_up) {
      throw Error(path, ": process ", LastTrainer(*buffer->header_),
                  ", which creates it, has not filled its weights within ", wait.timeout_seconds,
                  " s");
    }
    wait.pause();
  }
}

// Requires the file lock. Returns false if the weights are not published yet.
bool WeightBuffer::TryAttach(ShmRole role, const Expected& expected) {
  RefuseIfEnded(role);
  if (expected.layout) RefuseOtherLayout(*expected.layout);
  if (expected.strategy) RefuseOtherStrategy(*expected.strategy);
  const uint32_t state = header_->state;
  if (state == kShmInitialising) return false;
  if (state != kShmReady) {
    throw Error(file_->path(), " is damaged: state ", state, ", expected ", kShmReady);
  }
  array_ = file_->MapArray(role == kShmTrainer);
  TakeSlot(role);
  OpenTables();
  return true;
}

void WeightBuffer::OpenTables() {
  const auto owner = static_cast<uint32_t>(slot_ + 1);
  clock_ = std::make_unique<IterationClock>(header_, owner);
  locks_ = std::make_unique<RangeLock>(
      &header_->ranges, data(), owner, [header = header_](uint32_t other) {
        return other <= kMaxProcesses && IsAttached(header->processes[other - 1]);
      });
}

void WeightBuffer::RefuseIfEnded(ShmRole role) const {
  if (AnyAlive(kShmTrainer)) return;
  const std::string& path = file_->path();
  const int32_t last = LastTrainer(*header_);
  if (AnyAlive(kShmFinishing)) {
    if (role == kShmReader) return;
    throw Error(path, ": the run that shares it is ending (process ", last,
                " may still be saving); try again when it has ended");
  }
  const bool ready = header_->state == kShmReady;
  throw Error(path, " was left by a run that ended", ready ? "" : " before its weights were filled",
              " (last pid ", last, "); remove it: rm ", path);
}

void WeightBuffer::RefuseOtherLayout(const ParamLayout& layout) const {
  const ShmHeader& h = *header_;
  const bool same = h.layout_digest == layout.Digest() &&
                    h.param_count == layout.entries().size() &&
                    h.array_floats == static_cast<uint64_t>(layout.size());
  if (same) return;
  throw Error(file_->path(), " holds the weights of another net (digest ", Hex(h.layout_digest),
              ", ", h.array_floats, " floats; this net: ", Hex(layout.Digest()), ", ",
              layout.size(), " floats)");
}

void WeightBuffer::RefuseOtherStrategy(const std::string& strategy) const {
  const char* const text = header_->strategy;
  const std::string of_run(text, strnlen(text, sizeof(header_->strategy)));
  if (of_run == CutStrategy(strategy)) return;
  throw Error(file_->path(), ": the solvers of that run have the strategy ", of_run,
              ", those of this process ", strategy, ", expected the same in all solver files");
}

// Requires the file lock. Takes a free entry of the process table, or that of a dead process.
void WeightBuffer::TakeSlot(ShmRole role) {
  int free = -1, dead = -1;
  for (int i = kMaxProcesses - 1; i >= 0; --i) {
    const ShmProcess& process = header_->processes[i];
    if (process.role == kShmFree) {
      free = i;
    } else if (!IsAttached(process)) {
      ReleaseSlotsOf(static_cast<uint32_t>(i + 1), header_);
      dead = i;
    }
  }
  slot_ = free >= 0 ? free : dead;
  if (slot_ < 0) {
    throw Error(file_->path(), ": all ", kMaxProcesses, " places for processes are taken");
  }
  header_->processes[slot_] = {self_.start_time, self_.pid, role, {}};
}

bool WeightBuffer::AnyAlive(ShmRole role) const {
  for (const ShmProcess& process : header_->processes) {
    if (process.role == role && IsAttached(process)) return true;
  }
  return false;
}

void WeightBuffer::Publish() {
  CHECK(created_) << "only the creator publishes";
  header_->state = kShmReady;
}

bool WeightBuffer::StopTraining() {
  if (!file_) return true;
  ShmFile::Lock lock(file_.get());
  ShmProcess& self = header_->processes[slot_];
  if (self.role == kShmReader) return false;
  if (!stopped_) {
    stopped_ = true;
    self.role = kShmFinishing;
    stopped_last_ = !AnyAlive(kShmTrainer);
  }
  return stopped_last_;
}

}  // namespace millrace::inline weights
