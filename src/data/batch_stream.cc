#include "data/batch_stream.h"

#include <glog/logging.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace millrace::inline data {
namespace {

ScheduleOptions ScheduleOf(const BatchStreamOptions& options, const std::vector<uint64_t>& absent) {
  ScheduleOptions schedule;
  for (const auto& source : options.sources) schedule.sizes.push_back(source->size());
  schedule.shard_index = options.shard_index;
  schedule.shard_count = options.shard_count;
  schedule.absent = absent;
  schedule.shuffle = options.shuffle;
  schedule.groups = options.groups;
  schedule.draws = options.draws;
  schedule.sampler = options.sampler;
  schedule.rand_skip = options.rand_skip;
  schedule.seed = options.seed;
  schedule.stream = options.order;
  schedule.items = options.items;
  return schedule;
}

// Takes page faults on the reader's thread instead of the thread that computes.
void TouchPages(std::string_view bytes) {
  constexpr size_t kPage = 4096;
  volatile char sink = 0;
  for (size_t at = 0; at < bytes.size(); at += kPage) sink = bytes[at];
  if (!bytes.empty()) sink = bytes.back();
  (void)sink;
}

// A position beyond these is damaged. Items up to them fit in 64 bits.
constexpr uint64_t kMaxBatches = uint64_t{1} << 40;
constexpr uint64_t kMaxPlaces = uint64_t{1} << 62;
constexpr uint64_t kMaxBatchSize = uint64_t{1} << 23;

}  // namespace

BatchStream::BatchStream(const BatchStreamOptions& options)
    : options_(options),
      batch_source_(BatchSourceOf(options.sources)),
      errors_(options.errors ? options.errors : &own_errors_),
      sequence_(options.sequence ? options.sequence : std::make_shared<BatchSequence>()) {
  CHECK_GT(options.batch_size, 0u);
  CHECK_LT(options.batch_size, kMaxBatchSize);
  CHECK_GT(options.read_ahead, 0);
  assignments_ = {Initial({})};
  records_ = assignments_[0].schedule->records();
  boost::unique_lock<boost::mutex> lock(sequence_->mutex());
  sequence_->AddStream();
}

BatchStream::~BatchStream() { Stop(); }

void BatchStream::SetOrder(const std::vector<uint64_t>& groups, uint64_t items) {
  boost::unique_lock<boost::mutex> lock(sequence_->mutex());
  CHECK(!started_);
  options_.groups = groups;
  options_.items = items;
  const Assignment initial = Initial(assignments_.back().schedule->absent());
  records_ = initial.schedule->records();
  assignments_ = {initial};
  if (restored_) assignments_ = Fits(*restored_) ? Restored(*restored_) : Mapped(*restored_);
}

void BatchStream::StartReaders() {
  if (!started_ && restored_ && !batch_source_ && !Fits(*restored_)) {
    const Assignment& next = AssignmentOf(assignments_, restored_->next_batch());
    const uint64_t place =
        next.place + (restored_->next_batch() - next.first_batch) * options_.batch_size;
    LOG(WARNING) << "data layer '" << options_.layer << "': the snapshot was taken with "
                 << (restored_->records() >= kFirstSequenceId
                         ? std::string("batches of a service")
                         : StrCat(restored_->records(), " records"))
                 << " and batch_size " << restored_->batch_size() << ", now there are " << records_
                 << " records and batch_size " << options_.batch_size
                 << " in this process: it goes on with record " << place % records_ << " of epoch "
                 << place / records_;
  }
  started_ = true;
  for (size_t i = 0; i < options_.sources.size(); ++i) {
    readers_.push_back(std::make_unique<Thread>(
        "read " + options_.layer, [this, i] { Read(static_cast<int>(i)); }, errors_));
  }
}

