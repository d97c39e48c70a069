// Access to oneDNN for layers: descriptors of blobs, and primitives that take their memory at each
// call.
//
// Debian's oneDNN is built without concurrent execution. Every primitive therefore uses the net's
// own scratchpad (scratchpad_mode::user); any thread may then run it, one at a time.
#ifndef MILLRACE_NN_ONEDNN_ONEDNN_H_
#define MILLRACE_NN_ONEDNN_ONEDNN_H_

#include <dnnl.hpp>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "millrace/blob.h"
#include "millrace/layer.h"
#include "nn/onednn/primitive_descs.h"

namespace millrace::inline nn::onednn {

using Memory = dnnl::memory;
using Desc = dnnl::memory::desc;

const dnnl::engine& Engine();
// The calling thread's stream.
dnnl::stream& Stream();

// The descriptor of a float32 blob with this shape and order, of up to 6 axes. The empty shape
// becomes {1}.
Desc DescOf(const Shape& shape, Layout layout = Layout::kPlain);
inline Desc DescOf(const Blob& blob) { return DescOf(blob.shape(), blob.layout()); }
// A descriptor that leaves the order to the primitive.
Desc AnyDesc(const Shape& shape);

// Attributes of every primitive created here.
dnnl::primitive_attr Attributes();

// Descriptors with these attributes.
PrimitiveDescs Descs();

// A primitive with the descriptors of its arguments.
class Op {
 public:
  using Args = std::initializer_list<std::pair<int, Desc>>;
  using Pointers = std::initializer_list<std::pair<int, const void*>>;

  Op() = default;
  // `scratch` outlives the op.
  Op(const dnnl::primitive& primitive, const Desc& scratchpad, Args args, Scratchpad* scratch);

  // Runs the primitive with one memory pointer for each argument of the constructor.
  void Run(Pointers pointers);
  explicit operator bool() const { return static_cast<bool>(primitive_); }

 private:
  dnnl::primitive primitive_;
  std::unordered_map<int, Memory> args_;
  Scratchpad* scratch_ = nullptr;
};

// Creates a primitive of type Primitive from the descriptor `pd`.
template <typename Primitive, typename PrimitiveDesc>
Op MakeOp(const PrimitiveDesc& pd, Op::Args args, Scratchpad* scratch) {
  return Op(Primitive(pd), pd.scratchpad_desc(), args, scratch);
}

// Converts between memory orders. With `beta` 1 it adds to the destination instead.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const Desc& from, const Desc& to, Scratchpad* scratch, float beta = 0);
  void Run(const float* from, float* to) { op_.Run({{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}); }
  explicit operator bool() const { return static_cast<bool>(op_); }

 private:
  Op op_;
};

// The destination of one parameter's gradient in a backward pass. The primitive writes directly to
// the parameter's diff if it writes plain order and the diff holds no gradient yet. Otherwise it
// writes to a buffer, which End converts or adds. For a parameter that is not wanted, the result
// stays in the buffer: do not call End.
class GradientTarget {
 public:
  GradientTarget() = default;
  // `computed`: the order that the primitive writes; `plain`: the order of the parameter in the
  // flat array.
  GradientTarget(const Desc& computed, const Desc& plain, Scratchpad* scratch);

  // Returns the array that the primitive must write to.
  float* Begin(const Param& param);
  // Call after the primitive has written.
  void End(const Param& param);

 private:
  bool same_order_ = true;
  Desc computed_, plain_;
  Scratchpad* scratch_ = nullptr;
  Buffer buffer_;
  Reorder copy_, add_;
};

// Returns body(). Throws Error, naming `what`, for a shape that oneDNN has no primitive for.
template <typename Body>
auto Describe(const char* what, Body body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    throw Error(what, ": this geometry cannot be computed: ", error.what());
  }
}

}  // namespace millrace::inline nn::onednn

#endif  // MILLRACE_NN_ONEDNN_ONEDNN_H_
