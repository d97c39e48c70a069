// Which worker has which batch, where each batch goes to exactly one worker.
//
// A worker draws a sequence of batches, numbered from 0, whose id a snapshot of the worker keeps
// (data/batch_sequence.h). The ledger maps each number of each sequence to a batch of the service.
// A batch is free, taken, or consumed: trained on. A batch that is returned is free again and goes
// to the next worker that takes one; free batches are taken in ascending order. A batch that was
// consumed never goes to another worker. A worker that goes on from an earlier snapshot asks for
// numbers that it had consumed, and gets the same batches.
//
// Apart from files, sockets and clocks. Not thread-safe.
#ifndef MILLRACE_BATCHES_LEDGER_H_
#define MILLRACE_BATCHES_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace millrace::inline batches {

// A change of the ledger; all of them in order make it again.
struct LedgerEvent {
  enum class Kind : uint8_t {
    kNext = 1,  // the first batch that has never been taken is `batch`
    kFree,      // `batch`, which is below that one, is free
    kTaken,     // `number` of `sequence` is `batch`
    kConsumed,  // `number` of `sequence` has been trained on
    kReturned,  // `number` of `sequence` is no batch any more
    kCut,       // what numbers of `sequence` below `number` were is no longer kept
  };
  Kind kind = Kind::kNext;
  uint64_t sequence = 0, number = 0, batch = 0;
};

class Ledger {
 public:
  // Numbers of a sequence that are kept, at least: the last ones.
  static constexpr size_t kKeptNumbers = size_t{1} << 20;
  // Sequences that are kept, the last used, beside those with taken batches.
  static constexpr size_t kMaxSequences = 4096;

  // `on_event` gets each change when it is made; may be empty.
  explicit Ledger(uint64_t first_batch = 0, std::function<void(const LedgerEvent&)> on_event = {})
      : next_(first_batch), on_event_(std::move(on_event)) {}

  // Makes a recorded change. Returns false, and changes nothing, if it does not fit what was made
  // before: the record is damaged. `on_event` does not get it.
  bool Apply(const LedgerEvent& event);
  // Changes that make a ledger like this one of a new one.
  void ForEachEvent(const std::function<void(const LedgerEvent&)>& each) const;

  bool Knows(uint64_t sequence) const { return sequences_.contains(sequence); }
  // The batch of this number, which counts as taken from now on, if it is not consumed. None: the
  // number is older than what is kept.
  std::optional<uint64_t> Take(uint64_t sequence, uint64_t number);
  // Returns false if the number is not taken by this sequence: the batch was returned.
  bool Consume(uint64_t sequence, uint64_t number);
  // Whether the number is a batch, consumed or not.
  bool Has(uint64_t sequence, uint64_t number) const;
  // Makes the batch of this number free, if it is taken and not consumed.
  void Return(uint64_t sequence, uint64_t number);
  // The same for all numbers of a sequence. Returns how many there were.
  size_t ReturnAll(uint64_t sequence);

  // The sequences with batches that are taken and not consumed.
  std::vector<uint64_t> OpenSequences() const;
  // The batches that will be taken next, in order.
  std::vector<uint64_t> Upcoming(size_t count) const;
  uint64_t next() const { return next_; }

 private:
  enum class State : uint8_t { kNone, kTaken, kConsumed };
  struct Entry {
    uint64_t batch = 0;
    State state = State::kNone;
  };
  struct Sequence {
    uint64_t first = 0;   // number of entries.front()
    bool is_cut = false;  // numbers before it are no longer kept; else they were never taken
    std::deque<Entry> entries;
    std::set<uint64_t> taken;  // numbers
    uint64_t used_at = 0;
  };

  bool IsTaken(uint64_t sequence, uint64_t number) const;
  const Entry* Find(uint64_t sequence, uint64_t number) const;
  // Makes room for the number. Null: it is older than what is kept.
  Entry* At(uint64_t sequence, uint64_t number);
  void DropSequences();
  void Make(const LedgerEvent& event);

  uint64_t next_;
  std::set<uint64_t> free_;  // below next_
  std::map<uint64_t, Sequence> sequences_;
  uint64_t uses_ = 0;
  const std::function<void(const LedgerEvent&)> on_event_;
};

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_LEDGER_H_
