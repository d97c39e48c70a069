// Decides which batches are made, in which slots of the memory, and who gets them.
//
// A consumer is the connection of one data layer of a worker. It asks for numbers of its worker's
// sequence (batches/ledger.h). Where each batch goes to one worker, the ledger says which batch a
// number is; where all workers get the same, number n is batch n. The consumers of one sequence are
// the data layers of one net: they get the same batches.
//
// A slot holds a batch until all consumers that are to get it have released it. What a consumer has
// asked for and not released is limited, so a slow one keeps a limited number of slots. Where each
// batch goes to one worker, the others go on with the other slots. Where all get the same, nobody
// gets ahead of the slowest by more than the slots; a consumer that is further behind, because it
// began or went on late, does not count, and its batches are made again for it.
//
// Apart from memory, sockets and clocks. Not thread-safe.
#ifndef MILLRACE_BATCHES_DISPATCHER_H_
#define MILLRACE_BATCHES_DISPATCHER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "batches/ledger.h"

namespace millrace::inline batches {

struct DispatcherConfig {
  size_t slots = 16;
  size_t credit = 4;  // batches that a consumer has asked for and not released
  size_t ahead = 4;   // batches that are made before anybody has asked for them
};

class Dispatcher {
 public:
  using ConsumerId = uint64_t;

  // `ledger`: where each batch goes to one worker; outlives this object. Null: all get the same.
  Dispatcher(const DispatcherConfig& config, Ledger* ledger);

  // Returns false if the slots do not suffice for one more.
  bool Add(ConsumerId id, uint64_t sequence);
  // Releases what it has. What it has taken stays taken in the ledger.
  void Remove(ConsumerId id);

  // As Remove, except that the slots that were delivered to it stay as they are until Remove: it
  // may still read them.
  void Abandon(ConsumerId id);

  // Returns false if the consumer asks for more than its credit, or for a number that is older than
  // what the ledger keeps.
  bool Want(ConsumerId id, uint64_t number);
  // The slot is no longer read for this consumer, but the number still counts.
  void LeaveSlot(ConsumerId id, uint64_t number);
  void Release(ConsumerId id, uint64_t number);
  // The worker will not train on it: others may.
  void Drop(ConsumerId id, uint64_t number);

  struct Job {
    size_t slot;
    uint64_t batch;
  };
  // A batch to make now. Done says that it is made.
  std::optional<Job> NextJob();
  void Done(size_t slot);

  struct Delivery {
    ConsumerId to;
    uint64_t number, batch;
    size_t slot;
  };
  // A batch to send now. The slot keeps it until LeaveSlot, Release, Drop or Remove.
  std::optional<Delivery> NextDelivery();
  // False: there is none.
  bool may_deliver() const { return !deliverable_.empty(); }

  size_t consumers() const { return consumers_.size(); }
  struct Demand {
    size_t waiting = 0;  // consumers that want batches and have none
    size_t wanted = 0;   // batches that were asked for and not delivered, by all of them
  };
  Demand demand() const;
  // Slots that hold a batch, or will.
  size_t used_slots() const { return by_batch_.size(); }
  // Batches made so far.
  uint64_t made() const { return made_; }

 private:
  struct Wanted {
    uint64_t batch = 0;
    bool is_delivered = false;
    bool in_slot = false;  // delivered, and the slot is still read
  };
  struct Consumer {
    uint64_t sequence = 0;
    bool has_begun = false, is_abandoned = false;
    uint64_t floor = 0;  // it will not ask for lower numbers
    std::map<uint64_t, Wanted> wants;
  };
  enum class State { kFree, kFilling, kReady };
  struct Slot {
    State state = State::kFree;
    uint64_t batch = 0;
    bool is_assigned = false;      // to consumers; else it was made ahead
    uint64_t number = 0;           // of the consumers' sequence
    std::set<ConsumerId> pending;  // have not released it
    int readers = 0;               // deliveries that are still read
  };

  // The consumers that are to get number `number` of `sequence`.
  std::set<ConsumerId> Receivers(uint64_t sequence, uint64_t number) const;
  void Assign(Slot* slot, uint64_t sequence, uint64_t number, ConsumerId wanted_by);
  // The consumer has asked for all numbers below `floor` that it ever will.
  void Pass(ConsumerId id, Consumer* consumer);
  void Leave(ConsumerId id, Consumer* consumer, uint64_t number);
  void FreeIfDone(size_t slot);
  void Free(size_t slot);
  bool IsWanted(uint64_t batch) const;
  std::optional<size_t> FreeSlot() const;
  // A slot for a batch that is wanted, if need be of a later batch.
  std::optional<size_t> MakeRoom(uint64_t batch);
  Job Begin(size_t slot, uint64_t batch);
  std::vector<uint64_t> Ahead() const;

  const DispatcherConfig config_;
  Ledger* const ledger_;
  std::vector<Slot> slots_;
  std::map<uint64_t, size_t> by_batch_;
  std::map<ConsumerId, Consumer> consumers_;
  std::set<uint64_t> missing_;  // batches that are wanted and in no slot
  std::deque<std::pair<ConsumerId, uint64_t>> deliverable_;
  uint64_t end_ = 0;  // where all get the same: the first batch that nobody has asked for
  uint64_t made_ = 0;
};

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_DISPATCHER_H_