bool BatchStream::Next(Batch* batch, int net) {
  boost::unique_lock<boost::mutex> lock(sequence_->mutex());
  if (!started_ && !stopped_) StartReaders();
  uint64_t step = 0, pass = 0;
  while (!stopped_ && !error_) {
    pass = next_pass_.try_emplace(net, sequence_->FirstPass(net)).first->second;
    step = sequence_->StepOf(net, pass);
    if (IsComplete(step)) break;
    if (step >= wanted_end_) {
      wanted_end_ = step + 1;
      room_.notify_all();
    }
    complete_.wait(lock);
  }
  if (error_) std::rethrow_exception(error_);
  if (stopped_) return false;
  ++next_pass_[net];
  sequence_->OnTaken(net, pass);
  Take(step, batch);
  room_.notify_all();
  return true;
}

bool BatchStream::IsComplete(uint64_t step) const {
  CHECK_GE(step, first_step_);
  return step - first_step_ < slots_.size() && slots_[step - first_step_].missing == 0;
}

void BatchStream::Take(uint64_t step, Batch* batch) {
  Slot& slot = slots_[step - first_step_];
  CHECK(!slot.taken);
  batch->number = sequence_->NumberOf(step);
  batch->first_item = batch->number * options_.batch_size;
  batch->seeks = sequence_->seeks();
  batch->records.swap(slot.records);
  slot.taken = true;
  slot.records.clear();  // and their owners
  spare_.push_back(std::move(slot.records));
  taken_end_ = std::max(taken_end_, step + 1);
  while (!slots_.empty() && slots_.front().taken) {
    slots_.pop_front();
    ++first_step_;
  }
}

BatchStream::Slot& BatchStream::SlotOf(uint64_t step) {
  while (step - first_step_ >= slots_.size()) {
    Slot& slot = slots_.emplace_back();
    slot.missing = options_.sources.size();
    if (!spare_.empty()) {
      slot.records = std::move(spare_.back());
      spare_.pop_back();
    }
    slot.records.resize(options_.batch_size);
  }
  return slots_[step - first_step_];
}

void BatchStream::MarkConsumed(uint64_t number) {
  {
    boost::unique_lock<boost::mutex> lock(sequence_->mutex());
    sequence_->MarkConsumed(number);
  }
  if (batch_source_) batch_source_->MarkConsumed(number);
}

void BatchStream::Read(int source) {
  try {
    // Random access is cheap only with an index; a few steps forward are cheap without.
    const bool indexed =
        options_.shuffle || options_.shard_count > 1 || !options_.draws.empty() || options_.sampler;
    if (batch_source_) batch_source_->Begin(layer(), sequence_->id(), sequence_->is_resumed());
    const std::unique_ptr<RecordReader> reader = options_.sources[source]->MakeReader(indexed);
    Assignment assignment;
    uint64_t number = 0;
    for (uint64_t step = 0; Slot* const slot = WaitForRoom(step, &assignment, &number); ++step) {
      // No lock: no other thread accesses these items until all readers have delivered.
      FillShare(source, number, assignment, reader.get(), &slot->records);
      Deliver(slot);
    }
  } catch (const boost::thread_interrupted&) {
    throw;
  } catch (...) {
    {
      boost::unique_lock<boost::mutex> lock(sequence_->mutex());
      if (!error_) error_ = std::current_exception();
      complete_.notify_all();
    }
    throw;  // to errors_
  }
}

BatchStream::Slot* BatchStream::WaitForRoom(uint64_t step, Assignment* assignment,
                                            uint64_t* number) {
  boost::unique_lock<boost::mutex> lock(sequence_->mutex());
  while (!stopped_ && !HasRoom(step)) room_.wait(lock);
  if (stopped_) return nullptr;
  sequence_->OnBegun(step);
  *number = sequence_->NumberOf(step);
  *assignment = AssignmentOf(assignments_, *number);
  return &SlotOf(step);
}

