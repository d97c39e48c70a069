// Copies the merged weights of a segment's range to host memory, for tests and snapshots: of each
// chunk that another node masters, the master's weights as this node last saw them. They do not
// hold this node's own progress as long as the master is not known to have merged it.
//
// A request comes from any thread. The thread of the segment serves it, in portions, since the
// exchange's state belongs to that thread.
#ifndef MILLRACE_SEGMENT_MERGED_READER_H_
#define MILLRACE_SEGMENT_MERGED_READER_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "exchange/protocol/exchange.h"

namespace millrace {

class MergedReader {
 public:
  // A step copies about this much, so that heartbeats and the exchange go on between two steps.
  static constexpr size_t kPortionBytes = 1 << 20;

  // `executor` outlives this object, and `exchange`, which works with it, does so too.
  MergedReader(const Exchange* exchange, ChunkExecutor* executor);

  // ---- For any thread; one request at a time. ----

  // Requests the merged weights. `to`: host memory for all floats of the range, which the segment
  // writes until the request has ended. A chunk that this node masters, or has no position of,
  // keeps what `to` holds.
  void Begin(float* to);
  // Waits at most `ms` for the end of the request. True: it has ended.
  bool Wait(int ms);
  // Ends the request: the segment no longer writes to `to`. True: every chunk was read.
  bool End();

  // ---- For the thread of the segment. ----

  // Copies the next portion of a request. True: there is more to copy. Not between a Receive and
  // what ends it (Exchange::has_inflight). Throws Error as the executor does.
  bool Step();
  // The segment has failed: requests end at once, unread.
  void Close();

 private:
  bool HasMerged(uint32_t chunk) const;
  void CopyBatch();

  const Exchange& exchange_;
  ChunkExecutor& executor_;
  Buffer staging_;  // of one batch of chunks, where the executor can write
  std::vector<ChunkOp> ops_;
  std::mutex mutex_;  // of what follows; held while a portion is copied
  std::condition_variable ended_;
  // Null: no request, or it has ended. Changes under the mutex; the segment looks without it.
  std::atomic<float*> to_ = nullptr;
  uint32_t next_ = 0;   // chunk
  bool whole_ = false;  // every chunk of the last request was read
  bool closed_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_MERGED_READER_H_
