#include "data/data_service.h"

#include <glog/logging.h>

#include <algorithm>
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

std::vector<BatchStream*> DataService::Scope::streams() const {
  std::vector<BatchStream*> streams;
  for (const auto& layer : layers) streams.push_back(layer->stream.get());
  return streams;
}

std::vector<OpenLayer*> DataService::Scope::open() const {
  std::vector<OpenLayer*> open;
  for (const auto& layer : layers) open.push_back(layer.get());
  return open;
}

BatchStream* DataService::Scope::Find(const std::string& layer) const {
  for (const auto& each : layers) {
    if (each->stream->layer() == layer) return each->stream.get();
  }
  return nullptr;
}

DataService::Scope& DataService::ScopeOf(const std::string& name) {
  Scope& scope = scopes_[name];
  if (!scope.sequence) scope.sequence = std::make_shared<BatchSequence>(options_.consumers);
  return scope;
}

std::shared_ptr<BatchStream> DataService::Open(const std::string& scope_name,
                                               const caffe::LayerParameter& layer) {
  std::lock_guard lock(mutex_);
  Scope& scope = ScopeOf(scope_name);
  for (const auto& each : scope.layers) {
    if (each->stream->layer() == layer.name()) return each->stream;
  }
  std::unique_ptr<OpenLayer> opened = OpenIn(scope, scope_name, layer);
  BatchStream& stream = *opened->stream;
  if (const auto found = scope.restored.find(layer.name()); found != scope.restored.end()) {
    stream.Restore(found->second);
    scope.restored.erase(found);
  }
  if (absent_) BatchStream::SetAbsent({&stream}, *absent_);
  if (stopped_) stream.Stop();
  scope.layers.push_back(std::move(opened));
  return scope.layers.back()->stream;
}

std::unique_ptr<OpenLayer> DataService::OpenIn(const Scope& scope, const std::string& name,
                                               const caffe::LayerParameter& layer) const {
  auto opened = std::make_unique<OpenLayer>();
  opened->layer = OpenLayerStream(layer);
  LayerStream& wanted = opened->layer;
  try {
    if (name == "train") {
      ApplySampler(options_.sampler, layer, scope.open(), options_.seed,
                   Fnv1a(StrCat(name, '\0', layer.name())), &wanted);
    }
    BatchStreamOptions& options = wanted.options;
    const bool is_batches = BatchSourceOf(options.sources) != nullptr;
    for (const OpenLayer* other : scope.open()) {
      if (is_batches == (other->stream->batch_source() != nullptr)) continue;
      throw FieldError(wanted.source_field, is_batches ? "is a service of batches" : "is none",
                       ", but the source of layer '", other->stream->layer(),
                       is_batches ? "' is none" : "' is one",
                       ": records that belong together would not stay together");
    }
    // A source of whole batches divides them among its workers.
    const bool is_whole = same_for_all_ || is_batches;
    options.shard_index = is_whole ? 0 : options_.shard_index;
    options.shard_count = is_whole ? 1 : options_.shard_count;
    options.sequence = scope.sequence;
    options.seed = options_.seed;
    options.stream = Fnv1a(StrCat(name, '\0', layer.name(), '\0', options.shard_index));
    options.order = options.stream;
    options.errors = options_.errors;
    AlignOrder(scope.open(), &wanted);
    opened->stream = std::make_shared<BatchStream>(options);
  } catch (const FieldError&) {
    throw;
  } catch (const Error& error) {
    throw FieldError(wanted.source_field, error.what());
  }
  return opened;
}

bool DataService::HasStreams(const std::string& scope) const {
  std::lock_guard lock(mutex_);
  const auto found = scopes_.find(scope);
  return found != scopes_.end() && !found->second.layers.empty();
}

int64_t DataService::WaitedNs(const std::string& scope) const {
  std::lock_guard lock(mutex_);
  const auto found = scopes_.find(scope);
  int64_t waited_ns = 0;
  if (found == scopes_.end()) return waited_ns;
  for (const BatchStream* stream : found->second.streams()) waited_ns += stream->waited_ns();
  return waited_ns;
}

std::vector<caffe::StreamPosition> DataService::Positions(const std::string& scope) const {
  std::lock_guard lock(mutex_);
  const auto found = scopes_.find(scope);
  if (found == scopes_.end()) return {};
  std::vector<caffe::StreamPosition> positions = BatchStream::Positions(found->second.streams());
  std::sort(positions.begin(), positions.end(),
            [](const auto& a, const auto& b) { return a.layer() < b.layer(); });
  return positions;
}

void DataService::Restore(const std::string& scope_name,
                          const std::vector<caffe::StreamPosition>& positions) {
  std::lock_guard lock(mutex_);
  Scope& scope = ScopeOf(scope_name);
  for (const caffe::StreamPosition& position : positions) {
    if (BatchStream* const stream = scope.Find(position.layer())) {
      stream->Restore(position);
    } else {
      scope.restored[position.layer()] = position;
    }
  }
}

void DataService::Seek(const std::string& scope_name, uint64_t number) {
  std::vector<BatchStream*> streams;
  {
    std::lock_guard lock(mutex_);
    streams = ScopeOf(scope_name).streams();
  }
  BatchStream::Seek(streams, number);
}

void DataService::SetAbsentShards(const std::vector<uint64_t>& absent) {
  std::lock_guard lock(mutex_);
  if (same_for_all_) return;  // every process reads all records
  absent_ = absent;
  for (const auto& [name, scope] : scopes_) BatchStream::SetAbsent(scope.streams(), absent);
}

void DataService::Stop() {
  std::vector<BatchStream*> streams;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    for (const auto& [name, scope] : scopes_) {
      for (BatchStream* stream : scope.streams()) streams.push_back(stream);
    }
  }
  // Joins readers without the lock, so that no other caller waits for them.
  for (BatchStream* stream : streams) stream->Stop();
}

}  // namespace millrace::inline data
