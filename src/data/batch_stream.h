// The batches of one data layer, shared by all solvers of the process. One reader thread per source
// finds the records ahead of the solvers; each call of Next() takes the next batch.
//
// Batch b holds items b*batch_size .. (b+1)*batch_size-1 of the schedule (data/schedule.h). The
// sequence of batches therefore does not depend on the number of solvers. A position in it is a
// batch number and a list of batches that were handed out but not trained on yet.
//
// If shards have no reader any more, the remaining readers can share their records (SetAbsent). The
// schedule then changes between two batches, so the items of batch b also depend on the earlier
// changes. A position includes the changes that affect batches which may be requested again.
#ifndef MILLRACE_DATA_BATCH_STREAM_H_
#define MILLRACE_DATA_BATCH_STREAM_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <boost/thread/condition_variable.hpp>
#include <boost/thread/mutex.hpp>

#include "base/error.h"
#include "base/thread.h"
#include "data/schedule.h"
#include "millrace/data_source.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

struct BatchStreamOptions {
  std::string layer;  // the layer's name, for errors, positions and thread names
  std::vector<std::shared_ptr<DataSource>> sources;
  uint64_t batch_size = 1;
  int read_ahead = 4;  // batches that the readers may be ahead of the consumers
  bool shuffle = false;
  std::vector<uint64_t> groups, draws;  // as in ScheduleOptions; draws sum up to batch_size
  std::shared_ptr<const Sampler> sampler = nullptr;  // as in ScheduleOptions
  uint64_t rand_skip = 0;
  uint64_t shard_index = 0, shard_count = 1;
  // So many consumers take turns: batch s goes to consumer s % consumers, in the order of delivery
  // from the start or from a position. 0: a batch goes to whoever asks first.
  int consumers = 0;
  uint64_t seed = 0;            // part of the key of the random choices
  uint64_t stream = 0;          // identifies the stream; also part of that key
  ErrorSink* errors = nullptr;  // outlives the stream; null: only Next() reports errors
};

struct Batch {
  uint64_t number = 0;
  uint64_t first_item = 0;  // index in the schedule: number * batch_size
  uint64_t seeks = 0;       // BatchStream::seeks() when the batch was handed out
  // Valid as long as the stream exists.
  std::vector<RecordView> records;
};

// Thread-safe.
class BatchStream {
 public:
  // Throws Error if there are no records for this shard.
  explicit BatchStream(const BatchStreamOptions& options);
  // Calls Stop(). No thread may be waiting in Next().
  ~BatchStream();
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // Waits for the next batch (an interruption point). Returns false after Stop(). The first call
  // starts the readers. Reuses the memory of `batch`. Throws the error that ended a reader.
  // `consumer`: the caller's number, if consumers take turns; also waits for its turn.
  bool Next(Batch* batch, int consumer = 0);
  // Records that the solver has trained on this batch: a resume does not repeat it.
  void MarkConsumed(uint64_t number);

  caffe::StreamPosition Position() const;
  // Continues from `position`, first with the batches that were outstanding then, in order. Throws
  // Error if `position` belongs to other data or another batch size, if it is inconsistent, or if a
  // batch has been requested already.
  void Restore(const caffe::StreamPosition& position);

  // Continues with batch `number`, whatever the current position; a thread that waits in Next()
  // gets that batch. Batches handed out before count as consumed and must not be marked any more.
  // Must not be called by several threads at once.
  void Seek(uint64_t number);
  // The number of Seek() calls.
  uint64_t seeks() const { return seeks_.load(std::memory_order_acquire); }

  // Sets the shards without a reader. From the first batch on that no reader has begun, this stream
  // also reads its part of them. `absent` is ascending, below shard_count, without shard_index.
  void SetAbsent(const std::vector<uint64_t>& absent);

  // Wakes all waiting threads and joins the readers. Must not be called by a reader, and therefore
  // not by an ErrorSink's callback.
  void Stop();

  // Call after reading records of a batch and before using them. Throws Error if bytes of a source
  // were missing (DataSource::ThrowIfDamaged).
  void ThrowIfDamaged() const;

  // The first record of the first source, to determine sizes.
  RecordView FirstRecord() const;

  const std::string& layer() const { return options_.layer; }
  uint64_t batch_size() const { return options_.batch_size; }
  // Records in this process's shard: the length of an epoch while no shard is absent.
  uint64_t records() const { return records_; }
  uint64_t seed() const { return options_.seed; }
  uint64_t stream() const { return options_.stream; }
  const DataSource& source(int source) const { return *options_.sources[source]; }
  const std::string& source_path(int source) const { return options_.sources[source]->path(); }
  ErrorSink* errors() const { return errors_; }
  // Batches that the readers have completed so far, handed out or not.
  uint64_t batches_read() const;

 private:
  // A slot of the ring buffer. Step s of the stream uses slot s % size.
  struct Slot {
    std::vector<RecordView> records;  // each reader writes its own items
    size_t missing = 0;               // readers that have not delivered their part
  };

  // The schedule of the batches from first_batch on, up to the next assignment.
  struct Assignment {
    uint64_t first_batch = 0;
    uint64_t place = 0;  // of its first item in the schedule
    std::shared_ptr<const Schedule> schedule;
  };
  using Assignments = std::vector<Assignment>;

  Assignment Initial(const std::vector<uint64_t>& absent) const;
  static const Assignment& AssignmentOf(const Assignments& assignments, uint64_t number);
  // The assignments of batches that may still be requested.
  Assignments Needed() const;
  // The assignments in `position`. Throws Error if they are inconsistent.
  Assignments Restored(const caffe::StreamPosition& position) const;

  // Steps count batches in the order of delivery, from the start, Restore or Seek.
  uint64_t NumberOf(uint64_t step) const;
  bool IsTurnOf(int consumer) const {
    return options_.consumers == 0 ||
           handed_out_ % options_.consumers == static_cast<uint64_t>(consumer);
  }
  Slot& SlotOf(uint64_t step) { return slots_[step % slots_.size()]; }
  void Read(int source);
  // Returns false after Stop().
  bool WaitForRoom(uint64_t step, Assignment* assignment);
  void FillShare(int source, uint64_t step, const Assignment& assignment, RecordReader* reader);
  void Deliver(uint64_t step);
  void StartReaders();

  const BatchStreamOptions options_;
  uint64_t records_ = 0;
  ErrorSink own_errors_;
  ErrorSink* const errors_;

  mutable boost::mutex mutex_;
  boost::condition_variable complete_, room_;
  // Written only while there are no readers.
  std::vector<uint64_t> repeated_;  // batches to deliver first
  uint64_t first_batch_ = 0;        // the first batch after them
  // Guarded by mutex_.
  std::vector<Slot> slots_;
  Assignments assignments_;                         // at least one; ascending
  uint64_t handed_out_ = 0, read_ = 0, begun_ = 0;  // in steps; begun_: begun by some reader
  std::set<uint64_t> outstanding_;                  // handed out, not consumed
  bool started_ = false, stopped_ = false;
  std::atomic<uint64_t> seeks_{0};
  std::exception_ptr error_;
  std::vector<std::unique_ptr<Thread>> readers_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_BATCH_STREAM_H_
