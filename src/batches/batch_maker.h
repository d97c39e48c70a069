// Makes the batches of the data layers of a net, by number and in several threads: the same values
// that the layers give to a net which reads by itself.
#ifndef MILLRACE_BATCHES_BATCH_MAKER_H_
#define MILLRACE_BATCHES_BATCH_MAKER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/batch_stream.h"
#include "data/batch_transform.h"
#include "data/data_service.h"
#include "nn/layers/data/batch_data_layer.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline batches {

// Thread-safe after construction.
class BatchMaker {
 public:
  struct LayerInfo {
    std::string name;
    uint64_t batch_size = 0, records = 0;
    std::vector<Shape> shapes;       // of the tops
    std::string transform;           // transform_param, on one line
    uint64_t offset = 0, bytes = 0;  // of its values in a batch: top after top
  };

  // Opens the sources of the data layers that `state` includes. `seed`: that of the run, of which
  // random changes are a function. Throws Error with the position in the file.
  BatchMaker(const caffe::NetParameter& net, const SourceMap& source, const caffe::NetState& state,
             uint64_t seed);
  ~BatchMaker();
  BatchMaker(const BatchMaker&) = delete;
  BatchMaker& operator=(const BatchMaker&) = delete;

  const std::vector<LayerInfo>& layers() const { return infos_; }
  uint64_t bytes() const { return bytes_; }  // of a batch, of all layers
  // Differs for services that give other batches.
  uint64_t fingerprint() const { return fingerprint_; }

  // Used by one thread; the BatchMaker outlives it.
  class Worker {
   public:
    explicit Worker(BatchMaker* maker);
    // Writes the values of batch `number` of all layers to `values`, which has bytes(), at a cache
    // line. Throws Error naming the record.
    void Make(uint64_t number, std::byte* values);

   private:
    struct Part {
      const BatchStream* stream;
      BatchStream::Access access;
      std::unique_ptr<BatchTransform> transform;
      Batch batch = {};
    };
    const BatchMaker& maker_;
    std::deque<Part> parts_;  // by layer
  };

 private:
  void AddLayer(const caffe::LayerParameter& param, caffe::Phase phase, const std::string& scope);

  std::mutex mutex_;  // guards layers_ once there are workers
  DataService data_;
  std::vector<std::unique_ptr<BatchDataLayer>> layers_;
  std::vector<LayerInfo> infos_;
  uint64_t bytes_ = 0, fingerprint_ = 0;
};

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_BATCH_MAKER_H_
