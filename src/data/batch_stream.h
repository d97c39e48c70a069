// The batches of one data layer, shared by all solvers of the process. One reader thread per source
// finds the records ahead of the solvers; each call of Next() takes the next batch of a net. The
// sequence that the stream shares with those of the net's other data layers gives its number
// (data/batch_sequence.h).
//
// Batch b holds items b*batch_size .. (b+1)*batch_size-1 of the schedule (data/schedule.h). The
// sequence of batches therefore does not depend on the number of solvers. A position in it is a
// batch number and a list of batches that were handed out but not trained on yet.
//
// If shards have no reader any more, the remaining readers can share their records (SetAbsent). The
// schedule then changes between two batches, so the items of batch b also depend on the earlier
// changes. A position includes the changes that affect batches which may be requested again.
//
// If the source gives whole batches (data/batch_source.h), batch b is its record b, and the
// schedule is not used.
#ifndef MILLRACE_DATA_BATCH_STREAM_H_
#define MILLRACE_DATA_BATCH_STREAM_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/thread/condition_variable.hpp>

#include "base/error.h"
#include "base/threads/thread.h"
#include "data/batch_sequence.h"
#include "data/batch_source.h"
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
  uint64_t items = 0;                   // as in ScheduleOptions
  std::shared_ptr<const Sampler> sampler = nullptr;  // as in ScheduleOptions
  uint64_t rand_skip = 0;
  uint64_t shard_index = 0, shard_count = 1;
  // Shared with the streams of the other data layers of the same nets; null: one of its own.
  std::shared_ptr<BatchSequence> sequence = nullptr;
  uint64_t seed = 0;    // part of the key of the random choices
  uint64_t stream = 0;  // identifies the stream; part of the key of choices on each record
  uint64_t order = 0;   // part of the key of the order of the records (ScheduleOptions::stream)
  ErrorSink* errors = nullptr;  // outlives the stream; null: only Next() reports errors
};

struct Batch {
  uint64_t number = 0;
  uint64_t first_item = 0;  // index in the schedule: number * batch_size
  uint64_t seeks = 0;       // BatchStream::seeks() when the batch was handed out
  // Valid as long as the stream exists. One, if the source gives whole batches.
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

  // Waits for the next batch of `net` (an interruption point). Returns false after Stop(). The
  // first call starts the readers. Reuses the memory of `batch`. Throws the error that ended a
  // reader.
  bool Next(Batch* batch, int net = 0);
  // Records that a solver has trained on this batch: a resume does not repeat it.
  void MarkConsumed(uint64_t number);

  caffe::StreamPosition Position() const;
  // The positions of several streams of one sequence, at one moment.
  static std::vector<caffe::StreamPosition> Positions(const std::vector<BatchStream*>& streams);
  // Continues from `position`, first with the batches that were outstanding then, in order. If it
  // belongs to another number of records or another batch size, logs a warning and continues at the
  // same place of the epoch. Throws Error if `position` is inconsistent, or if a batch has been
  // requested already.
  void Restore(const caffe::StreamPosition& position);

  // Continues `streams`, which are all those of a sequence, with batch `number`, whatever their
  // positions; a thread that waits in Next() gets that batch. Batches handed out before count as
  // consumed and must not be marked any more. Must not be called by several threads at once.
  static void Seek(const std::vector<BatchStream*>& streams, uint64_t number);
  // The number of Seek() calls.
  uint64_t seeks() const { return sequence_->seeks(); }

  // Sets the shards without a reader, for all streams of a sequence. From the first batch on that
  // no reader has begun, they also read their part of them. `absent` is ascending, below
  // shard_count, without shard_index.
  static void SetAbsent(const std::vector<BatchStream*>& streams,
                        const std::vector<uint64_t>& absent);

  // Changes `groups` and `items` of the options. No batch has been requested.
  void SetOrder(const std::vector<uint64_t>& groups, uint64_t items);

  // Wakes all waiting threads and joins the readers. Must not be called by a reader, and therefore
  // not by an ErrorSink's callback.
  void Stop();

  // Call after reading records of a batch and before using them. Throws Error if bytes of a source
  // were missing (DataSource::ThrowIfDamaged).
  void ThrowIfDamaged() const;

  // The first record of the first source, to determine sizes.
  RecordView FirstRecord() const;

