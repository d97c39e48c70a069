#include "data/data_service.h"

#include <glog/logging.h>

#include <utility>

#include "base/fnv1a.h"
#include "data/apply_sampler.h"
#include "data/stream_options.h"
#include "proto/parse.h"

namespace millrace::inline data {

DataService::DataService(const DataOptions& options)
    : options_(options), same_for_all_(IsSameForAll(options.sampler)) {
  CHECK_LT(options.shard_index, options.shard_count);
}

DataService::~DataService() { Stop(); }

std::shared_ptr<BatchStream> DataService::Open(const std::string& scope,
                                               const caffe::LayerParameter& layer) {
  std::lock_guard lock(mutex_);
  const auto key = std::make_pair(scope, layer.name());
  if (const auto found = streams_.find(key); found != streams_.end()) return found->second;

  LayerStream wanted = OpenLayerStream(layer);
  const uint64_t shard = same_for_all_ ? 0 : options_.shard_index;
  std::shared_ptr<BatchStream> stream;
  try {
    if (scope == "train") {
      ApplySampler(options_.sampler, layer, options_.seed, Fnv1a(StrCat(scope, '\0', layer.name())),
                   &wanted);
    }
    BatchStreamOptions options = wanted.options;
    options.shard_index = shard;
    options.shard_count = same_for_all_ ? 1 : options_.shard_count;
    options.consumers = options_.consumers;
    options.seed = options_.seed;
    options.stream = Fnv1a(StrCat(scope, '\0', layer.name(), '\0', shard));
    options.errors = options_.errors;
    stream = std::make_shared<BatchStream>(options);
  } catch (const FieldError&) {
    throw;
  } catch (const Error& error) {
    throw FieldError(wanted.source_field, error.what());
  }
  if (const auto found = restored_.find(key); found != restored_.end()) {
    stream->Restore(found->second);
    restored_.erase(found);
  }
  if (absent_) stream->SetAbsent(*absent_);
  if (stopped_) stream->Stop();
  streams_[key] = stream;
  return stream;
}

bool DataService::HasStreams(const std::string& scope) const {
  std::lock_guard lock(mutex_);
  for (const auto& [key, stream] : streams_) {
    if (key.first == scope) return true;
  }
  return false;
}

std::vector<caffe::StreamPosition> DataService::Positions(const std::string& scope) const {
  std::lock_guard lock(mutex_);
  std::vector<caffe::StreamPosition> positions;
  for (const auto& [key, stream] : streams_) {
    if (key.first == scope) positions.push_back(stream->Position());
  }
  return positions;
}

void DataService::Restore(const std::string& scope,
                          const std::vector<caffe::StreamPosition>& positions) {
  std::lock_guard lock(mutex_);
  for (const caffe::StreamPosition& position : positions) {
    const auto key = std::make_pair(scope, position.layer());
    if (const auto found = streams_.find(key); found != streams_.end()) {
      found->second->Restore(position);
    } else {
      restored_[key] = position;
    }
  }
}

void DataService::Seek(const std::string& scope, uint64_t number) {
  std::vector<std::shared_ptr<BatchStream>> streams;
  {
    std::lock_guard lock(mutex_);
    for (auto& [key, stream] : streams_) {
      if (key.first == scope) streams.push_back(stream);
    }
  }
  for (auto& stream : streams) stream->Seek(number);
}

void DataService::SetAbsentShards(const std::vector<uint64_t>& absent) {
  std::lock_guard lock(mutex_);
  if (same_for_all_) return;  // every process reads all records
  absent_ = absent;
  for (auto& [key, stream] : streams_) stream->SetAbsent(absent);
}

void DataService::Stop() {
  std::vector<std::shared_ptr<BatchStream>> streams;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    for (auto& [key, stream] : streams_) streams.push_back(stream);
  }
  // Joins readers without the lock, so that no other caller waits for them.
  for (auto& stream : streams) stream->Stop();
}

}  // namespace millrace::inline data
