// The batches of one data layer, shared by all solvers of the process: one
// reader thread per source runs ahead of them and finds the records; whoever
// asks next gets the next batch.
//
// Batch b holds items b*batch_size .. (b+1)*batch_size-1 of the schedule
// (data/schedule.h), so the sequence of batches does not depend on how many
// solvers take them, and a position in it is a number and a list of batches
// that were handed out but not trained on yet.
//
// Where the readers of other shards are gone, their records can be shared by those that are left
// (SetAbsent). The schedule then changes between two batches, so b's items also depend on
// which changes were before it; a position has those that may be asked for again.
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
#include "data/lmdb_database.h"
#include "data/schedule.h"
#include "proto/caffe.pb.h"

namespace millrace {

struct BatchStreamOptions {
  std::string layer;  // its name, for errors, positions and thread names
  std::vector<std::shared_ptr<LmdbDatabase>> sources;
  uint64_t batch_size = 1;
  int read_ahead = 4;  // batches that the readers may be ahead of the consumers
  bool shuffle = false;
  uint64_t rand_skip = 0;
  uint64_t shard_index = 0, shard_count = 1;
  uint64_t seed = 0;            // names the random choices, with
  uint64_t stream = 0;          // which stream this is
  ErrorSink* errors = nullptr;  // outlives the stream; null: errors surface in Next() only
};

struct Batch {
  uint64_t number = 0;
  uint64_t first_item = 0;  // of the schedule: number * batch_size
  uint64_t seeks = 0;       // BatchStream::seeks() when it was handed out
  // Valid as long as the stream.
  std::vector<RecordView> records;
};

// Thread-safe.
class BatchStream {
 public:
  // Throws Error when there are no records for this shard.
  explicit BatchStream(const BatchStreamOptions& options);
  // As Stop(). Nobody may be waiting in Next().
  ~BatchStream();
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // Waits for the next batch (an interruption point); false once stopped. The
  // readers start at the first call. Reuses the memory of `batch`. Throws the
  // error that ended a reader.
  bool Next(Batch* batch);
  // The solver has trained on this batch: it need not be repeated after a resume.
  void MarkConsumed(uint64_t number);

  caffe::StreamPosition Position() const;
  // Continues from there: first the batches outstanding then, in order. Throws
  // Error if `position` is of other data, another batch size, or not consistent,
  // and if a batch has been asked for already.
  void Restore(const caffe::StreamPosition& position);

  // Goes on with batch `number`, wherever it stands; whoever waits in Next() gets that.
  // Batches handed out before count as consumed, and must not be marked any more. Not by
  // several threads at once.
  void Seek(uint64_t number);
  // How often that was done.
  uint64_t seeks() const { return seeks_.load(std::memory_order_acquire); }

  // The shards that nobody reads, from the first batch on that the readers have not begun: this
  // stream reads its part of them too. Ascending, below shard_count, without shard_index.
  void SetAbsent(const std::vector<uint64_t>& absent);

  // Wakes everyone who waits and joins the readers. Not from a reader: an
  // ErrorSink's callback may not call it.
  void Stop();

  // To be called after records of a batch have been read, before they are made use of: throws Error
  // if bytes of a source were gone (LmdbDatabase::ThrowIfDamaged).
  void ThrowIfDamaged() const;

  // The first record of the first source, to learn sizes from.
  RecordView FirstRecord() const;

  const std::string& layer() const { return options_.layer; }
  uint64_t batch_size() const { return options_.batch_size; }
  // In this process's shard: the length of an epoch while no shard is absent.
  uint64_t records() const { return records_; }
  uint64_t seed() const { return options_.seed; }
  uint64_t stream() const { return options_.stream; }
  const std::string& source_path(int source) const { return options_.sources[source]->path(); }
  ErrorSink* errors() const { return errors_; }
  // Batches found by the readers so far, handed out or not.
  uint64_t batches_read() const;

 private:
  // A place in the ring; step s of the stream uses place s % size.
  struct Slot {
    std::vector<RecordView> records;  // written by readers, each its own items
    size_t missing = 0;               // readers that have not delivered their share
  };

  // What batches from first_batch on hold, up to the next assignment.
  struct Assignment {
    uint64_t first_batch = 0;
    uint64_t place = 0;  // in the schedule, of its first item
    std::shared_ptr<const Schedule> schedule;
  };
  using Assignments = std::vector<Assignment>;

  Assignment Initial(const std::vector<uint64_t>& absent) const;
  static const Assignment& AssignmentOf(const Assignments& assignments, uint64_t number);
  // Those of batches that may be asked for from now on.
  Assignments Needed() const;
  // Throws Error if they cannot be.
  Assignments Restored(const caffe::StreamPosition& position) const;

  // Steps count batches in the order of delivery, from the start or Restore.
  uint64_t NumberOf(uint64_t step) const;
  Slot& SlotOf(uint64_t step) { return slots_[step % slots_.size()]; }
  void Read(int source);
  // False once stopped.
  bool WaitForRoom(uint64_t step, Assignment* assignment);
  void FillShare(int source, uint64_t step, const Assignment& assignment,
                 LmdbDatabase::Cursor* cursor);
  void Deliver(uint64_t step);
  void StartReaders();

  const BatchStreamOptions options_;
  uint64_t records_ = 0;
  ErrorSink own_errors_;
  ErrorSink* const errors_;

  mutable boost::mutex mutex_;
  boost::condition_variable complete_, room_;
  // Written while there are no readers.
  std::vector<uint64_t> repeated_;  // batches to serve first
  uint64_t first_batch_ = 0;        // what follows them
  // Under mutex_.
  std::vector<Slot> slots_;
  Assignments assignments_;                         // one at least; ascending
  uint64_t handed_out_ = 0, read_ = 0, begun_ = 0;  // in steps; begun_: by some reader
  std::set<uint64_t> outstanding_;                  // handed out, not consumed
  bool started_ = false, stopped_ = false;
  std::atomic<uint64_t> seeks_{0};
  std::exception_ptr error_;
  std::vector<std::unique_ptr<Thread>> readers_;
};

}  // namespace millrace

#endif  // MILLRACE_DATA_BATCH_STREAM_H_