  // Reads batches by number, in any order, apart from the sequence. One thread uses it. The stream
  // outlives it, and no shard becomes absent.
  class Access {
   public:
    explicit Access(const BatchStream* stream);
    // Batch::seeks is 0. Valid as long as this object and the stream exist. Throws Error.
    void Read(uint64_t number, Batch* batch);

   private:
    const BatchStream& stream_;
    std::vector<std::unique_ptr<RecordReader>> readers_;  // by source
  };

  const BatchStreamOptions& options() const { return options_; }
  const std::string& layer() const { return options_.layer; }
  uint64_t batch_size() const { return options_.batch_size; }
  // Records in this process's shard: the length of an epoch while no shard is absent.
  uint64_t records() const { return records_; }
  uint64_t seed() const { return options_.seed; }
  uint64_t stream() const { return options_.stream; }
  const DataSource& source(int source) const { return *options_.sources[source]; }
  // The source, if it gives whole batches; else null.
  const BatchSource* batch_source() const { return batch_source_; }
  const std::string& source_path(int source) const { return options_.sources[source]->path(); }
  ErrorSink* errors() const { return errors_; }
  // Batches that the readers have completed so far, handed out or not.
  uint64_t batches_read() const;
  // Counts time for which a solver has waited for a batch, and returns all of it, in ns.
  void AddWait(int64_t ns) { waited_ns_.fetch_add(ns, std::memory_order_relaxed); }
  int64_t waited_ns() const { return waited_ns_.load(std::memory_order_relaxed); }

 private:
  // The batch of a step that not all nets have passed.
  struct Slot {
    std::vector<RecordView> records;  // each reader writes its own items
    size_t missing = 0;               // readers that have not delivered their part
    bool taken = false;
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
  // Makes a sequence of a source of whole batches go on.
  void ResumeSequence(const caffe::StreamPosition& position);
  // Whether `position` is of this number of records and batch size.
  bool Fits(const caffe::StreamPosition& position) const;
  // The assignments in `position`. Throws Error if they are inconsistent.
  Assignments Restored(const caffe::StreamPosition& position) const;
  // The same for a position that does not fit.
  Assignments Mapped(const caffe::StreamPosition& position) const;
  caffe::StreamPosition PositionLocked() const;
  void SetAbsentLocked(const std::vector<uint64_t>& absent);
  void StopReaders();

  // Whether step `step` may be read: it is wanted, or among those that are read ahead.
  bool HasRoom(uint64_t step) const {
    return step < std::max(taken_end_ + options_.read_ahead, wanted_end_);
  }
  // Makes the slots up to that of `step`; a reference to a slot stays valid until it is taken.
  Slot& SlotOf(uint64_t step);
  bool IsComplete(uint64_t step) const;
  void Take(uint64_t step, Batch* batch);
  void Read(int source);
  // The slot of `step`, once it may be read; null after Stop().
  Slot* WaitForRoom(uint64_t step, Assignment* assignment, uint64_t* number);
  void FillShare(int source, uint64_t number, const Assignment& assignment, RecordReader* reader,
                 std::vector<RecordView>* records) const;
  void Deliver(Slot* slot);
  void StartReaders();

  BatchStreamOptions options_;       // the order may change until the first batch is requested
  BatchSource* const batch_source_;  // null: records
  uint64_t records_ = 0;
  ErrorSink own_errors_;
  ErrorSink* const errors_;
  const std::shared_ptr<BatchSequence> sequence_;
  std::atomic<int64_t> waited_ns_{0};

  // With the mutex of the sequence, which guards the rest.
  boost::condition_variable complete_, room_;
  Assignments assignments_;  // at least one; ascending
  std::deque<Slot> slots_;   // of the steps from first_step_ on
  uint64_t first_step_ = 0;  // all before it are taken
  // Highest step that was taken, and that a net has asked for, plus one.
  uint64_t taken_end_ = 0, wanted_end_ = 0;
  std::map<int, uint64_t> next_pass_;              // by net
  std::optional<caffe::StreamPosition> restored_;  // until the readers start
  std::vector<std::vector<RecordView>> spare_;     // memory of batches that were taken
  uint64_t read_ = 0;
  bool started_ = false, stopped_ = false;
  std::exception_ptr error_;
  std::vector<std::unique_ptr<Thread>> readers_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_BATCH_STREAM_H_
