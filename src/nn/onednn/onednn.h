// What layers need of oneDNN: descriptors for blobs, and primitives whose
// memory is named at each call.
//
// Debian's oneDNN is built without concurrent execution, so every primitive
// works in the net's own scratchpad (scratchpad_mode::user) and may then be run
// by any one thread at a time.
#ifndef MILLRACE_NN_ONEDNN_ONEDNN_H_
#define MILLRACE_NN_ONEDNN_ONEDNN_H_

#include <dnnl.hpp>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "nn/blob.h"
#include "nn/layer.h"

namespace millrace::onednn {

using Memory = dnnl::memory;
using Desc = dnnl::memory::desc;

const dnnl::engine& Engine();
// The calling thread's stream.
dnnl::stream& Stream();

// A blob of this shape in this order; up to 6 axes, float32. The empty shape
// becomes {1}.
Desc DescOf(const Shape& shape, Layout layout = Layout::kPlain);
inline Desc DescOf(const Blob& blob) { return DescOf(blob.shape(), blob.layout()); }
// Any order that the primitive likes best.
Desc AnyDesc(const Shape& shape);

// Attributes that every primitive here is made with.
dnnl::primitive_attr Attributes();

// A primitive with its arguments' descriptors.
class Op {
 public:
  using Args = std::initializer_list<std::pair<int, Desc>>;
  using Pointers = std::initializer_list<std::pair<int, const void*>>;

  Op() = default;
  // `scratch` outlives the op.
  Op(const dnnl::primitive& primitive, const Desc& scratchpad, Args args, Scratchpad* scratch);

  // Runs on memory given by pointer for each argument of the constructor.
  void Run(Pointers pointers);
  explicit operator bool() const { return static_cast<bool>(primitive_); }

 private:
  dnnl::primitive primitive_;
  std::unordered_map<int, Memory> args_;
  Scratchpad* scratch_ = nullptr;
};

// Creates a primitive of descriptor `pd`, whose type is Primitive.
template <typename Primitive, typename PrimitiveDesc>
Op MakeOp(const PrimitiveDesc& pd, Op::Args args, Scratchpad* scratch) {
  return Op(Primitive(pd), pd.scratchpad_desc(), args, scratch);
}

// Converts between orders; `beta` 1 adds to the destination instead.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const Desc& from, const Desc& to, Scratchpad* scratch, float beta = 0);
  void Run(const float* from, float* to) { op_.Run({{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}); }
  explicit operator bool() const { return static_cast<bool>(op_); }

 private:
  Op op_;
};

// Where a backward pass puts the gradient of one parameter: straight into the
// parameter's diff when the primitive writes plain order and nothing is there
// yet, else into a buffer that is then converted or added. What a primitive
// writes of a parameter that is not wanted stays in the buffer: do not call End.
class GradientTarget {
 public:
  GradientTarget() = default;
  // `computed`: what the primitive writes; `plain`: the parameter in the flat
  // array's order.
  GradientTarget(const Desc& computed, const Desc& plain, Scratchpad* scratch);

  // Where the primitive shall write.
  float* Begin(const Param& param);
  // After it has written.
  void End(const Param& param);

 private:
  bool same_order_ = true;
  Desc computed_, plain_;
  Scratchpad* scratch_ = nullptr;
  Buffer buffer_;
  Reorder copy_, add_;
};

// Throws Error for a shape that oneDNN has no primitive for; `what` names it.
template <typename Body>
auto Describe(const char* what, Body body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    throw Error(what, ": this geometry cannot be computed: ", error.what());
  }
}

}  // namespace millrace::onednn

#endif  // MILLRACE_NN_ONEDNN_ONEDNN_H_
