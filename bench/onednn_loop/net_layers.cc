// The steps of each kind of layer.
#include <algorithm>
#include <memory>

#include "bench/onednn_loop/gemm_conv.h"
#include "bench/onednn_loop/kernels.h"
#include "bench/onednn_loop/net.h"
#include "nn/onednn/primitive_descs.h"

namespace onednn_loop {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using millrace::onednn::PrimitiveDescs;
using Desc = memory::desc;
using Dims = memory::dims;
using Tag = memory::format_tag;

float* Floats(const memory& m) { return static_cast<float*>(m.get_data_handle()); }

Desc PlainDesc(const Dims& dims) {
  constexpr Tag kTags[] = {Tag::undef, Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde};
  return {dims, memory::data_type::f32, kTags[dims.size()]};
}
Desc AnyDesc(const Dims& dims) { return {dims, memory::data_type::f32, Tag::any}; }

template <typename PostOps>
void AppendRelu(PostOps* after) {
  constexpr auto kRelu = algorithm::eltwise_relu;
  if constexpr (requires { after->append_eltwise(1.0f, kRelu, 0.0f, 0.0f); }) {  // oneDNN 2
    after->append_eltwise(1, kRelu, 0, 0);
  } else {
    after->append_eltwise(kRelu, 0, 0);
  }
}

// Debian's oneDNN is built without concurrent execution: scratchpads are ours.
dnnl::primitive_attr Attributes(bool relu = false) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops after;
    AppendRelu(&after);
    attributes.set_post_ops(after);
  }
  return attributes;
}

PoolShape PoolShapeOf(const LayerSpec& layer, const Dims& x, const Dims& y, bool relu, int block) {
  const int images = static_cast<int>(x[0]), channels = static_cast<int>(x[1]);
  const int inner = block > 0 ? block : channels;
  return {images * ((channels + inner - 1) / inner),
          inner,
          static_cast<int>(x[2]),
          static_cast<int>(y[2]),
          layer.kernel,
          layer.stride,
          relu};
}

// Channels innermost in memory; 0 if that is all of them.
template <typename MemoryDesc>
int BlockOf(const MemoryDesc& desc) {
  if constexpr (requires { desc.get_inner_blks(); }) {  // oneDNN 3
    const Dims blocks = desc.get_inner_blks();
    return blocks.empty() ? 0 : static_cast<int>(blocks[0]);
  } else {
    const auto& blocking = desc.data.format_desc.blocking;
    return blocking.inner_nblks > 0 ? static_cast<int>(blocking.inner_blks[0]) : 0;
  }
}

}  // namespace

template <class Primitive, class PrimitiveDesc>
void Net::AddPrimitive(Steps* to, const std::string& layer, const std::string& pass,
                       const PrimitiveDesc& pd, Args args) {
  if (const Desc scratch = pd.scratchpad_desc(); scratch.get_size() > 0) {
    scratch_bytes_ = std::max(scratch_bytes_, scratch.get_size());
    scratchpads_.emplace_back(scratch, engine_, nullptr);
    args[DNNL_ARG_SCRATCHPAD] = scratchpads_.back();
  }
  if (profile_ && pass != "reorder") {
    std::fprintf(stderr, "# %s %s: %s\n", layer.c_str(), pass.c_str(), pd.impl_info_str());
  }
  Add(to, layer, pass, [this, primitive = Primitive(pd), args = std::move(args)] {
    primitive.execute(stream_, args);
  });
}

void Net::AddReorder(Steps* to, const std::string& layer, const memory& from, const memory& into) {
  const dnnl::reorder::primitive_desc pd(from, into, Attributes());
  AddPrimitive<dnnl::reorder>(to, layer, "reorder", pd,
                              {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, into}});
}

void Net::AddMask(Steps* to, const std::string& layer, const Tensor& x) {
  const size_t count = x.data.get_desc().get_size() / sizeof(float);
  Add(to, layer, "relu bwd",
      [d = Floats(x.diff), y = Floats(x.data), count] { ReluMask(d, y, count); });
}

