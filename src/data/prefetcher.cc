#include "data/prefetcher.h"

#include <glog/logging.h>

#include <atomic>
#include <utility>

#include "base/clock.h"

namespace millrace::inline data {
namespace {

Buffer Allocated(MemorySpace& staging, size_t bytes) {
  try {
    return Buffer(staging, bytes);
  } catch (const OutOfMemory& error) {
    if (&staging == &HostMemory()) throw;
    static std::atomic<bool> warned{false};
    if (!warned.exchange(true)) {
      LOG(WARNING) << "Batches are copied to the device from pageable memory, which is slower: "
                   << error.what();
    }
    return Buffer(HostMemory(), bytes);
  }
}

// Counts the time that it exists as waiting for a batch.
class WaitCount {
 public:
  explicit WaitCount(BatchStream* stream) : stream_(*stream), begin_ns_(SteadyClock().NowNs()) {}
  ~WaitCount() { stream_.AddWait(SteadyClock().NowNs() - begin_ns_); }

 private:
  BatchStream& stream_;
  const int64_t begin_ns_;
};

}  // namespace

// `depth` buffers for ready batches, and those of the batches that the net uses.
Prefetcher::Prefetcher(std::shared_ptr<BatchStream> stream,
                       std::unique_ptr<BatchTransform> transform, int depth, MemorySpace& memory,
                       int net, int held, bool pixels)
    : stream_(std::move(stream)),
      transform_(std::move(transform)),
      buffers_wanted_(depth + held),
      memory_(memory),
      net_(net),
      pixels_(pixels ? transform_->pixel_rule() : nullptr),
      free_(depth + held),
      ready_(depth) {}

Prefetcher::~Prefetcher() {
  free_.Close();
  ready_.Close();
  if (thread_) thread_->Stop();
}

ReadyBatch* Prefetcher::Next() {
  if (!thread_) {
    for (int i = 0; i < buffers_wanted_; ++i) {
      ReadyBatch& batch = *buffers_.emplace_back(std::make_unique<ReadyBatch>());
      batch.shapes = transform_->first_shapes();
      batch.pixels = pixels_;
      batch.memory = Allocated(memory_, batch.bytes());
      free_.Push(&batch);
    }
    thread_ = std::make_unique<Thread>(
        "fetch " + stream_->layer(), [this] { Run(); }, stream_->errors());
  }
  if (ReadyBatch* const ready = TryNext()) return ready;
  const WaitCount count(stream_.get());
  while (const auto batch = ready_.Pop()) {
    if (IsPresent(**batch)) return *batch;
    Recycle(*batch);
  }
  if (error_) std::rethrow_exception(error_);
  throw boost::thread_interrupted();
}

ReadyBatch* Prefetcher::TryNext() {
  while (const auto batch = ready_.TryPop()) {
    if (IsPresent(**batch)) return *batch;
    Recycle(*batch);
  }
  return nullptr;
}

bool Prefetcher::IsPresent(const ReadyBatch& batch) const {
  return batch.seeks == stream_->seeks();
}

void Prefetcher::Recycle(ReadyBatch* batch) { free_.Push(batch); }

void Prefetcher::Run() {
  // Closes ready_ however the thread ends, so that Next() never waits forever.
  try {
    while (const auto buffer = free_.Pop()) {
      if (!stream_->Next(&batch_, net_)) break;
      try {
        Fill(*buffer);
      } catch (const Error&) {
        stream_->ThrowIfDamaged();  // throws the cause if it is damage
        throw;
      }
      stream_->ThrowIfDamaged();
      batch_.records.clear();  // the source may reuse their memory
      if (!ready_.Push(*buffer)) break;
    }
    ready_.Close();
  } catch (const boost::thread_interrupted&) {
    ready_.Close();
    throw;
  } catch (...) {
    error_ = std::current_exception();
    ready_.Close();
    throw;  // to the stream's ErrorSink
  }
}

void Prefetcher::Fill(ReadyBatch* ready) {
  ready->number = batch_.number;
  ready->seeks = batch_.seeks;
  for (size_t i = 0; i < batch_.records.size(); ++i) {
    const RecordView& record = batch_.records[i];
    transform_->Add(stream_->source_path(record.source), record, batch_.first_item + i);
  }
  ready->shapes = transform_->shapes();
  if (pixels_ == nullptr || !Write(pixels_, ready)) Write(nullptr, ready);
}

bool Prefetcher::Write(const PixelRule* pixels, ReadyBatch* ready) {
  ready->pixels = pixels;
  if (ready->memory.bytes() < ready->bytes()) {
    ready->memory.Reset();
    ready->memory = Allocated(memory_, ready->bytes());
  }
  std::vector<float*> tops;
  for (size_t top = 0; top < ready->shapes.size(); ++top) tops.push_back(ready->data(top));
  if (pixels) return transform_->WritePixels(tops.data());
  transform_->Write(tops.data());
  return true;
}

}  // namespace millrace::inline data
