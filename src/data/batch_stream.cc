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
  schedule.stream = options.stream;
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

// A position beyond this is damaged. Items up to it fit in 64 bits.
constexpr uint64_t kMostBatches = uint64_t{1} << 40;

}  // namespace

BatchStream::BatchStream(const BatchStreamOptions& options)
    : options_(options),
      errors_(options.errors ? options.errors : &own_errors_),
      slots_(std::max(1, options.read_ahead)) {
  CHECK_GT(options.batch_size, 0u);
  CHECK_LT(options.batch_size, uint64_t{1} << 23);
  assignments_ = {Initial({})};
  records_ = assignments_[0].schedule->records();
  for (Slot& slot : slots_) {
    slot.records.resize(options.batch_size);
    slot.missing = options.sources.size();
  }
}

BatchStream::~BatchStream() { Stop(); }

uint64_t BatchStream::NumberOf(uint64_t step) const {
  return step < repeated_.size() ? repeated_[step] : first_batch_ + (step - repeated_.size());
}

void BatchStream::StartReaders() {
  started_ = true;
  for (size_t i = 0; i < options_.sources.size(); ++i) {
    readers_.push_back(std::make_unique<Thread>(
        "read " + options_.layer, [this, i] { Read(static_cast<int>(i)); }, errors_));
  }
}

bool BatchStream::Next(Batch* batch, int consumer) {
  boost::unique_lock<boost::mutex> lock(mutex_);
  if (!started_ && !stopped_) StartReaders();
  while (!stopped_ && !error_ && (!IsTurnOf(consumer) || SlotOf(handed_out_).missing > 0)) {
    complete_.wait(lock);
  }
  if (error_) std::rethrow_exception(error_);
  if (stopped_) return false;
  Slot& slot = SlotOf(handed_out_);
  batch->number = NumberOf(handed_out_);
  batch->first_item = batch->number * options_.batch_size;
  batch->seeks = seeks_.load(std::memory_order_relaxed);
  batch->records.swap(slot.records);
  slot.records.resize(options_.batch_size);
  slot.missing = options_.sources.size();
  outstanding_.insert(batch->number);
  ++handed_out_;
  room_.notify_all();
  if (options_.consumers > 1) complete_.notify_all();
  return true;
}

void BatchStream::MarkConsumed(uint64_t number) {
  boost::unique_lock<boost::mutex> lock(mutex_);
  CHECK_EQ(outstanding_.erase(number), 1u) << "batch " << number << " was not handed out";
}

void BatchStream::Read(int source) {
  try {
    // Random access is cheap only with an index; a few steps forward are cheap without.
    const bool indexed =
        options_.shuffle || options_.shard_count > 1 || !options_.draws.empty() || options_.sampler;
    const std::unique_ptr<RecordReader> reader = options_.sources[source]->MakeReader(indexed);
    Assignment assignment;
    for (uint64_t step = 0; WaitForRoom(step, &assignment); ++step) {
      FillShare(source, step, assignment, reader.get());
      Deliver(step);
    }
  } catch (const boost::thread_interrupted&) {
    throw;
  } catch (...) {
    {
      boost::unique_lock<boost::mutex> lock(mutex_);
      if (!error_) error_ = std::current_exception();
      complete_.notify_all();
    }
    throw;  // to errors_
  }
}

bool BatchStream::WaitForRoom(uint64_t step, Assignment* assignment) {
  boost::unique_lock<boost::mutex> lock(mutex_);
  while (!stopped_ && step >= handed_out_ + slots_.size()) room_.wait(lock);
  if (stopped_) return false;
  begun_ = std::max(begun_, step + 1);
  *assignment = AssignmentOf(assignments_, NumberOf(step));
  return true;
}

void BatchStream::FillShare(int source, uint64_t step, const Assignment& assignment,
                            RecordReader* reader) {
  // No lock: no other thread accesses these items until all readers have delivered.
  std::vector<RecordView>& records = SlotOf(step).records;
  const uint64_t first_place =
      assignment.place + (NumberOf(step) - assignment.first_batch) * options_.batch_size;
  for (uint64_t i = 0; i < options_.batch_size; ++i) {
    const RecordLocation location = assignment.schedule->AtPlace(first_place + i);
    if (location.source != source) continue;
    records[i] = reader->At(location.index);
    records[i].source = source;
    TouchPages(records[i].value);
  }
}

void BatchStream::Deliver(uint64_t step) {
  boost::unique_lock<boost::mutex> lock(mutex_);
  if (--SlotOf(step).missing > 0) return;
  ++read_;
  complete_.notify_all();
}

