// Layers that pool regions of interest: ROIPooling, PSROIPooling and ROIAlign.
#include <cmath>
#include <string>

#include "base/error.h"
#include "contrib/detection/roi_align_kernels.h"
#include "contrib/detection/roi_kernels.h"
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/fields.h"
#include "nn/layers/shape/row_gather.h"
#include "nn/layers/shape/strided_copy.h"

namespace millrace::inline contrib {
namespace {

// The regions of interest that a bottom holds: rows of 5 numbers, (image, x1, y1, x2, y2), as
// {R, 5} or {R, 5, 1, 1}.

// Used by the thread that uses the queue.
class RoiList {
 public:
  explicit RoiList(MemorySpace& memory) : image_(memory) {}

  // For Layer::SetUp.
  void Reserve(Queue& queue) { check_.Reserve(queue); }
  // For Layer::Reshape. Throws FieldError("bottom[index]") unless `regions` has that shape, and is
  // empty if there are no images.
  void Reshape(const Blob& regions, int index, int64_t images);
  // Enqueues the check that the regions' images are below `images`.
  void EnqueueCheck(Queue& queue, const Blob& regions, int64_t images);
  // For Layer::CheckForward. Throws Error naming `layer` and the first region of no such image.
  void Check(const std::string& layer, int64_t images) const;

 private:
  Blob image_;  // of each region
  IndexCheck check_;
};

void RoiList::Reshape(const Blob& regions, int index, int64_t images) {
  if (regions.num_axes() < 1 || regions.count(1) != 5) {
    throw FieldError(StrCat("bottom[", index, "]"), ShapeText(regions.shape()),
                     " given, expected rows of 5 numbers: image, x1, y1, x2, y2");
  }
  if (images == 0 && regions.dim(0) > 0) {
    throw FieldError(StrCat("bottom[", index, "]"), regions.dim(0),
                     " regions given of no images, expected none");
  }
  image_.Reshape({regions.dim(0)});
}

void RoiList::EnqueueCheck(Queue& queue, const Blob& regions, int64_t images) {
  StridedCopy images_of_rows;
  images_of_rows.AddAxis(regions.dim(0), 5, 1);
  images_of_rows.Run(queue, regions.data(), image_.data());
  check_.Enqueue(queue, images, regions.dim(0), image_.data());
}

void RoiList::Check(const std::string& layer, int64_t images) const {
  check_.Check(layer, images, image_);
}

// The number of bins along an axis, given by `field`. Throws FieldError if it is 0.
inline int64_t PooledSize(const std::string& field, uint32_t value) {
  if (value > 0) return int64_t{value};
  throw FieldError(field, "0 given or missing, expected at least 1");
}

// The shape of the pooled regions. Throws FieldError(`field`, ...) if a blob cannot have it.
inline Shape PooledShape(const RoiPoolShape& of, const std::string& field) {
  const Shape shape = {of.regions, of.top_channels, of.pooled_h, of.pooled_w};
  int64_t count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    count = CheckedProduct(count, shape[i], field, i < 2 ? 0 : 1);
  }
  return shape;
}

// What the layers that pool regions of interest share. No gradient flows to the regions.
class RoiLayer : public Layer {
 public:
  RoiLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), list_(memory()) {}

  Arity arity() const override { return {2, 2, 1, 1}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }
  // Throws FieldError unless bottom[0] has the axes of images.
  void SetUp(const Blobs& bottom, const Blobs&) override {
    if (bottom[0]->num_axes() != 4) {
      throw FieldError("bottom[0]", "has ", bottom[0]->num_axes(),
                       " axes, expected 4 (N, C, H, W)");
    }
    list_.Reserve(*context_.queue);
  }
  // Takes the sizes of images {N, C, H, W} and of regions {R, ...} into shape_.
  void Reshape(const Blobs& bottom, const Blobs&) override {
    list_.Reshape(*bottom[1], 1, bottom[0]->dim(0));
    const Shape& images = bottom[0]->shape();
    shape_.images = images[0];
    shape_.channels = images[1];
    shape_.height = images[2];
    shape_.width = images[3];
    shape_.regions = bottom[1]->dim(0);
  }
  void CheckForward(const Blobs& bottom) override { list_.Check(name(), bottom[0]->dim(0)); }

