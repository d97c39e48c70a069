// The data wing of one process: opens each source once, whatever the number of
// solvers, and gives every data layer of the same name and scope the same
// stream of batches.
#ifndef MILLRACE_DATA_DATA_SERVICE_H_
#define MILLRACE_DATA_DATA_SERVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/batch_stream.h"
#include "proto/caffe.pb.h"

namespace millrace {

struct DataOptions {
  uint64_t seed = 0;            // names the random streams (shuffle, crop, mirror)
  uint64_t shard_index = 0;     // this process reads records r with
  uint64_t shard_count = 1;     // r % shard_count == shard_index
  ErrorSink* errors = nullptr;  // outlives the service; null: errors surface in Next()
};

// Thread-safe.
class DataService {
 public:
  explicit DataService(const DataOptions& options);
  ~DataService();

  // The stream of `layer` (type Data) in `scope` ("train", "test0", ...). Opens
  // its sources on the first call. Throws FieldError for what is wrong with the
  // layer's fields or its sources, Error if a position given to Restore does not
  // fit.
  std::shared_ptr<BatchStream> Open(const std::string& scope, const caffe::LayerParameter& layer);

  // Where the streams of `scope` stand, for a snapshot.
  std::vector<caffe::StreamPosition> Positions(const std::string& scope) const;
  // Makes streams of `scope`, opened or yet to be opened, continue from there.
  // A stream that has handed out batches cannot be moved (throws Error).
  void Restore(const std::string& scope, const std::vector<caffe::StreamPosition>& positions);

  // Moves the streams of `scope` that are open to batch `number`, however far they are
  // (BatchStream::Seek): no net may hold batches that it has not marked as consumed.
  void Seek(const std::string& scope, uint64_t number);

  // Of all streams, open or yet to be opened: shards that nobody reads, whose records they share
  // with the other shards' readers (BatchStream::SetAbsent).
  void SetAbsentShards(const std::vector<uint64_t>& absent);

  // Wakes everyone who waits for data and joins the reader threads; streams that
  // are opened afterwards give nothing either. Not from a reader thread: an
  // ErrorSink's callback may not call it.
  void Stop();

  const DataOptions& options() const { return options_; }

 private:
  const DataOptions options_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<BatchStream>> streams_;
  std::map<std::pair<std::string, std::string>, caffe::StreamPosition> restored_;
  std::optional<std::vector<uint64_t>> absent_;  // none: nobody has said
  bool stopped_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_DATA_DATA_SERVICE_H_