void BatchStream::FillShare(int source, uint64_t number, const Assignment& assignment,
                            RecordReader* reader, std::vector<RecordView>* records) const {
  if (batch_source_) {
    records->resize(1);
    records->front() = reader->At(number);
    TouchPages(records->front().value);
    return;
  }
  const uint64_t first_place =
      assignment.place + (number - assignment.first_batch) * options_.batch_size;
  for (uint64_t i = 0; i < options_.batch_size; ++i) {
    const RecordLocation location = assignment.schedule->AtPlace(first_place + i);
    if (location.source != source) continue;
    RecordView& record = (*records)[i];
    record = reader->At(location.index);
    record.source = source;
    TouchPages(record.value);
  }
}

void BatchStream::Deliver(Slot* slot) {
  boost::unique_lock<boost::mutex> lock(sequence_->mutex());
  if (--slot->missing > 0) return;
  ++read_;
  complete_.notify_all();
}

caffe::StreamPosition BatchStream::Position() const {
  boost::unique_lock<boost::mutex> lock(sequence_->mutex());
  return PositionLocked();
}

std::vector<caffe::StreamPosition> BatchStream::Positions(
    const std::vector<BatchStream*>& streams) {
  std::vector<caffe::StreamPosition> positions;
  if (streams.empty()) return positions;
  boost::unique_lock<boost::mutex> lock(streams[0]->sequence_->mutex());
  for (const BatchStream* stream : streams) positions.push_back(stream->PositionLocked());
  return positions;
}

caffe::StreamPosition BatchStream::PositionLocked() const {
  const BatchSequence::Position taken = sequence_->GetPosition();
  caffe::StreamPosition position;
  position.set_layer(options_.layer);
  position.set_batch_size(options_.batch_size);
  position.set_records(batch_source_ ? sequence_->id() : records_);
  position.set_next_batch(taken.next_batch);
  for (const uint64_t number : taken.outstanding) position.add_outstanding(number);
  const Assignments needed = Needed();
  const Assignment& first = needed[0];
  if (needed.size() == 1 && first.first_batch == 0 && first.place == first.schedule->skip() &&
      first.schedule->absent().empty()) {
    return position;  // the same as at the start
  }
  for (const Assignment& each : needed) {
    caffe::ShardAssignment* const assignment = position.add_assignment();
    assignment->set_first_batch(each.first_batch);
    assignment->set_place(each.place);
    for (const uint64_t shard : each.schedule->absent()) assignment->add_absent(shard);
  }
  return position;
}

BatchStream::Assignment BatchStream::Initial(const std::vector<uint64_t>& absent) const {
  const auto schedule = std::make_shared<const Schedule>(ScheduleOf(options_, absent));
  return {0, schedule->skip(), schedule};
}

const BatchStream::Assignment& BatchStream::AssignmentOf(const Assignments& assignments,
                                                         uint64_t number) {
  const auto after = std::upper_bound(
      assignments.begin() + 1, assignments.end(), number,
      [](uint64_t wanted, const Assignment& each) { return wanted < each.first_batch; });
  return *(after - 1);
}

BatchStream::Assignments BatchStream::Needed() const {
  uint64_t oldest = sequence_->Oldest();
  // This stream may be behind the layer that has drawn a batch.
  for (uint64_t step = first_step_; step < wanted_end_; ++step) {
    oldest = std::min(oldest, sequence_->NumberOf(step));
  }
  return {assignments_.begin() + (&AssignmentOf(assignments_, oldest) - assignments_.data()),
          assignments_.end()};
}

void BatchStream::SetAbsent(const std::vector<BatchStream*>& streams,
                            const std::vector<uint64_t>& absent) {
  if (streams.empty()) return;
  boost::unique_lock<boost::mutex> lock(streams[0]->sequence_->mutex());
  for (BatchStream* stream : streams) stream->SetAbsentLocked(absent);
}

