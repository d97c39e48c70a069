#include "batches/batch_maker.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/fnv1a.h"
#include "base/threads/cache_line.h"
#include "batches/frames.h"
#include "nn/net_param.h"

namespace millrace::inline batches {
namespace {

// What of a layer determines its batches, beside the records.
std::string SettingsOf(caffe::LayerParameter layer) {
  layer.mutable_data_param()->clear_source();
  layer.mutable_data_param()->clear_backend();
  layer.mutable_data_param()->clear_prefetch();
  layer.clear_top();
  return layer.ShortDebugString();
}

}  // namespace

BatchMaker::BatchMaker(const caffe::NetParameter& net, const SourceMap& source,
                       const caffe::NetState& state, uint64_t seed)
    : data_(DataOptions{.seed = seed}) {
  std::vector<PlacedLayer> layers = SelectLayers(net, state, source);
  GiveUniqueNames(&layers);
  std::string settings = StrCat(seed);
  for (const PlacedLayer& layer : layers) {
    // The scope of a net that trains on one machine: random choices are a function of it.
    const std::string scope = state.phase() == caffe::TRAIN ? "train" : "test0";
    try {
      AddLayer(layer.param, state.phase(), scope);
    } catch (const FieldError& error) {
      throw Error(PlaceOf(source, layer, error.field()), error.what());
    } catch (const Error& error) {
      throw Error(PlaceOf(source, layer), error.what());
    }
    if (infos_.empty() || infos_.back().name != layer.param.name()) continue;
    settings += StrCat(" { ", SettingsOf(layer.param), " } ", infos_.back().records);
  }
  if (infos_.empty()) {
    throw Error(source.file(), ": has no data layer for phase ", caffe::Phase_Name(state.phase()),
                " that reads from files, expected one whose batches are to be served");
  }
  fingerprint_ = Fnv1a(settings);
  if (bytes_ > kMaxBatchBytes) {
    throw Error(source.file(), ": a batch has ", bytes_, " bytes, expected at most ",
                kMaxBatchBytes);
  }
}

BatchMaker::~BatchMaker() = default;

void BatchMaker::AddLayer(const caffe::LayerParameter& param, caffe::Phase phase,
                          const std::string& scope) {
  if (!LayerRegistry::Get().WhyNot(param.type(), HostDevice()).empty()) return;
  LayerContext context;
  context.phase = phase;
  context.seed = data_.options().seed;
  context.data = &data_;
  context.data_scope = scope;
  std::unique_ptr<Layer> made = LayerRegistry::Get().Create(param, context);
  auto* const layer = dynamic_cast<BatchDataLayer*>(made.get());
  if (layer == nullptr) return;
  made.release();
  layers_.emplace_back(layer);
  layer->SetUp({}, {});
  const std::unique_ptr<BatchTransform> transform = layer->NewTransform();
  if (transform->varies()) {
    throw Error(
        "its tops have another shape in every batch: such layers read their files "
        "themselves, not from a service");
  }
  if (layer->stream().batch_source() != nullptr) {
    throw FieldError("data_param.source", "is a service of batches itself");
  }
  LayerInfo info{.name = param.name(),
                 .batch_size = layer->stream().batch_size(),
                 .records = layer->stream().records(),
                 .shapes = transform->first_shapes(),
                 .transform = param.transform_param().ShortDebugString(),
                 .offset = bytes_};
  for (const Shape& shape : info.shapes) {
    info.bytes += static_cast<uint64_t>(ShapeCount(shape)) * sizeof(float);
  }
  bytes_ += WholeCacheLines(info.bytes);
  infos_.push_back(std::move(info));
}

BatchMaker::Worker::Worker(BatchMaker* maker) : maker_(*maker) {
  const std::lock_guard lock(maker->mutex_);  // layers are not thread-safe
  for (const auto& layer : maker->layers_) {
    parts_.push_back(
        {&layer->stream(), BatchStream::Access(&layer->stream()), layer->NewTransform()});
  }
}

void BatchMaker::Worker::Make(uint64_t number, std::byte* values) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    const LayerInfo& info = maker_.infos_[i];
    part.access.Read(number, &part.batch);
    std::vector<float*> tops;
    auto* at = reinterpret_cast<float*>(values + info.offset);
    for (const Shape& shape : info.shapes) {
      tops.push_back(at);
      at += ShapeCount(shape);
    }
    try {
      for (size_t r = 0; r < part.batch.records.size(); ++r) {
        const RecordView& record = part.batch.records[r];
        part.transform->Add(part.stream->source_path(record.source), record,
                            part.batch.first_item + r);
      }
      part.transform->Write(tops.data());
    } catch (const Error&) {
      part.stream->ThrowIfDamaged();  // throws the cause if it is damage
      throw;
    }
    part.stream->ThrowIfDamaged();
  }
}

}  // namespace millrace::inline batches
