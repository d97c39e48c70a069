#include "batches/ledger.h"

#include <glog/logging.h>

#include <algorithm>

#include "batches/frames.h"

namespace millrace::inline batches {

using Kind = LedgerEvent::Kind;

const Ledger::Entry* Ledger::Find(uint64_t sequence, uint64_t number) const {
  const auto found = sequences_.find(sequence);
  if (found == sequences_.end()) return nullptr;
  const Sequence& each = found->second;
  if (number < each.first || number - each.first >= each.entries.size()) return nullptr;
  return &each.entries[number - each.first];
}

Ledger::Entry* Ledger::At(uint64_t sequence, uint64_t number) {
  const auto [found, is_new] = sequences_.try_emplace(sequence);
  Sequence& each = found->second;
  each.used_at = ++uses_;
  if (is_new) {
    each.first = number;
    DropSequences();
  }
  if (number < each.first) {
    if (each.is_cut || each.first - number > kKeptNumbers) return nullptr;
    for (; each.first > number; --each.first) each.entries.emplace_front();
  }
  if (number - each.first >= each.entries.size() + kKeptNumbers) {
    if (!each.taken.empty()) return nullptr;
    each.entries.clear();
    each.first = number;
    each.is_cut = true;
  }
  while (number - each.first >= each.entries.size()) each.entries.emplace_back();
  while (each.entries.size() > kKeptNumbers && each.entries.front().state != State::kTaken) {
    each.entries.pop_front();
    ++each.first;
    each.is_cut = true;
  }
  return &each.entries[number - each.first];
}

void Ledger::DropSequences() {
  while (sequences_.size() > kMaxSequences) {
    auto oldest = sequences_.end();
    for (auto each = sequences_.begin(); each != sequences_.end(); ++each) {
      if (!each->second.taken.empty() || each->second.used_at == uses_) continue;
      if (oldest == sequences_.end() || each->second.used_at < oldest->second.used_at) {
        oldest = each;
      }
    }
    if (oldest == sequences_.end()) return;
    sequences_.erase(oldest);
  }
}

bool Ledger::Apply(const LedgerEvent& event) {
  if (event.number > kMaxBatchNumber || event.batch > kMaxBatchNumber) return false;
  switch (event.kind) {
    case Kind::kNext:
      if (event.batch < next_ || !sequences_.empty() || !free_.empty()) return false;
      next_ = event.batch;
      return true;
    case Kind::kFree:
      return event.batch < next_ && free_.insert(event.batch).second;
    case Kind::kCut:
      if (sequences_.contains(event.sequence)) return false;
      At(event.sequence, event.number);
      sequences_[event.sequence].is_cut = true;
      return true;
    case Kind::kTaken: {
      const Entry* const before = Find(event.sequence, event.number);
      if (before && before->state != State::kNone) return false;
      // Batches that were taken before a compaction are below next_ and not free.
      if (event.batch > next_) return false;
      Entry* const entry = At(event.sequence, event.number);
      if (entry == nullptr) return false;
      if (event.batch == next_) ++next_;
      free_.erase(event.batch);
      *entry = {event.batch, State::kTaken};
      sequences_[event.sequence].taken.insert(event.number);
      return true;
    }
    case Kind::kConsumed:
    case Kind::kReturned: {
      if (!IsTaken(event.sequence, event.number)) return false;
      Entry* const entry = At(event.sequence, event.number);
      sequences_[event.sequence].taken.erase(event.number);
      if (event.kind == Kind::kConsumed) {
        entry->state = State::kConsumed;
      } else {
        free_.insert(entry->batch);
        entry->state = State::kNone;
      }
      return true;
    }
  }
  return false;
}

void Ledger::Make(const LedgerEvent& event) {
  CHECK(Apply(event));
  if (on_event_) on_event_(event);
}

void Ledger::ForEachEvent(const std::function<void(const LedgerEvent&)>& each) const {
  each({.kind = Kind::kNext, .batch = next_});
  for (const uint64_t batch : free_) each({.kind = Kind::kFree, .batch = batch});
  for (const auto& [id, sequence] : sequences_) {
    if (sequence.is_cut) each({.kind = Kind::kCut, .sequence = id, .number = sequence.first});
    for (size_t i = 0; i < sequence.entries.size(); ++i) {
      const Entry& entry = sequence.entries[i];
      if (entry.state == State::kNone) continue;
      each({Kind::kTaken, id, sequence.first + i, entry.batch});
      if (entry.state == State::kConsumed) each({Kind::kConsumed, id, sequence.first + i, 0});
    }
  }
}

std::optional<uint64_t> Ledger::Take(uint64_t sequence, uint64_t number) {
  const Entry* const before = Find(sequence, number);
  if (before && before->state != State::kNone) return before->batch;
  if (At(sequence, number) == nullptr) return {};
  const uint64_t batch = Upcoming(1)[0];
  Make({Kind::kTaken, sequence, number, batch});
  return batch;
}

bool Ledger::Consume(uint64_t sequence, uint64_t number) {
  const Entry* const entry = Find(sequence, number);
  if (entry && entry->state == State::kConsumed) return true;  // said again, or trained on again
  if (!entry || entry->state != State::kTaken) return false;
  Make({Kind::kConsumed, sequence, number, 0});
  return true;
}

bool Ledger::Has(uint64_t sequence, uint64_t number) const {
  const Entry* const entry = Find(sequence, number);
  return entry && entry->state != State::kNone;
}

bool Ledger::IsTaken(uint64_t sequence, uint64_t number) const {
  const Entry* const entry = Find(sequence, number);
  return entry && entry->state == State::kTaken;
}

void Ledger::Return(uint64_t sequence, uint64_t number) {
  if (IsTaken(sequence, number)) Make({Kind::kReturned, sequence, number, 0});
}

size_t Ledger::ReturnAll(uint64_t sequence) {
  const auto found = sequences_.find(sequence);
  if (found == sequences_.end()) return 0;
  const std::set<uint64_t> taken = found->second.taken;
  for (const uint64_t number : taken) Return(sequence, number);
  return taken.size();
}

std::vector<uint64_t> Ledger::OpenSequences() const {
  std::vector<uint64_t> open;
  for (const auto& [id, sequence] : sequences_) {
    if (!sequence.taken.empty()) open.push_back(id);
  }
  return open;
}

std::vector<uint64_t> Ledger::Upcoming(size_t count) const {
  std::vector<uint64_t> batches;
  for (const uint64_t batch : free_) {
    if (batches.size() == count) return batches;
    batches.push_back(batch);
  }
  for (uint64_t batch = next_; batches.size() < count; ++batch) batches.push_back(batch);
  return batches;
}

}  // namespace millrace::inline batches
