// The one array that all solvers of a run write: private memory, or a file under
// /dev/shm that several processes map. The bytes of the file are in docs/shm.md.
//
// A run's first process creates the file, fills the weights and publishes them;
// others join it; evaluators and monitors attach as readers and do not keep it
// alive. The last trainer to leave removes the file. A process that is killed is
// recognised as dead, and a file that only dead trainers left is refused with
// the command that removes it.
//
// Solvers read and write the array without excluding each other (Hogwild): two reads of a
// weight need not agree, and a reader may see any mixture of old and new ones. Of writers,
// solvers and exchanges keep out of each other's way by locks().
#ifndef MILLRACE_WEIGHTS_WEIGHT_BUFFER_H_
#define MILLRACE_WEIGHTS_WEIGHT_BUFFER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process_identity.h"
#include "base/range_lock.h"
#include "weights/iteration_clock.h"
#include "weights/param_layout.h"
#include "weights/shm_file.h"

namespace millrace {

// How long to wait for another process that is still filling the weights. The
// default gives up after a minute; its pauses are interruption points.
struct JoinWait {
  JoinWait();

  double timeout_seconds = 60;
  std::shared_ptr<const Clock> clock;
  std::function<bool()> should_stop;  // asked before each pause: true gives up
  std::function<void()> pause;        // lets a little time pass
};

// Thread-safe, apart from the plain floats of the array.
class WeightBuffer {
 public:
  enum class Role { kTrainer, kReader, kFinishing };
  struct Attached {
    int pid;
    Role role;
  };

  // An array for this process alone, all zeros; `created()` is true.
  static std::unique_ptr<WeightBuffer> CreatePrivate(const ParamLayout& layout);

  // The array that the file /dev/shm/NAME holds. When there is no such file, it
  // is created (mode 0600, all zeros) and `created()` is true: the caller fills
  // the weights, sets the clock and calls Publish(). Otherwise waits until its
  // creator has published it. Of several processes that start at once exactly
  // one creates.
  //
  // Throws Error when: `name` is no file name; the file holds weights of another
  // layout, another version, or no weights; it is truncated or another user's;
  // the run that made it has ended; its table of processes is full; there is no
  // room in /dev/shm; the wait ended without success.
  static std::unique_ptr<WeightBuffer> JoinTraining(const std::string& name,
                                                    const ParamLayout& layout,
                                                    const JoinWait& wait = {});

  // The array of a running training, mapped read-only: writing it is SIGSEGV.
  // Throws as JoinTraining does, and when there is no such file. `expected` may
  // be null: any layout will do.
  static std::unique_ptr<WeightBuffer> AttachReader(const std::string& name,
                                                    const ParamLayout* expected,
                                                    const JoinWait& wait = {});

  // Leaves; the last living trainer removes the file. In a child that was forked
  // off after attaching, only unmaps.
  ~WeightBuffer();
  WeightBuffer(const WeightBuffer&) = delete;
  WeightBuffer& operator=(const WeightBuffer&) = delete;

  // size() floats, page-aligned, laid out as the ParamLayout says. Valid as long
  // as this object.
  float* data() const { return static_cast<float*>(array_.get()); }
  int64_t size() const { return static_cast<int64_t>(header_->array_floats); }

  // Whether this process has to fill the weights, and Publish() them.
  bool created() const { return created_; }
  // Lets those who wait in.
  void Publish();

  IterationClock& clock() { return *clock_; }
  // Of ranges of the array: solvers update under a shared lock, exchanges under an exclusive one.
  RangeLock& locks() { return *locks_; }

  // This process trains no more (but may still save). True if no other living
  // trainer remains: the caller writes the final snapshot. Of several processes
  // that stop at the same time exactly one gets true. Called again, it says the
  // same again; readers get false.
  bool StopTraining();

  // The living processes that are attached, this one included; empty for a
  // private buffer.
  std::vector<Attached> Processes();

 private:
  explicit WeightBuffer(std::unique_ptr<ShmFile> file);

  static std::unique_ptr<WeightBuffer> Attach(std::unique_ptr<ShmFile> file, ShmRole role,
                                              const ParamLayout* layout, const JoinWait& wait);
  bool TryAttach(ShmRole role, const ParamLayout* layout);
  void RefuseIfEnded(ShmRole role) const;
  void RefuseOtherLayout(const ParamLayout& layout) const;
  void TakeSlot(ShmRole role);
  // As the process of place `slot_` in the table.
  void OpenTables();
  bool AnyAlive(ShmRole role) const;

  std::unique_ptr<ShmHeader> private_header_;
  std::unique_ptr<ShmFile> file_;  // null for a private buffer
  ShmHeader* header_;
  Mapping array_;
  ProcessIdentity self_;
  int slot_ = -1;  // in the table of processes; -1 while not attached
  bool created_ = false;
  bool stopped_ = false;
  bool stopped_last_ = false;
  std::unique_ptr<IterationClock> clock_;
  std::unique_ptr<RangeLock> locks_;
};

}  // namespace millrace

#endif  // MILLRACE_WEIGHTS_WEIGHT_BUFFER_H_
