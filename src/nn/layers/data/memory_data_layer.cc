#include "nn/layers/data/memory_data_layer.h"

#include <algorithm>
#include <utility>

#include "data/datum_view.h"
#include "data/images/image_transform.h"
#include "nn/layers/fields.h"

namespace millrace::inline nn {

void MemoryDataLayer::SetUp(const Blobs&, const Blobs&) {
  const caffe::MemoryDataParameter& param = param_.memory_data_param();
  const std::pair<const char*, uint32_t> sizes[] = {{"batch_size", param.batch_size()},
                                                    {"channels", param.channels()},
                                                    {"height", param.height()},
                                                    {"width", param.width()}};
  RefuseAnnotatedFields(param_.transform_param());
  int64_t count = 1;
  for (const auto& [name, size] : sizes) {
    count = CheckedProduct(count, size, StrCat("memory_data_param.", name));
  }
}

void MemoryDataLayer::Reshape(const Blobs&, const Blobs& top) {
  const caffe::MemoryDataParameter& param = param_.memory_data_param();
  top[0]->Reshape({param.batch_size(), param.channels(), param.height(), param.width()});
  top[1]->Reshape({param.batch_size()});
}

int64_t MemoryDataLayer::image_count() const {
  const caffe::MemoryDataParameter& param = param_.memory_data_param();
  return int64_t{param.channels()} * param.height() * param.width();
}

void MemoryDataLayer::CheckExamples(int64_t examples, const char* what) const {
  if (examples > 0 && examples % batch_size() == 0) return;
  throw Error("layer '", name(), "': ", examples, " ", what,
              " given, expected a multiple of batch_size, ", batch_size());
}

MemoryDataLayer::Examples MemoryDataLayer::MakeExamples(size_t count) const {
  MemorySpace& memory = context_.device->staging();
  Examples made;
  made.values = Buffer(memory, count * image_count() * sizeof(float));
  made.labels = Buffer(memory, count * sizeof(float));
  made.count = static_cast<int64_t>(count);
  return made;
}

void MemoryDataLayer::SetData(std::span<const float> values, std::span<const float> labels) {
  CheckExamples(static_cast<int64_t>(labels.size()), "labels");
  if (values.size() != labels.size() * static_cast<size_t>(image_count())) {
    throw Error("layer '", name(), "': ", values.size(), " values given, expected ", labels.size(),
                " examples of ", image_count());
  }
  given_ = MakeExamples(labels.size());
  std::copy(values.begin(), values.end(), given_.values.get<float>());
  std::copy(labels.begin(), labels.end(), given_.labels.get<float>());
}

void MemoryDataLayer::SetData(std::span<const caffe::Datum> datums) {
  CheckExamples(static_cast<int64_t>(datums.size()), "datums");
  const std::string what = StrCat("layer '", name(), "'");
  PixelReader reader(ImageReading::Of(param_.transform_param()));
  const std::string first_bytes = datums[0].SerializeAsString();
  const Transformer transformer(param_.transform_param(), context_.phase, context_.seed,
                                context_.layer_id, reader.Read(what, "0", first_bytes));
  const caffe::MemoryDataParameter& param = param_.memory_data_param();
  const ImageSize& size = transformer.output();
  if (size.channels != static_cast<int>(param.channels()) ||
      size.height != static_cast<int>(param.height()) ||
      size.width != static_cast<int>(param.width())) {
    throw Error(what, ": the transformed datums are ", size.channels, " x ", size.height, " x ",
                size.width, ", expected ", param.channels(), " x ", param.height(), " x ",
                param.width());
  }
  ImageTransform transform(reader, transformer);
  Examples made = MakeExamples(datums.size());
  for (size_t i = 0; i < datums.size(); ++i) {
    const std::string key = std::to_string(i), bytes = datums[i].SerializeAsString();
    float* const tops[] = {made.values.get<float>() + i * image_count(),
                           made.labels.get<float>() + i};
    transform.Apply(what, {key, bytes}, datums_given_ + i, tops);
  }
  datums_given_ += datums.size();
  given_ = std::move(made);
}

void MemoryDataLayer::Forward(const Blobs&, const Blobs& top) {
  if (given_.count > 0) {
    copied_.Synchronize();  // work that has been enqueued may read the old values
    used_ = std::exchange(given_, Examples());
    position_ = 0;
  }
  if (used_.count == 0) {
    throw Error("layer '", name(), "': has no data: the program gives it with SetMemoryData");
  }
  float* const parts[] = {used_.values.get<float>() + position_ * image_count(),
                          used_.labels.get<float>() + position_};
  for (size_t i = 0; i < top.size(); ++i) {
    if (memory().on_host()) {
      top[i]->BindData(parts[i]);
    } else {
      context_.queue->CopyToDevice(top[i]->data(), parts[i], top[i]->count() * sizeof(float));
    }
  }
  if (!memory().on_host()) copied_ = context_.queue->Record();
  position_ = (position_ + batch_size()) % used_.count;
}

namespace {
const RegisterLayer<MemoryDataLayer> memory_data_layer("MemoryData");
}  // namespace

}  // namespace millrace::inline nn
