// Local response normalisation (Krizhevsky, Sutskever, Hinton, NIPS 2012):
//
//   top = bottom / (k + alpha/n * sum of bottom^2 over the region)^beta
//
// ACROSS_CHANNELS: the region is local_size channels around this one, n = local_size.
// WITHIN_CHANNEL: the region is a local_size x local_size window around this value, n =
// local_size^2, and k is 1 whatever the file says, as in Caffe.
//
// Values beyond the edges are zero; n does not change there. In place, the layer keeps a copy of
// the bottom, and copies the gradient before it overwrites it.
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/kept_bottom.h"
#include "nn/layers/norm/lrn_kernels.h"
#include "nn/layout.h"
#include "nn/onednn/onednn.h"

namespace millrace::inline nn {
namespace {

class LrnLayer : public Layer {
 public:
  LrnLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), kept_(memory()), top_diff_(memory()) {}

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"lrn_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;

 protected:
  bool across() const {
    return param_.lrn_param().norm_region() == caffe::LRNParameter::ACROSS_CHANNELS;
  }
  // For Reshape.
  void ReshapeTop(const Blobs& bottom, const Blobs& top) {
    top[0]->ReshapeLike(*bottom[0]);
    kept_.Reshape(*bottom[0], *top[0]);
  }
  // dE/dtop in memory that dE/dbottom does not overwrite.
  const float* TopDiff(const Blob& bottom, const Blob& top) {
    if (&bottom != &top) return top.diff();
    top_diff_.ReshapeLike(top);
    context_.queue->Copy(top_diff_.data(), top.diff(), top.count() * sizeof(float));
    return top_diff_.data();
  }
  float k() const { return across() ? param_.lrn_param().k() : 1.0f; }

  KeptBottom kept_;
  Blob top_diff_;  // in place: a copy
};

void LrnLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::LRNParameter& param = param_.lrn_param();
  if (bottom[0]->num_axes() != 4) {
    throw FieldError("bottom", "LRN needs 4 axes (N, C, H, W), '", param_.bottom(0), "' has shape ",
                     ShapeText(bottom[0]->shape()));
  }
  if (param.local_size() % 2 == 0) {
    throw FieldError("lrn_param.local_size", param.local_size(), " given, expected an odd number");
  }
}

using onednn::Desc;
using onednn::DescOf;

class LrnCpu : public LrnLayer {
 public:
  using LrnLayer::LrnLayer;

  Layout BottomLayout(int, const Blob& bottom) const override {
    if (bottom.layout() != Layout::kPlain) return bottom.layout();
    return FittingLayout(context_.preferred_layout, bottom.shape());
  }

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    ReshapeTop(bottom, top);
    if (bottom[0]->shape() == described_ && bottom[0]->layout() == described_layout_) return;
    described_ = bottom[0]->shape();
    described_layout_ = bottom[0]->layout();
    onednn::Describe("LRN", [&] { DescribeBoth(DescOf(*bottom[0])); });
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    kept_.Keep(*bottom[0], *context_.queue);
    forward_.Run({{DNNL_ARG_SRC, kept_.Values(*bottom[0])},
                  {DNNL_ARG_DST, top[0]->data()},
                  {DNNL_ARG_WORKSPACE, workspace_.get()}});
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    backward_.Run({{DNNL_ARG_SRC, kept_.Values(*bottom[0])},
                   {DNNL_ARG_DIFF_DST, TopDiff(*bottom[0], *top[0])},
                   {DNNL_ARG_DIFF_SRC, bottom[0]->diff()},
                   {DNNL_ARG_WORKSPACE, workspace_.get()}});
  }

 private:
  void DescribeBoth(const Desc& data) {
    const caffe::LRNParameter& param = param_.lrn_param();
    // Both algorithms give the same result for a region of one value, and oneDNN 2.6 crashes when
    // it creates its AVX-512 across-channels kernel for one.
    const dnnl::algorithm algorithm = across() && param.local_size() > 1
                                          ? dnnl::algorithm::lrn_across_channels
                                          : dnnl::algorithm::lrn_within_channel;
    const onednn::PrimitiveDescs descs = onednn::Descs();
    const auto forward_pd =
        descs.LrnForward(algorithm, data, param.local_size(), param.alpha(), param.beta(), k());
    const Desc workspace = forward_pd.workspace_desc();
    workspace_ = Buffer(HostMemory(), workspace.get_size());
    forward_ = onednn::MakeOp<dnnl::lrn_forward>(
        forward_pd, {{DNNL_ARG_SRC, data}, {DNNL_ARG_DST, data}, {DNNL_ARG_WORKSPACE, workspace}},
        context_.scratch);
    const auto backward_pd = descs.LrnBackward(forward_pd, algorithm, data, param.local_size(),
                                               param.alpha(), param.beta(), k());
    backward_ = onednn::MakeOp<dnnl::lrn_backward>(backward_pd,
                                                   {{DNNL_ARG_SRC, data},
                                                    {DNNL_ARG_DIFF_DST, data},
                                                    {DNNL_ARG_DIFF_SRC, data},
                                                    {DNNL_ARG_WORKSPACE, workspace}},
                                                   context_.scratch);
  }

  Shape described_;
  Layout described_layout_ = Layout::kPlain;
  onednn::Op forward_, backward_;
  Buffer workspace_;
};

const RegisterLayer<LrnCpu> lrn_layer_cpu("LRN", DeviceType::kCpu);

class LrnGpu : public LrnLayer {
 public:
  using LrnLayer::LrnLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    ReshapeTop(bottom, top);
    const int64_t size = param_.lrn_param().local_size();
    region_ = {across(), bottom[0]->dim(1), bottom[0]->dim(2), bottom[0]->dim(3), (size - 1) / 2};
    const auto n = static_cast<float>(across() ? size : size * size);
    alpha_by_n_ = param_.lrn_param().alpha() / n;
    const size_t bytes = bottom[0]->count() * sizeof(float);
    if (scale_.bytes() >= bytes) return;
    context_.queue->Synchronize();  // work may use the old memory
    scale_ = Buffer(memory(), bytes);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    kept_.Keep(*bottom[0], *context_.queue);
    Launch(*context_.queue, bottom[0]->count(),
           LrnForward{region_, k(), alpha_by_n_, beta(), kept_.Values(*bottom[0]),
                      scale_.get<float>(), top[0]->data()});
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    Launch(*context_.queue, bottom[0]->count(),
           LrnBackward{region_, alpha_by_n_, beta(), kept_.Values(*bottom[0]), scale_.get<float>(),
                       top[0] == bottom[0] ? nullptr : top[0]->data(), TopDiff(*bottom[0], *top[0]),
                       bottom[0]->diff()});
  }

 private:
  float beta() const { return param_.lrn_param().beta(); }

  LrnRegion region_{};
  float alpha_by_n_ = 0;
  Buffer scale_;
};

const RegisterGpuLayer<LrnGpu> lrn_layer_gpu("LRN");

}  // namespace
}  // namespace millrace::inline nn
