// The data sources of one process. Opens each source once for all solvers, and gives all data
// layers of the same name and scope the same stream of batches. The streams of a scope share one
// sequence of batch numbers (data/batch_sequence.h) and, where they are shuffled, one order.
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
#include "data/common_order.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

struct DataOptions {
  uint64_t seed = 0;            // part of the key of the random streams (shuffle, crop, mirror)
  uint64_t shard_index = 0;     // this process reads records r with
  uint64_t shard_count = 1;     // r % shard_count == shard_index
  ErrorSink* errors = nullptr;  // outlives the service; null: only Next() reports errors
  // The sampler of the streams of scope "train", checked (data/sampler.h); empty: shard.
  caffe::PartParameter sampler = {};
  // Nets that take turns at the batches of a scope; 0: a batch goes to whichever asks first.
  int consumers = 0;
};

// Thread-safe.
class DataService {
 public:
  explicit DataService(const DataOptions& options);
  ~DataService();

  // Returns the stream of `layer`, of a type that has one (data/stream_options.h),
  // in `scope` ("train", "test0", ...). The first call opens its sources. Throws FieldError for
  // errors in the layer's fields or its sources, Error if a position given to Restore does not fit.
  std::shared_ptr<BatchStream> Open(const std::string& scope, const caffe::LayerParameter& layer);

  // Whether a layer has opened a stream of `scope`.
  bool HasStreams(const std::string& scope) const;
  // The positions of the streams of `scope`, for a snapshot.
  std::vector<caffe::StreamPosition> Positions(const std::string& scope) const;
  // Makes the streams of `scope`, open now or later, continue from `positions`. Throws Error if a
  // stream has handed out batches already.
  void Restore(const std::string& scope, const std::vector<caffe::StreamPosition>& positions);

  // Time for which solvers have waited for batches of `scope`, in ns, over all of its streams.
  int64_t WaitedNs(const std::string& scope) const;

  // Moves the open streams of `scope` to batch `number`, whatever their positions
  // (BatchStream::Seek). No net may hold batches that it has not marked as consumed.
  void Seek(const std::string& scope, uint64_t number);

  // Sets the shards without a reader, for all streams, open now or later. Each stream reads its
  // part of their records (BatchStream::SetAbsent).
  void SetAbsentShards(const std::vector<uint64_t>& absent);

  // Wakes all threads that wait for data and joins the reader threads. Streams that are opened
  // afterwards return no data either. Must not be called by a reader thread, and therefore not by
  // an ErrorSink's callback.
  void Stop();

  const DataOptions& options() const { return options_; }

 private:
  // The streams of one net, or of all train nets, in the order of their opening.
  struct Scope {
    std::shared_ptr<BatchSequence> sequence;
    std::vector<std::unique_ptr<OpenLayer>> layers;
    std::map<std::string, caffe::StreamPosition> restored;  // of layers that are not open, by name

    std::vector<BatchStream*> streams() const;
    std::vector<OpenLayer*> open() const;
    BatchStream* Find(const std::string& layer) const;  // null: not open
  };

  // The caller holds mutex_.
  Scope& ScopeOf(const std::string& name);
  std::unique_ptr<OpenLayer> OpenIn(const Scope& scope, const std::string& name,
                                    const caffe::LayerParameter& layer) const;

  const DataOptions options_;
  const bool same_for_all_;  // all processes read the batches of shard 0 of 1
  mutable std::mutex mutex_;
  std::map<std::string, Scope> scopes_;          // by name
  std::optional<std::vector<uint64_t>> absent_;  // empty: SetAbsentShards was not called
  bool stopped_ = false;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_DATA_SERVICE_H_
