#include "batches/dispatcher.h"

#include <glog/logging.h>

#include <algorithm>

namespace millrace::inline batches {

Dispatcher::Dispatcher(const DispatcherConfig& config, Ledger* ledger)
    : config_(config), ledger_(ledger), slots_(config.slots) {
  CHECK_GT(config.credit, 0u);
  CHECK_GE(config.slots, config.credit);
}

bool Dispatcher::Add(ConsumerId id, uint64_t sequence) {
  if ((consumers_.size() + 1) * config_.credit + config_.ahead > slots_.size()) return false;
  const auto [added, is_new] = consumers_.try_emplace(id);
  CHECK(is_new);
  added->second.sequence = sequence;
  return true;
}

void Dispatcher::Remove(ConsumerId id) {
  const auto found = consumers_.find(id);
  if (found == consumers_.end()) return;
  Consumer consumer = std::move(found->second);
  consumers_.erase(found);
  for (auto& [number, want] : consumer.wants) {
    if (!want.in_slot) continue;
    const size_t slot = by_batch_.at(want.batch);
    --slots_[slot].readers;
    FreeIfDone(slot);
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].pending.erase(id) > 0) FreeIfDone(i);
  }
  std::erase_if(missing_, [&](uint64_t batch) { return !IsWanted(batch); });
}

void Dispatcher::Abandon(ConsumerId id) {
  const auto found = consumers_.find(id);
  if (found == consumers_.end()) return;
  Consumer& consumer = found->second;
  consumer.is_abandoned = true;
  std::erase_if(consumer.wants, [](const auto& want) { return !want.second.in_slot; });
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].pending.erase(id) > 0) FreeIfDone(i);
  }
  std::erase_if(missing_, [&](uint64_t batch) { return !IsWanted(batch); });
}

std::set<Dispatcher::ConsumerId> Dispatcher::Receivers(uint64_t sequence, uint64_t number) const {
  std::set<ConsumerId> receivers;
  for (const auto& [id, consumer] : consumers_) {
    const bool in_step = ledger_ ? consumer.sequence == sequence
                                 : consumer.has_begun && number < consumer.floor + slots_.size();
    if (in_step && !consumer.is_abandoned && consumer.floor <= number) receivers.insert(id);
  }
  return receivers;
}

void Dispatcher::Assign(Slot* slot, uint64_t sequence, uint64_t number, ConsumerId wanted_by) {
  if (!slot->is_assigned) {
    slot->is_assigned = true;
    slot->number = number;
    slot->pending = Receivers(sequence, number);
  }
  slot->pending.insert(wanted_by);
}

bool Dispatcher::Want(ConsumerId id, uint64_t number) {
  Consumer& consumer = consumers_.at(id);
  if (consumer.wants.contains(number)) return true;
  if (consumer.wants.size() >= config_.credit) return false;
  uint64_t batch = number;
  if (ledger_) {
    const std::optional<uint64_t> taken = ledger_->Take(consumer.sequence, number);
    if (!taken) return false;
    batch = *taken;
  } else {
    end_ = std::max(end_, number + 1);
  }
  consumer.wants[number] = {.batch = batch};
  consumer.has_begun = true;
  consumer.floor = consumer.wants.begin()->first;
  Pass(id, &consumer);
  const auto found = by_batch_.find(batch);
  if (found == by_batch_.end()) {
    missing_.insert(batch);
    return true;
  }
  Slot& slot = slots_[found->second];
  Assign(&slot, consumer.sequence, number, id);
  if (slot.state == State::kReady) deliverable_.emplace_back(id, number);
  return true;
}

void Dispatcher::Pass(ConsumerId id, Consumer* consumer) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.number >= consumer->floor || !slot.pending.contains(id)) continue;
    slot.pending.erase(id);
    FreeIfDone(i);
  }
}

void Dispatcher::Leave(ConsumerId id, Consumer* consumer, uint64_t number) {
  Wanted& want = consumer->wants.at(number);
  const auto found = by_batch_.find(want.batch);
  if (found != by_batch_.end()) {
    Slot& slot = slots_[found->second];
    if (want.in_slot) --slot.readers;
    slot.pending.erase(id);
    want.in_slot = false;
    FreeIfDone(found->second);
  }
}

void Dispatcher::LeaveSlot(ConsumerId id, uint64_t number) {
  const auto found = consumers_.find(id);
  if (found == consumers_.end() || !found->second.wants.contains(number)) return;
  if (found->second.wants.at(number).in_slot) Leave(id, &found->second, number);
}

void Dispatcher::Release(ConsumerId id, uint64_t number) {
  const auto found = consumers_.find(id);
  if (found == consumers_.end()) return;
  Consumer& consumer = found->second;
  const auto want = consumer.wants.find(number);
  if (want == consumer.wants.end()) return;
  const uint64_t batch = want->second.batch;
  // After LeaveSlot the batch may be in a slot for others.
  if (want->second.in_slot || !want->second.is_delivered) Leave(id, &consumer, number);
  consumer.wants.erase(want);
  consumer.floor =
      consumer.wants.empty() ? std::max(consumer.floor, number + 1) : consumer.wants.begin()->first;
  if (!IsWanted(batch)) missing_.erase(batch);
}