void Net::Build() {
  Tensor x;
  x.dims = {spec_.batch, spec_.channels, spec_.size, spec_.size};
  x.data = input_ = View(PlainDesc(x.dims), images_.get());
  x.needs_diff = false;
  std::vector<Steps> backward(spec_.layers.size());
  const Param* params = table_.params.data();
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    const LayerSpec& layer = spec_.layers[i];
    Steps* const back = &backward[i];
    switch (layer.kind) {
      case Kind::kConv: {
        const bool before_max_pool =
            i + 1 < spec_.layers.size() && spec_.layers[i + 1].kind == Kind::kMaxPool;
        x = AddConv(layer, x, params, before_max_pool, back);
        params += 2;
        break;
      }
      case Kind::kInnerProduct:
        x = AddInnerProduct(layer, x, params, back);
        params += 2;
        break;
      case Kind::kLrn:
        x = AddLrn(layer, x, back);
        break;
      case Kind::kMaxPool:
      case Kind::kAvePool:
        x = AddPool(layer, x, back);
        break;
    }
  }
  Add(&steps_, "loss", "fwd+bwd", [this, scores = Floats(x.data), diff = Floats(x.diff)] {
    loss_ = SoftmaxLoss(scores, batch_labels_, diff, spec_.batch, spec_.classes);
  });
  for (auto back = backward.rbegin(); back != backward.rend(); ++back) {
    for (Step& step : *back) steps_.push_back(std::move(step));
  }
  AddUpdate();
}

// relu(max(x)) = max(relu(x)), and a gradient reaches only its window's maximum:
// the mask of a ReLU fused into a convolution before max pooling is applied to the
// pooled diff, a quarter of the size, by the pooling layer.
Net::Tensor Net::AddConv(const LayerSpec& layer, Tensor x, const Param* params,
                         bool before_max_pool, Steps* back) {
  const auto group = layer.group, kernel = layer.kernel;
  const auto channels = x.dims[1], side = (x.dims[2] + 2 * layer.pad - kernel) / layer.stride + 1;
  const Dims weight_dims =
      group > 1 ? Dims{group, layer.outputs / group, channels / group, kernel, kernel}
                : Dims{layer.outputs, channels, kernel, kernel};
  const Dims stride = {layer.stride, layer.stride}, pad = {layer.pad, layer.pad};
  const Dims y_dims = {x.dims[0], layer.outputs, side, side};
  const Desc dst = ActivationDesc(y_dims), bias = PlainDesc({layer.outputs});
  const Desc any = AnyDesc(weight_dims), plain = PlainDesc(weight_dims);
  const Desc given = x.data.get_desc();
  // Blocked convolutions read images as they come.
  const Desc src = x.needs_diff || how_.blocked ? given : ActivationDesc(x.dims);

  using Forward = dnnl::convolution_forward;
  const PrimitiveDescs descs(engine_, Attributes());
  const auto forward =
      PrimitiveDescs(engine_, Attributes(layer.relu))
          .Forward<Forward>(prop_kind::forward_training, algorithm::convolution_direct, src, any,
                            bias, dst, stride, pad, pad);
  Tensor y = MakeTensor(y_dims, dst);
  y.relu = layer.relu;
  const memory flat = View(plain, weights_ + params[0].offset);
  const memory b = View(bias, weights_ + params[1].offset);
  memory w = flat;
  if (forward.weights_desc() != plain) {
    w = Make(forward.weights_desc());
    AddReorder(&steps_, layer.name, flat, w);
  }
  if (src != given) {
    const memory from = x.data;
    x.data = Make(src);
    AddReorder(&steps_, layer.name, from, x.data);
  }
  AddPrimitive<Forward>(
      &steps_, layer.name, "fwd", forward,
      {{DNNL_ARG_SRC, x.data}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_DST, y.data}});

  if (layer.relu && !before_max_pool) AddMask(back, layer.name, y);
  if (x.needs_diff && how_.gemm_backward && !how_.blocked && group == 1 && layer.pad == 0 &&
      layer.stride == 1) {
    AddGemmBackward(layer, x, y, params, back);
    return y;
  }
  if (x.needs_diff) {
    using Backward = dnnl::convolution_backward_data;
    const auto pd = descs.Backward<Backward>(forward, algorithm::convolution_direct, src, any, dst,
                                             stride, pad, pad);
    memory w_back = pd.weights_desc() == plain ? flat : w;
    if (pd.weights_desc() != w_back.get_desc()) {
      w_back = Make(pd.weights_desc());
      AddReorder(back, layer.name, flat, w_back);
    }
    AddPrimitive<Backward>(
        back, layer.name, "bwd data", pd,
        {{DNNL_ARG_DIFF_DST, y.diff}, {DNNL_ARG_WEIGHTS, w_back}, {DNNL_ARG_DIFF_SRC, x.diff}});
  }
  using Gradient = dnnl::convolution_backward_weights;
  const auto pd = descs.Backward<Gradient>(forward, algorithm::convolution_direct, src, any, bias,
                                           dst, stride, pad, pad);
  const memory flat_diff = View(plain, gradients_.get() + params[0].offset);
  const bool convert = pd.diff_weights_desc() != plain;
  const memory diff = convert ? Make(pd.diff_weights_desc()) : flat_diff;
  AddPrimitive<Gradient>(back, layer.name, "bwd weights", pd,
                         {{DNNL_ARG_SRC, x.data},
                          {DNNL_ARG_DIFF_DST, y.diff},
                          {DNNL_ARG_DIFF_WEIGHTS, diff},
                          {DNNL_ARG_DIFF_BIAS, View(bias, gradients_.get() + params[1].offset)}});
  if (convert) AddReorder(back, layer.name, diff, flat_diff);
  return y;
}