void BatchStream::SetAbsentLocked(const std::vector<uint64_t>& absent) {
  if (batch_source_ || assignments_.back().schedule->absent() == absent) return;
  const auto schedule = std::make_shared<const Schedule>(ScheduleOf(options_, absent));
  const uint64_t number = sequence_->FirstUnread();
  const Assignment last = assignments_.back();
  // Removes the last assignment if no batch has been read with it.
  const uint64_t batches = number - std::min(number, last.first_batch);
  if (batches == 0) assignments_.pop_back();
  const uint64_t place = last.place + batches * options_.batch_size;
  assignments_.push_back(
      {std::max(number, last.first_batch), schedule->PlaceAfter(*last.schedule, place), schedule});
  assignments_ = Needed();
}

void BatchStream::Restore(const caffe::StreamPosition& position) {
  const std::string what = StrCat("data layer '", options_.layer, "': ");
  const std::set<uint64_t> outstanding(position.outstanding().begin(),
                                       position.outstanding().end());
  const bool consistent = position.next_batch() < kMaxBatches && position.records() > 0 &&
                          position.batch_size() > 0 && position.batch_size() < kMaxBatchSize &&
                          outstanding.size() == static_cast<size_t>(position.outstanding_size()) &&
                          (outstanding.empty() || *outstanding.rbegin() < position.next_batch());
  if (!consistent) throw Error(what, "cannot resume: the snapshot's position is damaged");
  Assignments assignments = batch_source_    ? assignments_
                            : Fits(position) ? Restored(position)
                                             : Mapped(position);
  boost::unique_lock<boost::mutex> lock(sequence_->mutex());
  if (started_ || sequence_->has_drawn())
    throw Error(what, "cannot be moved once it has given batches");
  if (batch_source_) ResumeSequence(position);
  sequence_->Restore({position.next_batch(), outstanding});
  assignments_ = std::move(assignments);
  restored_ = position;
}

void BatchStream::ResumeSequence(const caffe::StreamPosition& position) {
  if (position.records() < kFirstSequenceId) {
    LOG(WARNING) << "data layer '" << options_.layer << "': the snapshot was taken with "
                 << position.records() << " records of another source: of " << source_path(0)
                 << " it takes batches as a new worker";
    return;
  }
  if (position.batch_size() != options_.batch_size) {
    throw Error("data layer '", options_.layer, "': cannot resume: the snapshot was taken with ",
                "batches of ", position.batch_size(), ", but ", source_path(0),
                " gives batches of ", options_.batch_size);
  }
  sequence_->Resume(position.records());
}

bool BatchStream::Fits(const caffe::StreamPosition& position) const {
  return position.batch_size() == options_.batch_size && position.records() == records_;
}

BatchStream::Assignments BatchStream::Mapped(const caffe::StreamPosition& position) const {
  Assignment assignment = Initial({});
  // The number of records is not known if the source gave whole batches.
  const bool was_batches = position.records() >= kFirstSequenceId;
  const uint64_t before = was_batches ? records_ : position.records();
  const uint64_t next = position.next_batch();
  // The place of the next batch in the snapshot's order. What absent shards added is left out.
  uint64_t place = assignment.place + next * position.batch_size();
  for (const caffe::ShardAssignment& each : position.assignment()) {
    if (each.first_batch() > next || each.place() >= kMaxPlaces) continue;
    place = each.place() + (next - each.first_batch()) * position.batch_size();
  }
  const uint64_t epoch = place / before;
  place = epoch * records_ + std::min(place % before, records_);
  // Outstanding batches become those of the new size just before that place.
  const uint64_t first =
      position.outstanding_size() > 0
          ? *std::min_element(position.outstanding().begin(), position.outstanding().end())
          : next;
  const uint64_t back = std::min((next - first), place / options_.batch_size);
  assignment.first_batch = next - back;
  assignment.place = place - back * options_.batch_size;
  return {assignment};
}

