// Interface of a layer: SetUp and Reshape set the shapes, Forward and Backward compute on blobs.
// The files of a layer type are in nn/layers: <name>_layer.h has the formulas, <name>_layer.cc the
// shapes, <name>_layer_cpu.cc the CPU code and its registration. Only the last of these, and others
// named for a backend, may assume where blobs lie.
//
// A layer belongs to one net and is used by one thread at a time.
#ifndef MILLRACE_LAYER_H_
#define MILLRACE_LAYER_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/blob.h"
#include "millrace/caffe.pb.h"
#include "millrace/device.h"
#include "millrace/error.h"
#include "millrace/export.h"

namespace millrace::inline data {
class DataService;  // Millrace's own
}
namespace millrace::inline base {
class UpdateLock;  // Millrace's own
}
namespace millrace::inline collective {
class Collective;  // Millrace's own
}
namespace millrace {

using Blobs = std::vector<Blob*>;

// Scratch memory that all layers of a net share, in the memory of the net's device. Its contents
// are valid within the work of one layer call only.
class MILLRACE_API Scratchpad {
 public:
  // `queue`: of the net, which outlives the scratchpad's last use.
  explicit Scratchpad(Queue& queue = HostQueue()) : queue_(queue) {}

  // Returns at least `bytes` bytes, valid until the next Get by any layer.
  void* Get(size_t bytes) {
    if (buffer_.bytes() < bytes) Grow(bytes);
    return buffer_.get();
  }
  size_t bytes() const { return buffer_.bytes(); }

 private:
  void Grow(size_t bytes) {
    queue_.Synchronize();  // work that has been enqueued may use the old memory
    buffer_ = Buffer(queue_.device().memory(), bytes);
  }

  Queue& queue_;
  Buffer buffer_;
};

// Data that a net passes to its layers. All pointers outlive the layer, except that `queue` ends
// first, after its work.
struct MILLRACE_API LayerContext {
  Device* device = &HostDevice();  // of all blobs
  Queue* queue = &HostQueue();     // of that device; Forward and Backward enqueue their work on it
  caffe::Phase phase = caffe::TRAIN;
  uint64_t seed = 0;                         // of the run; part of the key of every random stream
  uint64_t layer_id = 0;                     // of this layer in its net
  Layout preferred_layout = Layout::kPlain;  // for 4-axis activations
  Scratchpad* scratch = nullptr;
  DataService* data = nullptr;     // null in nets that read no data
  std::string data_scope;          // distinguishes the streams of different nets
  int data_consumer = 0;           // number of this net among those that draw batches of the scope
  const uint64_t* pass = nullptr;  // number of the current forward pass: part of random stream keys
  // Held while a layer writes its own parameters. No lock if it or what it points to is null.
  UpdateLock* const* update_lock = nullptr;
  // Sums statistics over nets that step together. None if it or what it points to is null.
  Collective* const* collective = nullptr;
};

// A learnable array.
struct Param {
  std::shared_ptr<Blob> blob;
  caffe::FillerParameter filler;
  // Whether diff() already holds a part of this iteration's gradient. If so, Backward adds to it;
  // otherwise Backward overwrites it. Shared by all layers that share the parameter.
  std::shared_ptr<bool> has_gradient = std::make_shared<bool>(false);
  bool wanted = true;  // lr_mult != 0: Backward computes the gradient
};

struct Arity {
  int min_bottom = 1, max_bottom = 1;
  int min_top = 1, max_top = 1;
};

class MILLRACE_API Layer {
 public:
  Layer(const caffe::LayerParameter& param, const LayerContext& context)
      : param_(param), context_(context) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // The numbers of bottoms and tops that the layer accepts.
  virtual Arity arity() const { return {}; }
  // The type-specific fields of LayerParameter that the layer reads. As in Caffe, any other such
  // field ("pooling_param" on a convolution) is ignored; the net has a notice about it.
  virtual std::set<std::string> fields() const { return {}; }
  // The keys of custom_param that the layer reads, the parameters of layers outside of Millrace:
  //   custom_param { key: "scale" value: "0.5" }
  // Any other key is an error in the net.
  virtual std::set<std::string> custom_params() const { return {}; }
  // The memory order that bottom[i] must have, given its shape and current order. The net inserts a
  // conversion where they differ. The default accepts 4-axis blobs in plain order only.
  virtual Layout BottomLayout(int i, const Blob& bottom) const {
    (void)i, (void)bottom;
    return Layout::kPlain;
  }

  // Reads the layer's parameters and declares params(). The shapes of the bottoms are set. Throws
  // FieldError.
  virtual void SetUp(const Blobs& bottom, const Blobs& top) { (void)bottom, (void)top; }
  // Sets the shapes of the tops and prepares to compute. Called after SetUp and after every change
  // of a bottom's shape. Throws Error if the shapes do not fit.
  virtual void Reshape(const Blobs& bottom, const Blobs& top) = 0;

  // Enqueues work on the context's queue that writes top[..]->data(). The work runs after all that
  // was enqueued before, and the caller waits for it before the host reads results. Code for the
  // host may compute at once and ignore the queue.
  virtual void Forward(const Blobs& bottom, const Blobs& top) = 0;
  // Given top[..]->diff(), enqueues work that writes bottom[i]->diff() where propagate_down[i] is
  // true, and the gradients of the wanted params (see Param::has_gradient).
  virtual void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                        const Blobs& bottom) = 0;

