// The batch numbers that nets draw for their passes. All data layers of a net take the batch of one
// number in each pass, so that records which belong together stay together, however many nets draw
// at the same time and however far each layer reads ahead. The streams of these layers
// (data/batch_stream.h) share one sequence.
//
// Steps count the passes of all nets in the order of their draws, from the start, Restore or Seek.
// After Restore, the first steps repeat the batches that had not been trained on.
#ifndef MILLRACE_DATA_BATCH_SEQUENCE_H_
#define MILLRACE_DATA_BATCH_SEQUENCE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include <boost/thread/mutex.hpp>

namespace millrace::inline data {

// The caller holds mutex() during all calls but those of the constructor, mutex() and seeks().
class BatchSequence {
 public:
  // `nets`: number of nets that take turns: step s belongs to net s % nets. 0: a step belongs to
  // the net that draws it.
  explicit BatchSequence(int nets = 0);
  BatchSequence(const BatchSequence&) = delete;
  BatchSequence& operator=(const BatchSequence&) = delete;

  // Identifies the sequence: drawn at random, or that of the snapshot that it continues.
  uint64_t id() const { return id_; }
  bool is_resumed() const { return is_resumed_; }
  // Continues the sequence `id` of a snapshot.
  void Resume(uint64_t id) { id_ = id, is_resumed_ = true; }

  // Also guards the streams of the sequence, so that they have one state for a snapshot.
  boost::mutex& mutex() const { return mutex_; }

  // One more stream whose layers take the batches of each net.
  void AddStream() { ++streams_; }
  // Index, among the passes of `net`, of the first one that a stream can still take: for a stream
  // that has taken none.
  uint64_t FirstPass(int net) const;
  // The step of pass `pass` of `net`, which draws it if no other layer has. `pass` is at least
  // FirstPass and at most the number of passes that the net has drawn.
  uint64_t StepOf(int net, uint64_t pass);
  // A stream has taken the batch of this pass.
  void OnTaken(int net, uint64_t pass);

  uint64_t NumberOf(uint64_t step) const {
    return step < repeated_.size() ? repeated_[step] : first_batch_ + (step - repeated_.size());
  }

  // A reader of some stream begins to read the batch of `step`.
  void OnBegun(uint64_t step);
  // The first batch that no reader of any stream has begun, leaving out repeated batches.
  uint64_t FirstUnread() const;

  // A net has trained on the batch. The first of its layers that says so counts.
  void MarkConsumed(uint64_t number) { unconsumed_.erase(number); }
  // The batches that a resumed run takes first, and the one with which it goes on. They do not
  // depend on how many batches nets have drawn ahead of their passes.
  struct Position {
    uint64_t next_batch = 0;
    std::set<uint64_t> outstanding;  // below next_batch
  };
  Position GetPosition() const;
  // The smallest number of a batch that may still be taken, in this run or after a resume.
  uint64_t Oldest() const;

  // Whether a net has drawn a batch.
  bool has_drawn() const { return drawn_ > 0; }
  // Continues from `position`, and from that of an earlier call, if the position of another stream
  // was restored: where the two differ, batches are repeated rather than left out. No batch has
  // been drawn.
  void Restore(const Position& position);
  // Continues with batch `number`. All batches drawn before count as consumed.
  void Seek(uint64_t number);
  // The number of Seek() calls.
  uint64_t seeks() const { return seeks_.load(std::memory_order_acquire); }

 private:
  // Draws of one net that not all streams have taken.
  struct Draws {
    struct Draw {
      uint64_t step = 0;
      int taken = 0;  // number of streams
    };
    uint64_t first = 0;  // pass of waiting.front()
    std::deque<Draw> waiting;
  };

  // All batches up to the one of `step` are no longer left to draw.
  void OnDrawn(uint64_t step);

  const int nets_;
  uint64_t id_;
  bool is_resumed_ = false;
  mutable boost::mutex mutex_;
  int streams_ = 0;
  bool restored_ = false;
  std::vector<uint64_t> repeated_;  // batches of the first steps
  uint64_t first_batch_ = 0;        // the batch of the step after them
  uint64_t drawn_ = 0;              // steps that nets have drawn
  uint64_t begun_ = 0;              // steps that some reader has begun
  std::set<uint64_t> unconsumed_;   // batches drawn or repeated, not trained on
  std::map<int, Draws> draws_;      // by net; unused if nets take turns
  std::atomic<uint64_t> seeks_{0};
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_BATCH_SEQUENCE_H_
