#include "nn/layers/lrn_layer.h"
#include "nn/layout.h"
#include "nn/onednn/onednn.h"

namespace millrace::inline nn {
namespace {

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

const RegisterLayer<LrnCpu> registered("LRN", DeviceType::kCpu);

}  // namespace
}  // namespace millrace::inline nn