 protected:
  // Sets the scale from `field`. Throws FieldError unless it is positive and finite. `given`: what
  // the error says of another number.
  void TakeScale(const std::string& field, float scale, const char* given = " given") {
    if (!(scale > 0 && std::isfinite(scale))) {
      throw FieldError(field, scale, given, ", expected a positive number");
    }
    shape_.scale = scale;
  }
  // `kernel` makes one value of the top.
  template <typename Kernel>
  void RunForward(const Blobs& bottom, const Blobs& top, const Kernel& kernel) {
    Launch(*context_.queue, top[0]->count(), kernel);
    list_.EnqueueCheck(*context_.queue, *bottom[1], shape_.images);
  }
  // The gradient of bottom[0]: on the host `scatter` adds to a plane of it, which is 0 before; on a
  // GPU `gather` makes one value.
  template <typename Scatter, typename Gather>
  void RunBackward(const Blobs& bottom, const Scatter& scatter, const Gather& gather) {
    Queue& queue = *context_.queue;
    if (queue.device().type() != DeviceType::kCpu) {
      return Launch(queue, bottom[0]->count(), gather);
    }
    queue.Fill(bottom[0]->diff(), 0, bottom[0]->count() * sizeof(float));
    RunOnHost(shape_.images * shape_.channels, scatter);
  }

  RoiPoolShape shape_{};

 private:
  RoiList list_;
};

// ROIPooling of Fast R-CNN (Girshick 2015), as in rbgirshick/caffe-fast-rcnn: the largest values of
// pooled_h x pooled_w bins of each region of interest.
//
// Bottoms: values {N, C, H, W}, and R regions (RoiList) whose corners are pixels of the image,
// inclusive. Top: {R, C, pooled_h, pooled_w}. With s = spatial_scale and corners rounded half away
// from zero, a region covers columns round(s x1) .. round(s x2), at least one. With w columns, bin
// i covers the columns
//   round(s x1) + floor(i w / pooled_w) .. round(s x1) + ceil((i + 1) w / pooled_w) - 1
// that are within the bottom, and rows likewise; a bin without any gives 0.
//   dE/dbottom = the sum of dE/dtop over the bins whose (first) largest value it was
// Different from there, it runs on CPUs, too, and a region whose end lies before its begin, which
// counts as one pixel, has a gradient.
class RoiPoolingLayer : public RoiLayer {
 public:
  using RoiLayer::RoiLayer;

  std::set<std::string> fields() const override { return {"roi_pooling_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  Buffer place_;  // int32_t for each value of the top: its place in the bottom's plane
};

void RoiPoolingLayer::SetUp(const Blobs& bottom, const Blobs& top) {
  RoiLayer::SetUp(bottom, top);
  const caffe::ROIPoolingParameter& param = param_.roi_pooling_param();
  shape_.pooled_h = PooledSize("roi_pooling_param.pooled_h", param.pooled_h());
  shape_.pooled_w = PooledSize("roi_pooling_param.pooled_w", param.pooled_w());
  TakeScale("roi_pooling_param.spatial_scale", param.spatial_scale());
}

void RoiPoolingLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  RoiLayer::Reshape(bottom, top);
  shape_.top_channels = shape_.channels;
  const Shape shape = PooledShape(shape_, "roi_pooling_param");
  if (bottom[0]->count(2) > INT32_MAX) {
    throw FieldError("bottom[0]", ShapeText(bottom[0]->shape()),
                     " given, expected planes of at most ", INT32_MAX, " values");
  }
  top[0]->Reshape(shape);
  const size_t bytes = top[0]->count() * sizeof(int32_t);
  if (place_.bytes() < bytes) {
    context_.queue->Synchronize();  // work that has been enqueued may use the old memory
    place_ = Buffer(memory(), bytes);
  }
}

void RoiPoolingLayer::Forward(const Blobs& bottom, const Blobs& top) {
  RunForward(bottom, top,
             RoiMaxForward{shape_, bottom[0]->data(), bottom[1]->data(), top[0]->data(),
                           place_.get<int32_t>()});
}

void RoiPoolingLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                               const Blobs& bottom) {
  if (!propagate_down[0]) return;
  const float *const regions = bottom[1]->data(), *const from = top[0]->diff();
  const int32_t* const place = place_.get<int32_t>();
  float* const to = bottom[0]->diff();
  RunBackward(bottom, RoiMaxScatter{shape_, regions, place, from, to},
              RoiMaxGather{shape_, regions, place, from, to});
}

