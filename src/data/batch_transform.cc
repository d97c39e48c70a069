#include "data/batch_transform.h"

#include <glog/logging.h>

#include <optional>
#include <utility>

namespace millrace::inline data {
namespace {

class PerRecordTransform : public BatchTransform {
 public:
  PerRecordTransform(std::unique_ptr<RecordTransform> transform, uint64_t batch_size)
      : transform_(std::move(transform)), batch_size_(static_cast<int64_t>(batch_size)) {
    CHECK(!transform_->varies() || batch_size == 1);
    TakeShapes();
    first_shapes_ = shapes_;
    pixel_rule_ = transform_->pixel_rule();
    if (pixel_rule_) pixel_rule_->images = batch_size_;
  }

  bool varies() const override { return transform_->varies(); }
  const std::vector<Shape>& first_shapes() const override { return first_shapes_; }
  const std::vector<Shape>& shapes() const override { return shapes_; }

  void Add(const std::string& source, const RecordView& record, uint64_t item) override {
    records_.push_back({&source, &record, item});
    if (!transform_->varies()) return;
    transform_->Read(source, record, item);
    TakeShapes();
  }
  void Write(float* const* tops) override {
    std::vector<float*> at(tops, tops + counts_.size());
    for (const Added& each : records_) {
      transform_->Apply(*each.source, *each.record, each.item, at.data());
      for (size_t top = 0; top < counts_.size(); ++top) at[top] += counts_[top];
    }
    records_.clear();
  }

  const PixelRule* pixel_rule() const override { return pixel_rule_ ? &*pixel_rule_ : nullptr; }
  bool WritePixels(float* const* tops) override {
    std::vector<float*> at(tops, tops + counts_.size());
    uint8_t* pixels = reinterpret_cast<uint8_t*>(tops[0]);
    auto* choice = reinterpret_cast<TransformChoice*>(pixels + pixel_rule_->choices_at());
    for (const Added& each : records_) {
      if (!transform_->ApplyPixels(*each.source, *each.record, each.item, pixels, choice,
                                   at.data())) {
        return false;
      }
      pixels += counts_[0], ++choice;
      for (size_t top = 1; top < counts_.size(); ++top) at[top] += counts_[top];
    }
    records_.clear();
    return true;
  }

 private:
  struct Added {
    const std::string* source;
    const RecordView* record;
    uint64_t item;
  };

  void TakeShapes() {
    shapes_ = transform_->shapes();
    counts_.clear();
    for (Shape& shape : shapes_) {
      counts_.push_back(ShapeCount(shape));
      shape.insert(shape.begin(), batch_size_);
    }
  }

  const std::unique_ptr<RecordTransform> transform_;
  const int64_t batch_size_;
  std::vector<Shape> first_shapes_, shapes_;
  std::vector<int64_t> counts_;  // of each top, per record
  std::vector<Added> records_;
  std::optional<PixelRule> pixel_rule_;
};

}  // namespace

std::unique_ptr<BatchTransform> PerRecord(std::unique_ptr<RecordTransform> transform,
                                          uint64_t batch_size) {
  return std::make_unique<PerRecordTransform>(std::move(transform), batch_size);
}

}  // namespace millrace::inline data