BatchStream::Assignments BatchStream::Restored(const caffe::StreamPosition& position) const {
  Assignments assignments;
  for (const caffe::ShardAssignment& each : position.assignment()) {
    const std::vector<uint64_t> absent(each.absent().begin(), each.absent().end());
    const bool ascends =
        std::adjacent_find(absent.begin(), absent.end(), std::greater_equal<>()) == absent.end();
    const bool consistent =
        ascends && (absent.empty() || absent.back() < options_.shard_count) &&
        !std::binary_search(absent.begin(), absent.end(), options_.shard_index) &&
        each.first_batch() < kMaxBatches && each.place() < kMaxPlaces &&
        (assignments.empty() || assignments.back().first_batch < each.first_batch());
    if (!consistent) {
      throw Error("data layer '", options_.layer,
                  "': cannot resume: the snapshot's position is damaged: assignment[",
                  assignments.size(), "]");
    }
    Assignment assignment = Initial(absent);
    assignment.first_batch = each.first_batch();
    assignment.place = each.place();
    assignments.push_back(std::move(assignment));
  }
  if (assignments.empty()) assignments = {Initial({})};
  const uint64_t oldest =
      position.outstanding_size() > 0
          ? *std::min_element(position.outstanding().begin(), position.outstanding().end())
          : position.next_batch();
  if (assignments[0].first_batch > oldest) {
    throw Error("data layer '", options_.layer, "': cannot resume: the snapshot's position is ",
                "damaged: no assignment for batch ", oldest);
  }
  return assignments;
}

void BatchStream::StopReaders() {
  std::vector<std::unique_ptr<Thread>> readers;
  {
    boost::unique_lock<boost::mutex> lock(sequence_->mutex());
    readers.swap(readers_);
  }
  for (auto& reader : readers) reader->Interrupt();
  readers.clear();  // joins
}

void BatchStream::Seek(const std::vector<BatchStream*>& streams, uint64_t number) {
  if (streams.empty()) return;
  for (BatchStream* stream : streams) stream->StopReaders();
  BatchSequence& sequence = *streams[0]->sequence_;
  boost::unique_lock<boost::mutex> lock(sequence.mutex());
  sequence.Seek(number);
  for (BatchStream* stream : streams) {
    stream->assignments_ = {stream->Initial(stream->assignments_.back().schedule->absent())};
    stream->slots_.clear();
    stream->next_pass_.clear();
    stream->first_step_ = stream->taken_end_ = stream->wanted_end_ = stream->read_ = 0;
    if (stream->started_ && !stream->stopped_) stream->StartReaders();
    stream->complete_.notify_all();  // whoever waits asks for the new batch
  }
}

void BatchStream::Stop() {
  {
    boost::unique_lock<boost::mutex> lock(sequence_->mutex());
    stopped_ = true;
    complete_.notify_all();
    room_.notify_all();
  }
  StopReaders();
}

void BatchStream::ThrowIfDamaged() const {
  for (const auto& source : options_.sources) source->ThrowIfDamaged();
}

BatchStream::Access::Access(const BatchStream* stream) : stream_(*stream) {
  for (const auto& source : stream_.options_.sources) readers_.push_back(source->MakeReader(true));
}

void BatchStream::Access::Read(uint64_t number, Batch* batch) {
  batch->number = number;
  batch->first_item = number * stream_.options_.batch_size;
  batch->records.resize(stream_.options_.batch_size);
  const Assignment assignment = AssignmentOf(stream_.assignments_, number);
  for (size_t i = 0; i < readers_.size(); ++i) {
    stream_.FillShare(static_cast<int>(i), number, assignment, readers_[i].get(), &batch->records);
  }
}

RecordView BatchStream::FirstRecord() const {
  CHECK(!batch_source_);
  return options_.sources[0]->MakeReader(false)->At(0);
}

uint64_t BatchStream::batches_read() const {
  boost::unique_lock<boost::mutex> lock(sequence_->mutex());
  return read_;
}

}  // namespace millrace::inline data