void Net::AddGemmBackward(const LayerSpec& layer, const Tensor& x, const Tensor& y,
                          const Param* params, Steps* back) {
  const GemmConvShape shape{static_cast<int>(x.dims[0]), static_cast<int>(x.dims[1]),
                            static_cast<int>(x.dims[2]), layer.outputs, layer.kernel};
  const auto conv = std::make_shared<GemmConvBackward>(shape);
  const Dims dims = {layer.outputs, x.dims[1], layer.kernel, layer.kernel};
  const Desc ohwi(dims, memory::data_type::f32, Tag::ohwi);
  const memory w = Make(ohwi), dw = Make(ohwi);
  AddReorder(back, layer.name, View(PlainDesc(dims), weights_ + params[0].offset), w);
  Add(back, layer.name, "bwd data",
      [conv, w = Floats(w), from = Floats(y.diff), to = Floats(x.diff)] {
        conv->Data(from, w, to);
      });
  Add(back, layer.name, "bwd weights",
      [conv, data = Floats(x.data), diff = Floats(y.diff), dw = Floats(dw),
       db = gradients_.get() + params[1].offset] { conv->Weights(data, diff, dw, db); });
  AddReorder(back, layer.name, dw, View(PlainDesc(dims), gradients_.get() + params[0].offset));
}

Net::Tensor Net::AddPool(const LayerSpec& layer, const Tensor& x, Steps* back) {
  const auto h = x.dims[2], side = (h - layer.kernel + layer.stride - 1) / layer.stride + 1;
  const auto overhang = (side - 1) * layer.stride + layer.kernel - h;
  const bool max = layer.kind == Kind::kMaxPool;
  const Dims dims = {x.dims[0], x.dims[1], side, side};
  const Desc src = x.data.get_desc(), dst = ActivationDesc(dims);
  Tensor y = MakeTensor(dims, dst);
  if (max && how_.hand_pool) return AddHandPool(layer, x, y, back);

  const auto kind = max ? algorithm::pooling_max : algorithm::pooling_avg_exclude_padding;
  const millrace::onednn::PoolingWindows windows = {.stride = {layer.stride, layer.stride},
                                                    .kernel = {layer.kernel, layer.kernel},
                                                    .padding = {0, 0},
                                                    .padding_end = {overhang, overhang}};
  const PrimitiveDescs descs(engine_, Attributes());
  const auto forward = descs.PoolingForward(kind, src, dst, windows);
  const auto backward = descs.PoolingBackward(forward, kind, src, dst, windows);
  Args args = {{DNNL_ARG_SRC, x.data}, {DNNL_ARG_DST, y.data}};
  Args back_args = {{DNNL_ARG_DIFF_DST, y.diff}, {DNNL_ARG_DIFF_SRC, x.diff}};
  if (max)
    args[DNNL_ARG_WORKSPACE] = back_args[DNNL_ARG_WORKSPACE] = Make(forward.workspace_desc());
  AddPrimitive<dnnl::pooling_forward>(&steps_, layer.name, "fwd", forward, std::move(args));
  if (max && x.relu) AddMask(back, layer.name, y);
  AddPrimitive<dnnl::pooling_backward>(back, layer.name, "bwd data", backward,
                                       std::move(back_args));
  return y;
}

Net::Tensor Net::AddHandPool(const LayerSpec& layer, const Tensor& x, Tensor y, Steps* back) {
  const Desc desc = y.data.get_desc();
  const PoolShape shape = PoolShapeOf(layer, x.dims, y.dims, x.relu, BlockOf(desc));
  auto* const which = reinterpret_cast<int*>(Floats(Make(desc)));
  Add(&steps_, layer.name, "fwd", [shape, which, from = Floats(x.data), to = Floats(y.data)] {
    MaxPoolForward(shape, from, to, which);
  });
  Add(back, layer.name, "bwd data", [shape, which, from = Floats(y.diff), to = Floats(x.diff)] {
    MaxPoolBackward(shape, from, which, to);
  });
  return y;
}

