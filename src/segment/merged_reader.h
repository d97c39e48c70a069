// Copies the merged weights of a segment's range to host memory, for evaluation and snapshots: for
// each chunk that another node masters, the master's weights as last received. They lack this
// node's progress that the master is not known to have merged.
//
// Any thread may make a request. The segment's thread serves it in portions, because it owns the
// state of the exchange.
#ifndef MILLRACE_SEGMENT_MERGED_READER_H_
#define MILLRACE_SEGMENT_MERGED_READER_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "exchange/protocol/exchange.h"
#include "millrace/device.h"

namespace millrace::inline segment {

class MergedReader {
 public:
  // Approximate bytes copied in a step, so that heartbeats and the exchange continue between steps.
  static constexpr size_t kPortionBytes = 1 << 20;

  // `executor` and the `exchange` that uses it outlive this object.
  MergedReader(const Exchange* exchange, ChunkExecutor* executor);

  // ---- For any thread; one request at a time. ----

  // Requests the merged weights. `to`: host memory for all floats of the range, which the segment
  // writes until the request has ended. Chunks that this node masters, or has no position of, are
  // not written.
  void Begin(float* to);
  // Waits at most `ms` for the end of the request. True: it has ended.
  bool Wait(int ms);
  // Ends the request: the segment no longer writes to `to`. True: every chunk was read.
  bool End();

  // ---- For the segment's thread. ----

  // Copies the next portion of a request. True: there is more to copy. Not between
  // Exchange::Receive and the end of its batch (Exchange::has_inflight). Throws Error as the
  // executor does.
  bool Step();
  // The segment has failed: the current request and all later ones end at once, without weights.
  void Close();

 private:
  bool HasMerged(uint32_t chunk) const;
  void CopyBatch();

  const Exchange& exchange_;
  ChunkExecutor& executor_;
  Buffer staging_;  // for one batch of chunks, in memory that the executor reaches
  std::vector<ChunkOp> ops_;
  std::mutex mutex_;  // guards the following members; held while a portion is copied
  std::condition_variable ended_;
  // Null: no request, or it has ended. Changes under the mutex; Step first reads it without.
  std::atomic<float*> to_ = nullptr;
  uint32_t next_ = 0;   // next chunk to copy
  bool whole_ = false;  // every chunk of the last request was read
  bool closed_ = false;
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_MERGED_READER_H_