caffe::StreamPosition BatchStream::Position() const {
  boost::unique_lock<boost::mutex> lock(mutex_);
  const uint64_t repeats_done = std::min<uint64_t>(handed_out_, repeated_.size());
  caffe::StreamPosition position;
  position.set_layer(options_.layer);
  position.set_batch_size(options_.batch_size);
  position.set_records(records_);
  std::set<uint64_t> outstanding = outstanding_;
  outstanding.insert(repeated_.begin() + repeats_done, repeated_.end());
  // Batches handed out last and not trained on are simply the next ones, so that a position does not
  // depend on how far solvers read ahead.
  uint64_t next = first_batch_ + (handed_out_ - repeats_done);
  while (!outstanding.empty() && *outstanding.rbegin() + 1 == next) {
    outstanding.erase(--next);
  }
  position.set_next_batch(next);
  for (uint64_t number : outstanding) position.add_outstanding(number);
  const Assignments needed = Needed();
  if (needed.size() == 1 && needed[0].first_batch == 0 && needed[0].schedule->absent().empty()) {
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
  uint64_t oldest = NumberOf(handed_out_);
  if (!outstanding_.empty()) oldest = std::min(oldest, *outstanding_.begin());
  return {assignments_.begin() + (&AssignmentOf(assignments_, oldest) - assignments_.data()),
          assignments_.end()};
}

void BatchStream::SetAbsent(const std::vector<uint64_t>& absent) {
  const auto schedule = std::make_shared<const Schedule>(ScheduleOf(options_, absent));
  boost::unique_lock<boost::mutex> lock(mutex_);
  if (assignments_.back().schedule->absent() == absent) return;
  const uint64_t number =
      first_batch_ + (begun_ > repeated_.size() ? begun_ - repeated_.size() : 0);
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
  if (position.batch_size() != options_.batch_size) {
    throw Error(what, "cannot resume: the snapshot was taken with batch_size ",
                position.batch_size(), ", now it is ", options_.batch_size);
  }
  if (position.records() != records_) {
    throw Error(what, "cannot resume: the snapshot was taken with ", position.records(),
                " records in this process's share of the sources, now there are ", records_);
  }
  const std::set<uint64_t> repeated(position.outstanding().begin(), position.outstanding().end());
  const bool consistent = position.next_batch() < kMostBatches &&
                          repeated.size() == static_cast<size_t>(position.outstanding_size()) &&
                          (repeated.empty() || *repeated.rbegin() < position.next_batch());
  if (!consistent) throw Error(what, "cannot resume: the snapshot's position is damaged");
  Assignments assignments = Restored(position);
  boost::unique_lock<boost::mutex> lock(mutex_);
  if (started_) throw Error(what, "cannot be moved once it has given batches");
  repeated_.assign(repeated.begin(), repeated.end());
  first_batch_ = position.next_batch();
  assignments_ = std::move(assignments);
}

BatchStream::Assignments BatchStream::Restored(const caffe::StreamPosition& position) const {
  constexpr uint64_t kMostPlaces = uint64_t{1} << 62;
  Assignments assignments;
  for (const caffe::ShardAssignment& each : position.assignment()) {
    const std::vector<uint64_t> absent(each.absent().begin(), each.absent().end());
    const bool ascends =
        std::adjacent_find(absent.begin(), absent.end(), std::greater_equal<>()) == absent.end();
    const bool consistent =
        ascends && (absent.empty() || absent.back() < options_.shard_count) &&
        !std::binary_search(absent.begin(), absent.end(), options_.shard_index) &&
        each.first_batch() < kMostBatches && each.place() < kMostPlaces &&
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

void BatchStream::Seek(uint64_t number) {
  std::vector<std::unique_ptr<Thread>> readers;
  {
    boost::unique_lock<boost::mutex> lock(mutex_);
    readers.swap(readers_);
  }
  for (auto& reader : readers) reader->Interrupt();
  readers.clear();  // joins
  boost::unique_lock<boost::mutex> lock(mutex_);
  repeated_.clear();
  first_batch_ = number;
  handed_out_ = read_ = begun_ = 0;
  assignments_ = {Initial(assignments_.back().schedule->absent())};
  outstanding_.clear();
  for (Slot& slot : slots_) slot.missing = options_.sources.size();
  seeks_.fetch_add(1, std::memory_order_release);
  if (started_ && !stopped_) StartReaders();
}

void BatchStream::Stop() {
  std::vector<std::unique_ptr<Thread>> readers;
  {
    boost::unique_lock<boost::mutex> lock(mutex_);
    stopped_ = true;
    complete_.notify_all();
    room_.notify_all();
    readers.swap(readers_);
  }
  for (auto& reader : readers) reader->Interrupt();
  readers.clear();  // joins
}

void BatchStream::ThrowIfDamaged() const {
  for (const auto& source : options_.sources) source->ThrowIfDamaged();
}

RecordView BatchStream::FirstRecord() const {
  return options_.sources[0]->MakeReader(false)->At(0);
}

uint64_t BatchStream::batches_read() const {
  boost::unique_lock<boost::mutex> lock(mutex_);
  return read_;
}

}  // namespace millrace::inline data
