#include "nn/onednn/onednn.h"

#include <glog/logging.h>

#include <algorithm>

namespace millrace::inline nn::onednn {

using Tag = dnnl::memory::format_tag;
constexpr auto kFloat = dnnl::memory::data_type::f32;

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& Stream() {
  thread_local dnnl::stream stream(Engine());
  return stream;
}

Desc DescOf(const Shape& shape, Layout layout) {
  static const Tag plain[] = {Tag::a,    Tag::a,     Tag::ab,    Tag::abc,
                              Tag::abcd, Tag::abcde, Tag::abcdef};
  CHECK_LE(shape.size(), 6u);
  const Shape dims = shape.empty() ? Shape{1} : shape;
  switch (layout) {
    case Layout::kPlain:
      return Desc(dims, kFloat, plain[dims.size()]);
    case Layout::kNhwc:
      return Desc(dims, kFloat, Tag::nhwc);
    case Layout::kBlocked8:
      return Desc(dims, kFloat, Tag::nChw8c);
    case Layout::kBlocked16:
      return Desc(dims, kFloat, Tag::nChw16c);
  }
  LOG(FATAL) << "unknown layout";
}

Desc AnyDesc(const Shape& shape) { return Desc(shape, kFloat, Tag::any); }

dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

PrimitiveDescs Descs() { return PrimitiveDescs(Engine(), Attributes()); }

Op::Op(const dnnl::primitive& primitive, const Desc& scratchpad, Args args, Scratchpad* scratch)
    : primitive_(primitive), scratch_(scratch) {
  for (const auto& [index, desc] : args) {
    args_.emplace(index, Memory(desc, Engine(), DNNL_MEMORY_NONE));
  }
  args_.emplace(DNNL_ARG_SCRATCHPAD, Memory(scratchpad, Engine(), DNNL_MEMORY_NONE));
  scratch_->Get(scratchpad.get_size());  // reserve now, so that the passes do not allocate
}

void Op::Run(Pointers pointers) {
  if (!primitive_) return;  // of an empty Reorder
  for (const auto& [index, pointer] : pointers) {
    args_.at(index).set_data_handle(const_cast<void*>(pointer));
  }
  Memory& scratchpad = args_.at(DNNL_ARG_SCRATCHPAD);
  scratchpad.set_data_handle(scratch_->Get(scratchpad.get_desc().get_size()));
  primitive_.execute(Stream(), args_);
}

Reorder::Reorder(const Desc& from, const Desc& to, Scratchpad* scratch, float beta) {
  // oneDNN 2.6 divides by the size of an array without values.
  const dnnl::memory::dims dims = DimsOf(from);
  if (std::count(dims.begin(), dims.end(), 0) > 0) return;
  dnnl::primitive_attr attributes = Attributes();
  if (beta != 0) {
    dnnl::post_ops post_ops;
    post_ops.append_sum(beta);
    attributes.set_post_ops(post_ops);
  }
  const dnnl::reorder::primitive_desc pd(Engine(), from, Engine(), to, attributes);
  op_ = MakeOp<dnnl::reorder>(pd, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, scratch);
}

GradientTarget::GradientTarget(const Desc& computed, const Desc& plain, Scratchpad* scratch)
    : same_order_(computed == plain), computed_(computed), plain_(plain), scratch_(scratch) {}

float* GradientTarget::Begin(const Param& param) {
  if (same_order_ && !*param.has_gradient && param.wanted) return param.blob->diff();
  if (!buffer_.get()) buffer_ = Buffer(HostMemory(), computed_.get_size());
  return buffer_.get<float>();
}

void GradientTarget::End(const Param& param) {
  if (same_order_ && !*param.has_gradient) return;
  Reorder& reorder = *param.has_gradient ? add_ : copy_;
  if (!reorder) reorder = Reorder(computed_, plain_, scratch_, *param.has_gradient ? 1 : 0);
  reorder.Run(buffer_.get<float>(), param.blob->diff());
}

}  // namespace millrace::inline nn::onednn