  // Called when the work of the last Forward has completed, before its results are used. Throws
  // Error for values of the bottoms that Forward could not judge when it enqueued the work. Cheap.
  virtual void CheckForward(const Blobs& bottom) { (void)bottom; }

  // Called when the solver has finished an iteration, or a test one batch. The data that the passes
  // since the last call took from a data source then counts as consumed. A layer that changes its
  // own params() other than by gradients (statistics) does so here, not in Forward: on a failed
  // iteration this is not called.
  virtual void EndIteration() {}

  // The default weight of top[i] in the objective: 1 for a loss's first top.
  virtual float DefaultLossWeight(int top) const { return (void)top, 0; }
  // Whether a gradient can flow to bottom[i] (false for labels).
  virtual bool AllowBackward(int bottom) const { return (void)bottom, true; }
  // Whether top[i] may be the same blob as bottom[i].
  virtual bool MayWorkInPlace() const { return false; }
  // Whether the tops use the memory of bottom[0] for their values.
  virtual bool SharesData() const { return false; }
  // The net calls this if the layer shares data and a later layer works in place on its top: others
  // may need the values of the bottom. From then on the top has memory of its own.
  virtual void StopSharing(const Blobs& top) { (void)top; }
  // Whether the shapes of the tops depend on values of the bottoms. The net then calls Reshape
  // before each Forward, when the values have been computed, and after it Reshape of all layers
  // that depend on the tops. The Reshape when the net is built gives the largest shapes where they
  // are known, so that no later pass allocates memory.
  virtual bool ReshapesInForward() const { return false; }
  // Whether the net creates missing tops, with generated names.
  virtual bool AutoTop() const { return false; }
  // Examples that one pass takes from a data source; 0 for other layers.
  virtual int64_t batch_size() const { return 0; }

  const caffe::LayerParameter& param() const { return param_; }
  const std::string& name() const { return param_.name(); }
  const std::string& type() const { return param_.type(); }
  std::vector<Param>& params() { return params_; }

 protected:
  // Declares a learnable array. Index 0 is the weights, 1 the bias.
  void AddParam(const Shape& shape, const caffe::FillerParameter& filler) {
    Param param;
    param.blob = std::make_shared<Blob>(shape, memory());
    param.filler = filler;
    params_.push_back(std::move(param));
  }

  // The number in custom_param `key`, or `default_value` if it is not set. Throws FieldError if it
  // is not a finite number.
  double CustomNumber(const std::string& key, double default_value) const;
  // The text in custom_param `key`, or `default_value` if it is not set.
  std::string CustomText(const std::string& key, const std::string& default_value) const;

  // On the host: excludes exchanges while the layer writes its params() in EndIteration. May be
  // null.
  UpdateLock* update_lock() const {
    return context_.update_lock == nullptr ? nullptr : *context_.update_lock;
  }

  // The nets whose passes are synchronous with this one's, this one included: sums over their
  // batches. May be null.
  Collective* collective() const {
    return context_.collective == nullptr ? nullptr : *context_.collective;
  }

  // The memory that holds the layer's blobs.
  MemorySpace& memory() const { return context_.device->memory(); }

  caffe::LayerParameter param_;
  LayerContext context_;
  std::vector<Param> params_;
};

// Factories of layers by (type, device). A type whose code is the same on all devices is registered
// without a device.
class MILLRACE_API LayerRegistry {
 public:
  using Factory =
      std::function<std::unique_ptr<Layer>(const caffe::LayerParameter&, const LayerContext&)>;
  static LayerRegistry& Get();

  // Keeps the first layer of a type and device. A second one is an error when plugins are loaded
  // and when a session starts.
  void Register(const std::string& type, std::optional<DeviceType> device, Factory factory);
  // Creates the layer for context.device. Throws FieldError("type", ...) that lists the known
  // types, or the devices that a known type runs on.
  std::unique_ptr<Layer> Create(const caffe::LayerParameter& param,
                                const LayerContext& context) const;
  // Why Create would throw for a layer of `type` on `device`; "" if it would not.
  std::string WhyNot(const std::string& type, const Device& device) const;
  // The types that run on `device`, in alphabetical order.
  std::vector<std::string> Types(DeviceType device) const;
  // Whether any type is registered for this device.
  bool HasCodeFor(DeviceType device) const;

 private:
  const std::map<std::optional<DeviceType>, Factory>* FindType(const std::string& type) const;

  mutable std::mutex mutex_;  // of the map
  // By type; without a device: for all. Entries stay where they are.
  std::map<std::string, std::map<std::optional<DeviceType>, Factory>> factories_;
};

// Registers a layer class. Define one at namespace scope: with a device in the file with the
// layer's code for it, without one if the class uses only functions of Queue and Blob.
template <typename LayerClass>
struct RegisterLayer {
  explicit RegisterLayer(const std::string& type, std::optional<DeviceType> device = {}) {
    LayerRegistry::Get().Register(
        type, device, [](const caffe::LayerParameter& param, const LayerContext& context) {
          return std::unique_ptr<Layer>(std::make_unique<LayerClass>(param, context));
        });
  }
};

}  // namespace millrace

#endif  // MILLRACE_LAYER_H_
