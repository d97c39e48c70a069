// Nets without a solver: a program builds a net, loads weights, writes the inputs, runs the net and
// reads its blobs.
//
//   auto net = millrace::Net::Open("deploy.prototxt");
//   net->LoadWeights("lenet_iter_10000.caffemodel");
//   net->SetInput("data", pixels);
//   net->Forward();
//   const std::vector<float> scores = net->Values("prob");
#ifndef MILLRACE_NET_H_
#define MILLRACE_NET_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/blob.h"
#include "millrace/error.h"
#include "millrace/export.h"

namespace millrace::caffe {
class Datum;
class NetParameter;
}  // namespace millrace::caffe

namespace millrace {

// The state that decides which layers a net file includes, and the seed of all that is random.
struct NetOptions {
  bool train = false;  // the phase: TRAIN or TEST
  int level = 0;
  std::vector<std::string> stages;
  uint64_t seed = 1;  // of fillers, dropout masks and the like
  // Each blob is in row-major order, in memory of its own: Net::blob and the functions below it
  // then show and change what the layers compute with. Needs more memory and may take longer.
  bool plain_blobs = false;
};

// A layer of a net, in the order of computation. `weights` are learnable arrays, whose data() and
// diff() are row-major; they belong to the net. Several layers may share one's memory.
struct NetLayer {
  std::string name;  // unique; that of the net file, or of a Split between a blob's consumers
  std::string type;
  std::vector<std::string> bottoms, tops;  // blobs, by name
  std::vector<float> loss_weights;         // of the tops, 0 for one that is no loss
  std::vector<Blob*> weights;
};

// A learnable array: `count` floats of weights() from `offset` on, row-major.
struct WeightArray {
  std::string name;  // "<layer>/<number>"
  Shape shape;
  int64_t offset = 0, count = 0;
};

// A blob of a net, by its name in the net file.
struct NetBlob {
  std::string name;
  Shape shape;
};

// A net on the host. One thread at a time uses it, and it computes on that thread; a process may
// have several nets, each in a thread of its own. Values and gradients are copies in row-major
// order, whatever the order in which the net computes.
class MILLRACE_API Net {
 public:
  // Reads the net file. The weights are those of its fillers. Throws Error with one line that names
  // file, line, layer and field.
  static std::unique_ptr<Net> Open(const std::string& net_file, const NetOptions& options = {});
  // The same for the text of a net file; `name` stands for the file in messages.
  static std::unique_ptr<Net> OpenText(const std::string& text, const std::string& name,
                                       const NetOptions& options = {});
  // The same for a message (millrace/caffe.pb.h), which the program may change: shapes of inputs
  // and batch sizes are constant once a net exists.
  static std::unique_ptr<Net> Create(const caffe::NetParameter& param,
                                     const NetOptions& options = {});
  virtual ~Net() = default;

  virtual const std::string& name() const = 0;

  // ---- Weights ----

  // The weights of all parameters, 64-byte aligned arrays with zeros between them; constant
  // address.
  virtual std::span<float> weights() = 0;
  virtual std::span<const float> weights() const = 0;
  virtual std::vector<WeightArray> arrays() const = 0;
  // Copies weights from a .caffemodel by layer name, as Caffe does; returns the number of layers
  // that have the name of one in the file. Other layers keep their weights. Throws Error if there
  // is no such layer, or if numbers or shapes of blobs differ; the weights are then undefined.
  virtual int LoadWeights(const std::string& model_file) = 0;
  // Writes a .caffemodel, in HDF5 if the name ends in .h5. Throws Error naming the file.
  virtual void SaveWeights(const std::string& model_file) const = 0;

  // ---- Passes ----

  // The tops of the Input layers, in the order of the net file.
  virtual std::vector<NetBlob> inputs() const = 0;
  // `values`: of the whole input, row-major. They stay until they are set again, unless a layer
  // works in place on them. Throws Error if the net has no such input, or if their number is
  // another.
  virtual void SetInput(const std::string& input, std::span<const float> values) = 0;
  // Gives the MemoryData layer `layer` its next examples: labels.size() of them, a multiple of its
  // batch size, row-major, whose first batch the next Forward uses. They are copied, not
  // transformed, and repeat until others are given. Throws Error if there is no such layer, or if
  // the sizes do not fit.
  virtual void SetMemoryData(const std::string& layer, std::span<const float> values,
                             std::span<const float> labels) = 0;
  // The same for datums (millrace/caffe.pb.h), raw or encoded images, which are transformed as the
  // layer's transform_param says.
  virtual void SetMemoryData(const std::string& layer, std::span<const caffe::Datum> datums) = 0;
  // Returns the loss: the sum of tops times their loss weights. Throws Error for bad data.
  virtual float Forward() = 0;
  // Computes the gradients of the last Forward's loss. Throws Error if there was no Forward.
  virtual void Backward() = 0;

  // ---- Single layers and live blobs ----

  // By index, as the functions below take it.
  virtual std::vector<NetLayer> layers() const = 0;
  // These throw Error unless the net has plain_blobs.
  //
  // The blob itself, at a constant address; that of the last layer that works in place on it.
  // Its data() and diff() may be written between calls, and it may be given another shape: of an
  // input, all others follow with the next pass or Reshape. Memory that a blob leaves for a larger
  // shape is kept by copies of the Blob object. Throws Error if there is no such blob.
  virtual Blob& blob(const std::string& name) = 0;
  // Gives all blobs the shapes that follow from those of the inputs. Throws Error that names the
  // layer whose blobs do not fit.
  virtual void Reshape() = 0;
  // Computes layers `first` to `last`, both included, from what their bottoms hold; returns their
  // loss. Statistics that a layer keeps (BatchNorm) count the pass, as in Caffe. Throws Error for a
  // range that is none, or bad data.
  virtual float ForwardLayers(size_t first, size_t last) = 0;
  // Computes the gradients of layers `last` down to `first` from the gradients of their tops, which
  // for a loss are its weight from the beginning. As in Caffe, gradients of weights are added to
  // what is there; and with `force_backward: true`, gradients flow from any blob, in a net without
  // a loss.
  virtual void BackwardLayers(size_t last, size_t first) = 0;
  // Sets the gradients of all weights to 0.
  virtual void ClearGradients() = 0;
  // The layers that have the name of one of `other`, a net of this library's that outlives this
  // one, use its weights from now on; weights() and arrays() stay as they are. Throws Error where
  // numbers or shapes differ.
  virtual void ShareWeights(Net& other) = 0;

  // ---- Results ----

  // The blobs that no layer consumes, by name, as in Caffe; and all blobs, in the order of the net
  // file.
  virtual std::vector<NetBlob> outputs() const = 0;
  virtual std::vector<NetBlob> blobs() const = 0;
  // The values and gradients of a blob; of the last one where layers work in place. Throw Error if
  // there is no such blob. A gradient is 0 where none flows; `force_backward: true` in the net file
  // makes it flow to inputs.
  virtual std::vector<float> Values(const std::string& blob) const = 0;
  virtual std::vector<float> Gradients(const std::string& blob) const = 0;
  // The gradients of the weights, laid out like them, after Backward.
  virtual std::span<const float> gradients() const = 0;

 protected:
  Net() = default;
};

}  // namespace millrace

#endif  // MILLRACE_NET_H_
