// The weight array that all solvers of a run share: private memory, or a file under /dev/shm that
// several processes map. docs/shm.md specifies the file format.
//
// The first process of a run creates the file, fills the weights and publishes them. Other trainers
// join it. Evaluators and monitors attach as readers, which do not keep the file in existence. The
// last trainer to leave removes the file. Processes that were killed are detected as dead. A file
// left by dead trainers only is refused with an error that names the command to remove it.
//
// Solvers read and write the array without mutual exclusion (Hogwild). Two reads of a weight may
// differ, and a reader may see any mixture of old and new weights. locks() keeps the writes of
// solvers and of exchanges apart.
#ifndef MILLRACE_WEIGHTS_WEIGHT_BUFFER_H_
#define MILLRACE_WEIGHTS_WEIGHT_BUFFER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/process_identity.h"
#include "base/threads/range_lock.h"
#include "weights/iteration_clock.h"
#include "weights/param_layout.h"
#include "weights/shm_file.h"

namespace millrace::inline weights {

// How to wait for another process that is still filling the weights. By default the wait ends after
// one minute, and its pauses are interruption points.
struct JoinWait {
  JoinWait();

  double timeout_seconds = 60;
  std::shared_ptr<const Clock> clock;
  std::function<bool()> should_stop;  // called before each pause; true ends the wait
  std::function<void()> pause;        // blocks for a short time
};

// Thread-safe, except for plain access to the floats of the array.
class WeightBuffer {
 public:
  // An array for this process only, all zeros. created() is true.
  static std::unique_ptr<WeightBuffer> CreatePrivate(const ParamLayout& layout);

  // Attaches to the array in /dev/shm/NAME as a trainer. If the file does not exist, it is created
  // (mode 0600, all zeros) and created() is true: the caller then fills the weights, sets the clock
  // and calls Publish(). Otherwise the call waits until the creator has published. Of several
  // processes that start at the same time, exactly one creates the file.
  //
  // `strategy` describes how the solvers of this process share the array; all trainers have the
  // same.
  //
  // Throws Error if `name` is not a valid file name; the file holds weights of another layout,
  // another version, another strategy, or no weights; the file is truncated or belongs to another
  // user; the run that created it has ended; its process table is full; /dev/shm has no room; or
  // the wait ended without success.
  static std::unique_ptr<WeightBuffer> JoinTraining(const std::string& name,
                                                    const ParamLayout& layout,
                                                    const JoinWait& wait = {},
                                                    const std::string& strategy = "");

  // Attaches to the array of a run in progress. The mapping is read-only: a write raises SIGSEGV.
  // Throws as JoinTraining() does, and if the file does not exist. If `expected` is null, any
  // layout is accepted.
  static std::unique_ptr<WeightBuffer> AttachReader(const std::string& name,
                                                    const ParamLayout* expected,
                                                    const JoinWait& wait = {});

  // Detaches; the last running trainer removes the file. In a child forked after attaching, only
  // unmaps.
  ~WeightBuffer();
  WeightBuffer(const WeightBuffer&) = delete;
  WeightBuffer& operator=(const WeightBuffer&) = delete;

  // size() floats, page-aligned, in the order of the ParamLayout. Valid during the lifetime of this
  // object.
  float* data() const { return static_cast<float*>(array_.get()); }
  int64_t size() const { return static_cast<int64_t>(header_->array_floats); }

  // True if this process must fill the weights and call Publish().
  bool created() const { return created_; }
  // Marks the weights as ready, so that waiting processes can attach. Creator only.
  void Publish();

  IterationClock& clock() { return *clock_; }
  // Locks on ranges of the array: shared for solver updates, exclusive for exchanges.
  RangeLock& locks() { return *locks_; }

  // Marks this process as no longer training; it may still save. Returns true if no other running
  // trainer remains: the caller then writes the final snapshot. Of several processes that stop at
  // the same time, exactly one gets true. Repeated calls return the same result. Readers get false.
  bool StopTraining();

 private:
  explicit WeightBuffer(std::unique_ptr<ShmFile> file);

  // Properties that the file of a run must have; null: any.
  struct Expected {
    const ParamLayout* layout = nullptr;
    const std::string* strategy = nullptr;
  };

  static std::unique_ptr<WeightBuffer> Attach(std::unique_ptr<ShmFile> file, ShmRole role,
                                              const Expected& expected, const JoinWait& wait);
  bool TryAttach(ShmRole role, const Expected& expected);
  void RefuseIfEnded(ShmRole role) const;
  void RefuseOtherLayout(const ParamLayout& layout) const;
  void RefuseOtherStrategy(const std::string& strategy) const;
  void TakeSlot(ShmRole role);
  // Opens clock and locks for the process table entry `slot_`.
  void OpenTables();
  bool AnyAlive(ShmRole role) const;

  std::unique_ptr<ShmHeader> private_header_;
  std::unique_ptr<ShmFile> file_;  // null for a private buffer
  ShmHeader* header_;
  Mapping array_;
  ProcessIdentity self_;
  int slot_ = -1;  // index in the process table; -1 if not attached
  bool created_ = false;
  bool stopped_ = false;
  bool stopped_last_ = false;
  std::unique_ptr<IterationClock> clock_;
  std::unique_ptr<RangeLock> locks_;
};

}  // namespace millrace::inline weights

#endif  // MILLRACE_WEIGHTS_WEIGHT_BUFFER_H_
