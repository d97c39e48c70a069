// Mean files of any bytes: they give an applicable transform, or a one-line error that names the
// field and the file.
#include "data/transformer.h"
#include "proto/parse.h"
#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

constexpr int kChannels = 2, kHeight = 3, kWidth = 4;
constexpr int kValues = kChannels * kHeight * kWidth;

caffe::BlobProto Mean() {
  caffe::BlobProto mean;
  for (int i = 0; i < kValues; ++i) mean.add_data(0.5f * static_cast<float>(i));
  mean.set_num(1);
  mean.set_channels(kChannels);
  mean.set_height(kHeight);
  mean.set_width(kWidth);
  return mean;
}

std::string DatumBytes() {
  caffe::Datum datum;
  datum.set_channels(kChannels);
  datum.set_height(kHeight);
  datum.set_width(kWidth);
  datum.set_data(std::string(kValues, '\x80'));
  return datum.SerializeAsString();
}

}  // namespace

std::vector<std::string> Corpus() {
  caffe::BlobProto shaped = Mean(), doubles = Mean(), batch = Mean();
  for (int dim : {kChannels, kHeight, kWidth}) shaped.mutable_shape()->add_dim(dim);
  doubles.clear_data();
  for (int i = 0; i < kValues; ++i) doubles.add_double_data(i);
  for (int dim : {1, kChannels, kHeight, kWidth}) batch.mutable_shape()->add_dim(dim);
  return {Mean().SerializeAsString(), shaped.SerializeAsString(), doubles.SerializeAsString(),
          batch.SerializeAsString(), ""};
}

bool Target(const std::string& input) {
  static const std::string record = DatumBytes();
  const DatumView datum = ReadDatum("db", "key", record);
  const MemoryFile file(input);
  caffe::TransformationParameter param;
  param.set_mean_file(file.path());
  param.set_crop_size(2);
  param.set_mirror(true);
  try {
    Transformer transformer(param, caffe::TRAIN, 1, 1, datum);
    std::vector<float> out(transformer.output().count());
    for (uint64_t item = 0; item < 4; ++item) transformer.Apply(datum, item, out.data());
    return true;
  } catch (const FieldError& error) {
    return error.field() == "transform_param.mean_file" && IsOneLineNaming(error, {file.path()});
  }
}

}  // namespace millrace::fuzz