Net::Tensor Net::AddLrn(const LayerSpec& layer, const Tensor& x, Steps* back) {
  constexpr int kWindow = 5;
  constexpr float kAlpha = 1e-4f, kBeta = 0.75f;
  const Desc desc = x.data.get_desc();
  Tensor y = MakeTensor(x.dims, desc);
  const auto kind = algorithm::lrn_across_channels;
  const PrimitiveDescs descs(engine_, Attributes());
  const auto forward = descs.LrnForward(kind, desc, kWindow, kAlpha, kBeta, 1);
  const auto backward = descs.LrnBackward(forward, kind, desc, kWindow, kAlpha, kBeta, 1);
  Args args = {{DNNL_ARG_SRC, x.data}, {DNNL_ARG_DST, y.data}};
  Args back_args = {
      {DNNL_ARG_SRC, x.data}, {DNNL_ARG_DIFF_DST, y.diff}, {DNNL_ARG_DIFF_SRC, x.diff}};
  if (forward.workspace_desc().get_size() > 0) {
    args[DNNL_ARG_WORKSPACE] = back_args[DNNL_ARG_WORKSPACE] = Make(forward.workspace_desc());
  }
  AddPrimitive<dnnl::lrn_forward>(&steps_, layer.name, "fwd", forward, std::move(args));
  AddPrimitive<dnnl::lrn_backward>(back, layer.name, "bwd data", backward, std::move(back_args));
  return y;
}

Net::Tensor Net::Flatten(const std::string& layer, const Tensor& x, Steps* back) {
  const Dims dims = {x.dims[0], x.dims[1] * x.dims[2] * x.dims[3]};
  Tensor plain = MakeTensor(x.dims, PlainDesc(x.dims));
  AddReorder(&steps_, layer, x.data, plain.data);
  AddReorder(back, layer, plain.diff, x.diff);
  return {dims, View(PlainDesc(dims), Floats(plain.data)),
          View(PlainDesc(dims), Floats(plain.diff))};
}

Net::Tensor Net::AddInnerProduct(const LayerSpec& layer, Tensor x, const Param* params,
                                 Steps* back) {
  Steps unflatten;
  if (x.dims.size() == 4) x = Flatten(layer.name, x, &unflatten);
  const Dims y_dims = {x.dims[0], layer.outputs};
  const Desc src = PlainDesc(x.dims), dst = PlainDesc(y_dims);
  const Desc weight = PlainDesc({layer.outputs, x.dims[1]}), bias = PlainDesc({layer.outputs});
  Tensor y = MakeTensor(y_dims, dst);
  const memory w = View(weight, weights_ + params[0].offset);
  using Forward = dnnl::inner_product_forward;
  const PrimitiveDescs descs(engine_, Attributes());
  const auto forward = PrimitiveDescs(engine_, Attributes(layer.relu))
                           .Forward<Forward>(prop_kind::forward_training, src, weight, bias, dst);
  AddPrimitive<Forward>(&steps_, layer.name, "fwd", forward,
                        {{DNNL_ARG_SRC, x.data},
                         {DNNL_ARG_WEIGHTS, w},
                         {DNNL_ARG_BIAS, View(bias, weights_ + params[1].offset)},
                         {DNNL_ARG_DST, y.data}});
  if (layer.dropout) {
    const size_t count = spec_.batch * layer.outputs;
    float* const mask = Floats(Make(dst));
    Add(&steps_, layer.name, "dropout",
        [=, this, data = Floats(y.data)] { Dropout(data, mask, count, random_); });
    Add(back, layer.name, "dropout", [=, diff = Floats(y.diff)] { Multiply(diff, mask, count); });
  }
  if (layer.relu) AddMask(back, layer.name, y);
  using Backward = dnnl::inner_product_backward_data;
  const auto backward = descs.Backward<Backward>(forward, src, weight, dst);
  AddPrimitive<Backward>(
      back, layer.name, "bwd data", backward,
      {{DNNL_ARG_DIFF_DST, y.diff}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, x.diff}});
  using Gradient = dnnl::inner_product_backward_weights;
  const auto gradient = descs.Backward<Gradient>(forward, src, weight, bias, dst);
  AddPrimitive<Gradient>(
      back, layer.name, "bwd weights", gradient,
      {{DNNL_ARG_SRC, x.data},
       {DNNL_ARG_DIFF_DST, y.diff},
       {DNNL_ARG_DIFF_WEIGHTS, View(weight, gradients_.get() + params[0].offset)},
       {DNNL_ARG_DIFF_BIAS, View(bias, gradients_.get() + params[1].offset)}});
  for (Step& step : unflatten) back->push_back(std::move(step));
  return y;
}

}  // namespace onednn_loop
