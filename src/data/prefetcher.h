// One solver's thread between a stream of records and its net. It takes batches from the stream,
// transforms their records into the memory from which the net, or the copy to its device, takes
// them, and keeps a bounded number of them ready.
#ifndef MILLRACE_DATA_PREFETCHER_H_
#define MILLRACE_DATA_PREFETCHER_H_

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "base/threads/cache_line.h"
#include "base/threads/queue.h"
#include "base/threads/thread.h"
#include "data/batch_stream.h"
#include "data/batch_transform.h"
#include "millrace/memory_space.h"

namespace millrace::inline data {

// The values of a batch, in one block of memory that the host accesses.
struct ReadyBatch {
  uint64_t number = 0;        // for BatchStream::MarkConsumed
  uint64_t seeks = 0;         // Batch::seeks
  Buffer memory;              // top after top, each record after record; at least bytes()
  std::vector<Shape> shapes;  // of the tops
  // If not null, the first top holds bytes, of which a device computes the values by this rule.
  const PixelRule* pixels = nullptr;

  float* data(size_t top) const {
    return reinterpret_cast<float*>(memory.get<std::byte>() + offset(top));
  }
  // Where a top begins in the memory: at a cache line.
  size_t offset(size_t top) const {
    size_t bytes = 0;
    for (size_t i = 0; i < top; ++i) bytes += WholeCacheLines(bytes_of(i));
    return bytes;
  }
  // Bytes of all tops.
  size_t bytes() const { return offset(shapes.size()); }

 private:
  size_t bytes_of(size_t top) const {
    return pixels && top == 0 ? pixels->bytes() : ShapeCount(shapes[top]) * sizeof(float);
  }
};

// Only one thread, the solver's, may call Next, TryNext, IsPresent and Recycle.
class Prefetcher {
 public:
  // Keeps at most `depth` >= 1 batches ready beside the `held` >= 1 that the caller may hold at a
  // time, in buffers of `memory`: the staging memory of the
  // device that trains on them. If there is not enough of it, logs one warning in this process and
  // uses pageable memory, which makes the copies slower. The first Next starts the thread.
  // `net`: as in BatchStream::Next. `pixels`: the batches of a transform that has a pixel_rule
  // hold bytes, except those with records that do not.
  Prefetcher(std::shared_ptr<BatchStream> stream, std::unique_ptr<BatchTransform> transform,
             int depth, MemorySpace& memory, int net = 0, int held = 1, bool pixels = false);
  // Stops the thread, also while it waits. Batches that were not consumed stay outstanding in the
  // stream.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Waits for a batch (an interruption point). The caller returns it with Recycle. Throws the error
  // that ended this thread or a reader, or boost::thread_interrupted after the stream has been
  // stopped. After a Seek of the stream, returns only batches from the new position.
  ReadyBatch* Next();
  // The next batch if it is ready; null if it is not, or will not be. For use after Next.
  ReadyBatch* TryNext();
  // Whether the batch was fetched after the last Seek of the stream.
  bool IsPresent(const ReadyBatch& batch) const;
  void Recycle(ReadyBatch* batch);

 private:
  void Run();
  void Fill(ReadyBatch* ready);
  // Writes the records that the transform has to the buffers, as bytes if `pixels` is not null.
  // Returns false if they are not bytes.
  bool Write(const PixelRule* pixels, ReadyBatch* ready);

  const std::shared_ptr<BatchStream> stream_;
  const std::unique_ptr<BatchTransform> transform_;
  const int buffers_wanted_;
  MemorySpace& memory_;
  const int net_;
  const PixelRule* const pixels_;  // of transform_; null: values
  std::vector<std::unique_ptr<ReadyBatch>> buffers_;
  BoundedQueue<ReadyBatch*> free_, ready_;
  Batch batch_;               // used by the thread only
  std::exception_ptr error_;  // written before ready_ is closed, read afterwards
  std::unique_ptr<Thread> thread_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_PREFETCHER_H_
