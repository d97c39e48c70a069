#include "nn/layers/data_layer.h"

#include <utility>

#include "data/data_service.h"
#include "data/pixel_reader.h"

namespace millrace {

DataLayer::~DataLayer() = default;

void DataLayer::SetUp(const Blobs&, const Blobs&) {
  if (!context_.data) {
    throw FieldError("type", "a Data layer reads from databases, and this net reads no data");
  }
  stream_ = context_.data->Open(context_.data_scope, param_);
  const RecordView record = stream_->FirstRecord();
  PixelReader reader(param_.transform_param());
  DatumView first;
  try {
    first = reader.Read(stream_->source_path(0), record.key, record.value);
  } catch (const Error& error) {
    throw FieldError("data_param.source", error.what());
  }
  const Transformer transformer(param_.transform_param(), context_.phase, stream_->seed(),
                                stream_->stream(), first);
  image_ = transformer.output();
  prefetcher_ = std::make_unique<Prefetcher>(stream_, reader, transformer,
                                             static_cast<int>(param_.data_param().prefetch()),
                                             context_.device->staging());
}

void DataLayer::Reshape(const Blobs&, const Blobs& top) {
  top[0]->Reshape({batch_size(), image_.channels, image_.height, image_.width});
  if (top.size() > 1) top[1]->Reshape({batch_size()});
}

void DataLayer::Forward(const Blobs&, const Blobs& top) {
  if (mark_in_forward_) MarkPast();
  if (current_) {
    copied_.Synchronize();  // the prefetcher will overwrite the batch
    prefetcher_->Recycle(std::exchange(current_, nullptr));
  }
  current_ = prefetcher_->Next();
  unmarked_.push_back(current_->number);
  const Buffer* const parts[] = {&current_->images, &current_->labels};
  const bool on_host = memory().on_host();
  for (size_t i = 0; i < top.size(); ++i) {
    if (on_host) {
      top[i]->BindData(parts[i]->get<float>());
    } else {
      context_.queue->CopyToDevice(top[i]->data(), parts[i]->get(), parts[i]->bytes());
    }
  }
  if (!on_host) copied_ = context_.queue->Record();
}

void DataLayer::EndIteration() {
  mark_in_forward_ = false;
  MarkPast();
}

void DataLayer::MarkPast() {
  for (uint64_t number : unmarked_) stream_->MarkConsumed(number);
  unmarked_.clear();
}

namespace {
const RegisterLayer<DataLayer> registered("Data");
}  // namespace

}  // namespace millrace
