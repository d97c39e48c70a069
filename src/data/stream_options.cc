#include "data/stream_options.h"

#include <glog/logging.h>

#include <map>
#include <optional>
#include <utility>

#include "data/batch_source.h"
#include "data/database.h"
#include "data/datum_view.h"
#include "data/hdf5/hdf5_source.h"
#include "data/images/image_list.h"
#include "data/images/image_pairs.h"
#include "data/images/image_seg_transform.h"
#include "data/window/window_source.h"
#include "proto/parse.h"

namespace millrace::inline data {
namespace {

// Throws FieldError unless the batch size is sensible; `given`: whether it is in the file.
void CheckBatchSize(const std::string& field, uint32_t batch_size, bool given) {
  constexpr uint32_t kMaxBatchSize = 1 << 20;
  if (batch_size == 0 || batch_size > kMaxBatchSize) {
    throw FieldError(field, given ? "is " : "is missing, as ", batch_size, ", expected 1 to ",
                     kMaxBatchSize);
  }
}

void RequireSource(const std::string& field, const std::string& source, const char* what) {
  if (source.empty()) throw FieldError(field, "is missing, expected the path of ", what);
}

// Caffe prefetches data_param.prefetch batches for layers of every type.
int PrefetchOf(const caffe::LayerParameter& layer) {
  constexpr uint32_t kMaxPrefetch = 1 << 10;
  const caffe::DataParameter& param = layer.data_param();
  if (param.prefetch() == 0 || param.prefetch() > kMaxPrefetch) {
    throw FieldError("data_param.prefetch", "is ", param.prefetch(), ", expected 1 to ",
                     kMaxPrefetch);
  }
  if (layer.type() != "Data" && layer.type() != "AnnotatedData") {
    caffe::DataParameter rest = param;
    rest.clear_prefetch();
    if (rest.ByteSizeLong() > 0) {
      LOG(INFO) << "layer '" << layer.name() << "': data_param: ignored except for prefetch, a "
                << "layer of type " << layer.type() << " does not read its other fields";
    }
  }
  return static_cast<int>(param.prefetch());
}

// Caffe's `backend` defaults to LEVELDB. If it is not set, the contents of the path decide.
std::shared_ptr<DataSource> OpenSource(const caffe::DataParameter& param, int index) {
  const std::string& path = param.source(index);
  const std::string field = StrCat("data_param.source[", index, "]");
  const auto given =
      param.backend() == caffe::DataParameter::LMDB ? DatabaseKind::kLmdb : DatabaseKind::kLevelDb;
  try {
    if (auto source = DataSourceRegistry::Get().Open(path)) return source;
    const auto found = FindDatabaseKind(path);
    if (param.has_backend() && found && *found != given) {
      throw FieldError("data_param.backend", "is ", NameOf(given), ", but ", path,
                       " is a database of ", "backend ", NameOf(*found));
    }
    if (!found && !param.has_backend()) return OpenDatabase(path);
    return OpenDatabase(path, found.value_or(given));
  } catch (const FieldError&) {
    throw;
  } catch (const Error& error) {
    throw FieldError(field, error.what());
  }
}

// The service has chosen the order of the records, and the batch size if the layer has none.
void BatchesStream(const caffe::DataParameter& param, const BatchSource& batches,
                   BatchStreamOptions* options) {
  const auto refuse = [&](const char* field) {
    throw FieldError(StrCat("data_param.", field), "is set, but ", batches.path(),
                     " has an order of its own: set it where the service is started");
  };
  if (param.shuffle()) refuse("shuffle");
  if (param.rand_skip() > 0) refuse("rand_skip");
  options->batch_size = batches.batch_size();
  if (!param.has_batch_size() || param.batch_size() == options->batch_size) return;
  throw FieldError("data_param.batch_size", "is ", param.batch_size(), ", but ", batches.path(),
                   " gives batches of ", options->batch_size);
}

void DataStream(const caffe::LayerParameter& layer, BatchStreamOptions* options) {
  const caffe::DataParameter& param = layer.data_param();
  if (param.source_size() == 0) {
    throw FieldError("data_param.source", "is missing, expected the path of a database");
  }
  options->read_ahead = PrefetchOf(layer);
  for (int i = 0; i < param.source_size(); ++i) options->sources.push_back(OpenSource(param, i));
  if (const BatchSource* const batches = BatchSourceOf(options->sources)) {
    return BatchesStream(param, *batches, options);
  }
  for (int i = 0; i < param.source_size(); ++i) {
    if (dynamic_cast<const BatchSource*>(options->sources[i].get()) == nullptr) continue;
    throw FieldError(StrCat("data_param.source[", i, "]"),
                     "is a service of batches, expected no other source beside it");
  }
  CheckBatchSize("data_param.batch_size", param.batch_size(), param.has_batch_size());
  options->shuffle = param.shuffle();
  options->rand_skip = param.rand_skip();
}

void ImageStream(const caffe::LayerParameter& layer, BatchStreamOptions* options) {
  const caffe::ImageDataParameter& param = layer.image_data_param();
  CheckBatchSize("image_data_param.batch_size", param.batch_size(), param.has_batch_size());
  RequireSource("image_data_param.source", param.source(), "a list of images and labels");
  options->read_ahead = PrefetchOf(layer);
  options->sources = {std::make_shared<ImageListSource>(param.source(), param.root_folder())};
  options->shuffle = param.shuffle();
  options->rand_skip = param.rand_skip();
}

void ImagePairStream(const caffe::LayerParameter& layer, BatchStreamOptions* options) {
  const caffe::DenseImageDataParameter& param = layer.dense_image_data_param();
  CheckBatchSize("dense_image_data_param.batch_size", param.batch_size(), param.has_batch_size());
  RequireSource("dense_image_data_param.source", param.source(), "a list of images and labels");
  options->read_ahead = PrefetchOf(layer);
  options->sources = {std::make_shared<ImagePairSource>(param.source(), param.root_folder())};
  options->shuffle = param.shuffle();
  options->rand_skip = param.rand_skip();
}

void ImageSegStream(const caffe::LayerParameter& layer, BatchStreamOptions* options) {
  const caffe::ImageDataParameter& param = layer.image_data_param();
  CheckBatchSize("image_data_param.batch_size", param.batch_size(), param.has_batch_size());
  RequireSource("image_data_param.source", param.source(), "a list of images and labels");
  options->read_ahead = PrefetchOf(layer);
  options->sources = {
      std::make_shared<ImagePairSource>(param.source(), param.root_folder(), PairLabelsOf(layer))};
  options->shuffle = param.shuffle();
  options->rand_skip = param.rand_skip();
}

void WindowStream(const caffe::LayerParameter& layer, BatchStreamOptions* options) {
  const caffe::WindowDataParameter& param = layer.window_data_param();
  CheckBatchSize("window_data_param.batch_size", param.batch_size(), param.has_batch_size());
  RequireSource("window_data_param.source", param.source(), "a window file");
  const float fraction = param.fg_fraction();
  if (!(fraction >= 0 && fraction <= 1)) {
    throw FieldError("window_data_param.fg_fraction", "is ", fraction, ", expected 0 to 1");
  }
  options->read_ahead = PrefetchOf(layer);
  const auto [background, objects] = OpenWindows(param);
  options->sources = {background, objects};
  const auto object_draws =
      static_cast<uint64_t>(static_cast<float>(param.batch_size()) * fraction);
  options->draws = {param.batch_size() - object_draws, object_draws};
}

void Hdf5Stream(const caffe::LayerParameter& layer, BatchStreamOptions* options) {
  const caffe::HDF5DataParameter& param = layer.hdf5_data_param();
  CheckBatchSize("hdf5_data_param.batch_size", param.batch_size(), param.has_batch_size());
  RequireSource("hdf5_data_param.source", param.source(), "a list of HDF5 files");
  options->read_ahead = PrefetchOf(layer);
  const std::vector<std::string> tops(layer.top().begin(), layer.top().end());
  const auto source = std::make_shared<Hdf5Source>(param.source(), tops);
  options->sources = {source};
  options->shuffle = param.shuffle();
  options->groups = source->file_rows();
}

std::vector<int32_t> DatumLabels(DataSource* source) {
  std::vector<int32_t> labels(source->size());
  const std::unique_ptr<RecordReader> reader = source->MakeReader(false);
  for (uint64_t i = 0; i < labels.size(); ++i) {
    const RecordView record = reader->At(i);
    DatumView datum;
    if (!ParseDatum(record.value, &datum)) {
      throw Error(RecordName(source->path(), record.key), ": is not a Datum");
    }
    labels[i] = datum.label;
  }
  source->ThrowIfDamaged();
  return labels;
}

// From the list alone.
std::vector<int32_t> ListedLabels(DataSource* source) {
  return dynamic_cast<const ImageListSource&>(*source).Labels();
}

struct LayerType {
  const char* source_field;
  void (*open)(const caffe::LayerParameter& layer, BatchStreamOptions* options);
  uint32_t (*batch_size)(const caffe::LayerParameter& layer);
  bool any_order = false;
  std::vector<int32_t> (*labels)(DataSource* source) = nullptr;
};

const LayerType& TypeOf(const caffe::LayerParameter& layer) {
  static const LayerType image_seg = {
      "image_data_param.source", ImageSegStream,
      [](const caffe::LayerParameter& layer) { return layer.image_data_param().batch_size(); },
      true};
  static const std::map<std::string, LayerType> types = {
      {"Data",
       {"data_param.source", DataStream,
        [](const caffe::LayerParameter& layer) { return layer.data_param().batch_size(); }, true,
        DatumLabels}},
      {"AnnotatedData",
       {"data_param.source", DataStream,
        [](const caffe::LayerParameter& layer) { return layer.data_param().batch_size(); }, true}},
      {"ImageData",
       {"image_data_param.source", ImageStream,
        [](const caffe::LayerParameter& layer) { return layer.image_data_param().batch_size(); },
        true, ListedLabels}},
      {"ImageSegData", image_seg},
      {"ImageLabelmapData", image_seg},
      {"DenseImageData",
       {"dense_image_data_param.source", ImagePairStream,
        [](const caffe::LayerParameter& layer) {
          return layer.dense_image_data_param().batch_size();
        },
        true}},
      {"WindowData",
       {"window_data_param.source", WindowStream,
        [](const caffe::LayerParameter& layer) { return layer.window_data_param().batch_size(); }}},
      {"HDF5Data",
       {"hdf5_data_param.source", Hdf5Stream,
        [](const caffe::LayerParameter& layer) { return layer.hdf5_data_param().batch_size(); }}},
  };
  const auto found = types.find(layer.type());
  CHECK(found != types.end()) << "a layer of type " << layer.type() << " has no stream";
  return found->second;
}

}  // namespace

LayerStream OpenLayerStream(const caffe::LayerParameter& layer) {
  const LayerType& type = TypeOf(layer);
  LayerStream stream;
  stream.source_field = type.source_field;
  stream.options.layer = layer.name();
  stream.any_order = type.any_order;
  stream.shuffles_as_caffe = type.open != DataStream;
  if (type.labels != nullptr) stream.labels = type.labels;
  try {
    type.open(layer, &stream.options);
  } catch (const FieldError&) {
    throw;
  } catch (const Error& error) {
    throw FieldError(stream.source_field, error.what());
  }
  if (BatchSourceOf(stream.options.sources)) {
    stream.any_order = false;
    stream.labels = nullptr;
  } else {
    stream.options.batch_size = type.batch_size(layer);
  }
  return stream;
}

uint32_t BatchSizeOf(const caffe::LayerParameter& layer) { return TypeOf(layer).batch_size(layer); }

}  // namespace millrace::inline data