void Dispatcher::Drop(ConsumerId id, uint64_t number) {
  Release(id, number);
  const auto found = consumers_.find(id);
  if (ledger_ && found != consumers_.end()) ledger_->Return(found->second.sequence, number);
}

bool Dispatcher::IsWanted(uint64_t batch) const {
  return std::any_of(consumers_.begin(), consumers_.end(), [&](const auto& consumer) {
    return std::any_of(
        consumer.second.wants.begin(), consumer.second.wants.end(),
        [&](const auto& want) { return want.second.batch == batch && !want.second.is_delivered; });
  });
}

void Dispatcher::FreeIfDone(size_t index) {
  const Slot& slot = slots_[index];
  if (slot.state == State::kReady && slot.is_assigned && slot.pending.empty() &&
      slot.readers == 0) {
    Free(index);
  }
}

void Dispatcher::Free(size_t index) {
  by_batch_.erase(slots_[index].batch);
  slots_[index] = Slot();
}

std::optional<size_t> Dispatcher::FreeSlot() const {
  // The first ones: the memory of slots that are never needed is never used.
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state == State::kFree) return i;
  }
  return {};
}

std::optional<size_t> Dispatcher::MakeRoom(uint64_t batch) {
  if (const auto free = FreeSlot()) return free;
  for (auto each = by_batch_.rbegin(); each != by_batch_.rend() && each->first > batch; ++each) {
    const size_t index = each->second;
    const Slot& slot = slots_[index];
    if (slot.state != State::kReady || slot.readers > 0) continue;
    if (IsWanted(slot.batch)) missing_.insert(slot.batch);
    Free(index);
    return index;
  }
  if (!ledger_) return {};
  // Batches made ahead, or for a second layer of a net that has not asked for them yet.
  for (const auto& [other, index] : by_batch_) {
    const Slot& slot = slots_[index];
    if (slot.state != State::kReady || slot.readers > 0 || IsWanted(other)) continue;
    const size_t found = index;
    Free(found);
    return found;
  }
  return {};
}

Dispatcher::Job Dispatcher::Begin(size_t index, uint64_t batch) {
  slots_[index] = Slot();
  slots_[index].state = State::kFilling;
  slots_[index].batch = batch;
  by_batch_[batch] = index;
  return {index, batch};
}

std::vector<uint64_t> Dispatcher::Ahead() const {
  if (ledger_) return ledger_->Upcoming(config_.ahead);
  std::vector<uint64_t> batches;
  for (uint64_t i = 0; i < config_.ahead && end_ > 0; ++i) batches.push_back(end_ + i);
  return batches;
}

std::optional<Dispatcher::Job> Dispatcher::NextJob() {
  for (const uint64_t batch : missing_) {
    const std::optional<size_t> index = MakeRoom(batch);
    if (!index) continue;
    missing_.erase(batch);
    const Job job = Begin(*index, batch);
    for (const auto& [id, consumer] : consumers_) {
      for (const auto& [number, want] : consumer.wants) {
        if (want.batch != batch || want.is_delivered) continue;
        Assign(&slots_[*index], consumer.sequence, number, id);
      }
    }
    return job;
  }
  for (const uint64_t batch : Ahead()) {
    if (by_batch_.contains(batch)) continue;
    const std::optional<size_t> index = FreeSlot();
    if (!index) return {};
    if (ledger_) return Begin(*index, batch);
    const std::set<ConsumerId> receivers = Receivers(0, batch);
    if (receivers.empty()) return {};
    const Job job = Begin(*index, batch);
    Slot& slot = slots_[*index];
    slot.is_assigned = true;
    slot.number = batch;
    slot.pending = receivers;
    return job;
  }
  return {};
}

void Dispatcher::Done(size_t index) {
  Slot& slot = slots_[index];
  CHECK(slot.state == State::kFilling);
  slot.state = State::kReady;
  ++made_;
  for (const auto& [id, consumer] : consumers_) {
    for (const auto& [number, want] : consumer.wants) {
      if (want.batch == slot.batch && !want.is_delivered) deliverable_.emplace_back(id, number);
    }
  }
  FreeIfDone(index);
}

Dispatcher::Demand Dispatcher::demand() const {
  Demand demand;
  for (const auto& [id, consumer] : consumers_) {
    if (consumer.is_abandoned) continue;
    const auto wanted = std::count_if(consumer.wants.begin(), consumer.wants.end(),
                                      [](const auto& want) { return !want.second.is_delivered; });
    demand.wanted += static_cast<size_t>(wanted);
    if (wanted > 0 && static_cast<size_t>(wanted) == consumer.wants.size()) ++demand.waiting;
  }
  return demand;
}

std::optional<Dispatcher::Delivery> Dispatcher::NextDelivery() {
  while (!deliverable_.empty()) {
    const auto [id, number] = deliverable_.front();
    deliverable_.pop_front();
    const auto consumer = consumers_.find(id);
    if (consumer == consumers_.end()) continue;
    const auto want = consumer->second.wants.find(number);
    if (want == consumer->second.wants.end() || want->second.is_delivered) continue;
    const auto found = by_batch_.find(want->second.batch);
    if (found == by_batch_.end() || slots_[found->second].state != State::kReady) continue;
    want->second.is_delivered = want->second.in_slot = true;
    ++slots_[found->second].readers;
    return Delivery{id, number, want->second.batch, found->second};
  }
  return {};
}

}  // namespace millrace::inline batches
