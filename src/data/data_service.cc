#include "data/data_service.h"

#include <glog/logging.h>

#include <utility>

#include "base/file.h"
#include "base/fnv1a.h"
#include "data/lmdb_database.h"
#include "proto/parse.h"

namespace millrace {
namespace {

// Caffe's `backend` defaults to LEVELDB. If it is not set, the contents of the path decide.
std::shared_ptr<DataSource> OpenSource(const caffe::DataParameter& param, int index) {
  const std::string& path = param.source(index);
  const std::string field = StrCat("data_param.source[", index, "]");
  try {
    if (auto source = DataSourceRegistry::Get().Open(path)) return source;
  } catch (const Error& error) {
    throw FieldError(field, error.what());
  }
  const bool is_lmdb = FileExists(path + "/data.mdb");
  if (param.has_backend() && param.backend() == caffe::DataParameter::LEVELDB) {
    throw FieldError("data_param.backend", "LEVELDB is not supported; ",
                     is_lmdb ? StrCat(path, " is an LMDB database: set backend: LMDB")
                             : StrCat("convert ", path, " to LMDB"));
  }
  try {
    return LmdbDatabase::Open(path);
  } catch (const Error& error) {
    throw FieldError(field, error.what());
  }
}

void CheckParam(const caffe::DataParameter& param) {
  constexpr uint32_t kLargestBatch = 1 << 20;
  constexpr uint32_t kLargestPrefetch = 1 << 10;
  if (param.source_size() == 0) {
    throw FieldError("data_param.source", "is missing, expected the path of an LMDB database");
  }
  if (param.batch_size() == 0 || param.batch_size() > kLargestBatch) {
    throw FieldError("data_param.batch_size", param.has_batch_size() ? "is " : "is missing, as ",
                     param.batch_size(), ", expected 1 to ", kLargestBatch);
  }
  if (param.prefetch() == 0 || param.prefetch() > kLargestPrefetch) {
    throw FieldError("data_param.prefetch", "is ", param.prefetch(), ", expected 1 to ",
                     kLargestPrefetch);
  }
  if (param.force_encoded_color()) {
    throw FieldError("data_param.force_encoded_color",
                     "is not supported; transform_param's force_color does the same");
  }
}

}  // namespace

DataService::DataService(const DataOptions& options) : options_(options) {
  CHECK_LT(options.shard_index, options.shard_count);
}

DataService::~DataService() { Stop(); }

std::shared_ptr<BatchStream> DataService::Open(const std::string& scope,
                                               const caffe::LayerParameter& layer) {
  std::lock_guard lock(mutex_);
  const auto key = std::make_pair(scope, layer.name());
  if (const auto found = streams_.find(key); found != streams_.end()) return found->second;

  const caffe::DataParameter& param = layer.data_param();
  CheckParam(param);
  BatchStreamOptions options;
  options.layer = layer.name();
  for (int i = 0; i < param.source_size(); ++i) options.sources.push_back(OpenSource(param, i));
  options.batch_size = param.batch_size();
  options.read_ahead = static_cast<int>(param.prefetch());
  options.shuffle = param.shuffle();
  options.rand_skip = param.rand_skip();
  options.shard_index = options_.shard_index;
  options.shard_count = options_.shard_count;
  options.seed = options_.seed;
  options.stream = Fnv1a(StrCat(scope, '\0', layer.name(), '\0', options_.shard_index));
  options.errors = options_.errors;
  std::shared_ptr<BatchStream> stream;
  try {
    stream = std::make_shared<BatchStream>(options);
  } catch (const Error& error) {
    throw FieldError("data_param.source", error.what());
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

}  // namespace millrace