const RegisterLayer<RoiPoolingLayer> roi_pooling("ROIPooling");

// PSROIPooling: position-sensitive average pooling of R-FCN (Dai, Li, He, Sun 2016), as in
// daijifeng001/caffe-rfcn. Each bin of a region reads a channel of its own.
//
// Bottoms: values {N, output_dim * k * k, H, W} with k = group_size, and R regions (RoiList).
// Top: {R, output_dim, k, k}. With s = spatial_scale and corners rounded half away from zero, a
// region covers s x1 .. s (x2 + 1), at least a tenth of a pixel, and is not rounded to pixels. With
// a width w, bin i covers the columns
//   floor(s x1 + i w / k) .. ceil(s x1 + (i + 1) w / k) - 1
// that are within the bottom, and rows likewise.
//   top[r, c, i, j] = the mean of bin (i, j) of channel (c k + i) k + j, 0 if the bin is empty
//   dE/dbottom = the sum of dE/dtop / area over the bins that it is in
class PsRoiPoolingLayer : public RoiLayer {
 public:
  using RoiLayer::RoiLayer;

  std::set<std::string> fields() const override { return {"psroi_pooling_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
};

void PsRoiPoolingLayer::SetUp(const Blobs& bottom, const Blobs& top) {
  RoiLayer::SetUp(bottom, top);
  const caffe::PSROIPoolingParameter& param = param_.psroi_pooling_param();
  constexpr int32_t kMax = 1 << 20;
  const auto positive = [=](const char* field, int32_t value) {
    if (value < 1 || value > kMax) {
      throw FieldError(field, value, " given or missing, expected 1 to ", kMax);
    }
    return int64_t{value};
  };
  shape_.top_channels = positive("psroi_pooling_param.output_dim", param.output_dim());
  shape_.pooled_h = shape_.pooled_w =
      positive("psroi_pooling_param.group_size", param.group_size());
  TakeScale("psroi_pooling_param.spatial_scale", param.spatial_scale(), " given or missing");
}

void PsRoiPoolingLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  RoiLayer::Reshape(bottom, top);
  const Shape& from = bottom[0]->shape();
  const int64_t channels = shape_.top_channels * shape_.pooled_h * shape_.pooled_w;
  if (from[1] != channels) {
    throw FieldError("bottom[0]", ShapeText(from), " given, expected ", channels,
                     " channels: output_dim * group_size^2");
  }
  CheckedProduct(shape_.regions, channels, "psroi_pooling_param");
  top[0]->Reshape({shape_.regions, shape_.top_channels, shape_.pooled_h, shape_.pooled_w});
}

void PsRoiPoolingLayer::Forward(const Blobs& bottom, const Blobs& top) {
  RunForward(bottom, top,
             RoiSensitiveForward{shape_, bottom[0]->data(), bottom[1]->data(), top[0]->data()});
}

void PsRoiPoolingLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                 const Blobs& bottom) {
  if (!propagate_down[0]) return;
  const float *const regions = bottom[1]->data(), *const from = top[0]->diff();
  float* const to = bottom[0]->diff();
  RunBackward(bottom, RoiSensitiveScatter{shape_, regions, from, to},
              RoiSensitiveGather{shape_, regions, from, to});
}

