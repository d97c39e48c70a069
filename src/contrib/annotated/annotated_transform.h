// AnnotatedDatums to images and boxes, with SSD's changes, in its order:
//
//   distort_param    colours (distortion.h)
//   expand_param     a larger canvas, filled with the mean values, with the image at a random place
//   batch_sampler    one of the boxes that the samplers find (box_sampler.h), if any; the image is
//                    cut to it
//   resize_param     (resize_policy.h)
//   noise_param      (noise.h)
//   crop_size, or crop_h and crop_w; mirror; mean and scale (data/transformer.h)
//
// Boxes move with the image, and what a cut leaves of them stays; emit_constraint can require more.
// Different from SSD, images are not compressed as JPEG in between, and raw images take part.
#ifndef MILLRACE_CONTRIB_ANNOTATED_ANNOTATED_TRANSFORM_H_
#define MILLRACE_CONTRIB_ANNOTATED_ANNOTATED_TRANSFORM_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contrib/annotated/box_sampler.h"
#include "contrib/annotated/distortion.h"
#include "contrib/annotated/object.h"
#include "data/batch_transform.h"
#include "data/images/noise.h"
#include "data/images/pixel_reader.h"
#include "data/images/resize_policy.h"
#include "data/transformer.h"
#include "proto/caffe.pb.h"

namespace millrace::inline contrib {

// Tops: images {N, C, H, W}, all of one size in a batch; and boxes {1, 1, K, 8}, a row per box:
//
//   item in the batch, label, instance, xmin, ymin, xmax, ymax, difficult
//
// or one row of -1 if there is no box. If neither the first record nor annotated_data_param names a
// type of annotation, the second top is the labels of the Datums, {N, 1, 1, 1}.
class AnnotatedTransform : public BatchTransform {
 public:
  // `layer` is an AnnotatedData layer, `first` a record of the source at `path`. Throws FieldError.
  AnnotatedTransform(const caffe::LayerParameter& layer, caffe::Phase phase, uint64_t seed,
                     uint64_t stream, const std::string& path, const RecordView& first);

  bool varies() const override { return has_boxes_ || batch_size_ == 1; }
  const std::vector<Shape>& first_shapes() const override { return first_shapes_; }
  void Add(const std::string& source, const RecordView& record, uint64_t item) override;
  const std::vector<Shape>& shapes() const override { return shapes_; }
  void Write(float* const* tops) override;

 private:
  // A record of the batch, after all changes but those of the Transformer.
  struct Example {
    Image image;
    TransformChoice choice;
    std::vector<Object> objects;
    int32_t label = 0;
  };

  // Reads a record: pixels, and boxes as they are stored. Throws Error with its name.
  void Read(const std::string& source, const RecordView& record, Example* example);
  // These throw Error without a name.
  void Change(uint64_t item, Example* example);
  void Expand(Rng* rng, Example* example) const;
  void CutToSample(Rng* rng, Example* example) const;
  void FinishBoxes(int height, int width, const ImageSize& output, Example* example) const;
  // Replaces the boxes by their parts in `frame`.
  void Cut(const Box& frame, std::vector<Object>* objects) const;
  void UpdateShapes(const ImageSize& size);

  const caffe::TransformationParameter param_;
  const caffe::AnnotatedDataParameter annotated_;
  const int64_t batch_size_;
  const uint64_t seed_, stream_;
  const BoxSampler sampler_;
  bool has_boxes_ = false;
  PixelReader reader_;
  std::optional<Distortion> distortion_;
  std::optional<ResizePolicy> resize_;
  std::optional<Noise> noise_;
  std::optional<Transformer> transformer_;
  std::vector<Shape> first_shapes_, shapes_;
  std::vector<Example> examples_;  // memory is kept from batch to batch
  size_t added_ = 0;               // examples of this batch
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_ANNOTATED_ANNOTATED_TRANSFORM_H_