const RegisterLayer<PsRoiPoolingLayer> psroi_pooling("PSROIPooling");

// ROIAlign of Mask R-CNN (He, Gkioxari, Dollar, Girshick 2017): means of bilinear samples of
// pooled_h x pooled_w bins of each region of interest.
//
// Bottoms: values {N, C, H, W}, and R regions (RoiList). Top: {R, C, pooled_h, pooled_w}. With
// s = spatial_scale, a region covers s x1 .. s x2 without rounding, at least one pixel wide, and
// rows likewise. It is divided into bins of equal width b, and each bin has p x p points, in
// the middle of p equal parts of it, along each axis:
//   p = sampling_ratio of roi_align_param; not positive (default): ceil(b), at most 256
//   p = 2 if roi_pooling_param is given in its place
//   top = the mean over the points of the bilinear interpolation of the 4 pixels around each
// A point at (0, 0) is the centre of the first pixel. A point up to one pixel outside counts as one
// on the edge, and one further outside as 0.
//   dE/dbottom = the sum of dE/dtop * weight over the bins
//
// These are the samples of the paper's authors and of the forks of Caffe that take the mean. Other
// forks have a layer of the same name with the same fields that takes the largest of the points,
// and are not followed.
class RoiAlignLayer : public RoiLayer {
 public:
  using RoiLayer::RoiLayer;

  std::set<std::string> fields() const override { return {"roi_align_param", "roi_pooling_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  int64_t sampling_ = 0;  // points of a bin along an axis; not positive: by its size
};

void RoiAlignLayer::SetUp(const Blobs& bottom, const Blobs& top) {
  RoiLayer::SetUp(bottom, top);
  if (param_.has_roi_align_param() && param_.has_roi_pooling_param()) {
    throw FieldError("roi_pooling_param", "given beside roi_align_param, expected one of them");
  }
  constexpr int64_t kMaxPoints = 256, kTwo = 2;
  const auto take = [&](const std::string& field, const auto& param) {
    shape_.pooled_h = PooledSize(field + ".pooled_h", param.pooled_h());
    shape_.pooled_w = PooledSize(field + ".pooled_w", param.pooled_w());
    TakeScale(field + ".spatial_scale", param.spatial_scale());
  };
  if (param_.has_roi_pooling_param()) {
    take("roi_pooling_param", param_.roi_pooling_param());
    sampling_ = kTwo;
  } else {
    take("roi_align_param", param_.roi_align_param());
    sampling_ = param_.roi_align_param().sampling_ratio();
  }
  if (sampling_ > kMaxPoints) {
    throw FieldError("roi_align_param.sampling_ratio", sampling_, " given, expected at most ",
                     kMaxPoints);
  }
}

void RoiAlignLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  RoiLayer::Reshape(bottom, top);
  shape_.top_channels = shape_.channels;
  if (shape_.regions > 0 && bottom[0]->count(2) == 0) {
    throw FieldError("bottom[0]", ShapeText(bottom[0]->shape()),
                     " given, expected planes with values");
  }
  top[0]->Reshape(PooledShape(
      shape_, param_.has_roi_pooling_param() ? "roi_pooling_param" : "roi_align_param"));
}

void RoiAlignLayer::Forward(const Blobs& bottom, const Blobs& top) {
  RunForward(
      bottom, top,
      RoiAlignForward{shape_, sampling_, bottom[0]->data(), bottom[1]->data(), top[0]->data()});
}

void RoiAlignLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                             const Blobs& bottom) {
  if (!propagate_down[0]) return;
  const float *const regions = bottom[1]->data(), *const from = top[0]->diff();
  float* const to = bottom[0]->diff();
  RunBackward(bottom, RoiAlignScatter{shape_, sampling_, regions, from, to},
              RoiAlignGather{shape_, sampling_, regions, from, to});
}

const RegisterLayer<RoiAlignLayer> roi_align("ROIAlign");

}  // namespace
}  // namespace millrace::inline contrib
