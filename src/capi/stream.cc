// Streams in C: members of a cluster around a program's own weights.
#include <memory>

#include "capi/call.h"
#include "millrace/cluster.h"
#include "millrace/metrics.h"

using millrace::Call;
using millrace::Given;

struct millrace_stream {
  millrace_stream(const millrace::ClusterOptions& options, std::span<float> given)
      : weights(given.size()), member(options, given) {}

  const size_t weights;  // their number
  millrace::ClusterMember member;
};

namespace {

millrace::ClusterMember& MemberOf(const char* function, millrace_stream* stream) {
  return Given(function, "stream", stream).member;
}

}  // namespace

int millrace_stream_open(const millrace_stream_options* given, float* weights, size_t count,
                         millrace_stream** stream) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "stream", stream);
    Given(function, "weights", weights);
    const millrace_stream_options options =
        millrace::Taken(function, "millrace_stream_options", given);
    millrace::ClusterOptions cluster;
    cluster.rendezvous = millrace::TextOrNone(options.rendezvous);
    cluster.nodes = millrace::TextOrNone(options.nodes);
    cluster.topology =
        cluster.rendezvous.empty()
            ? millrace::GivenText(function, "millrace_stream_options.topology", options.topology)
            : millrace::TextOrNone(options.topology);
    cluster.node = millrace::TextOrNone(options.node);
    cluster.layout = options.layout;
    cluster.iteration = options.iteration;
    if (options.scaling != nullptr) cluster.scaling = options.scaling;
    cluster.warmup = options.warmup;
    if (options.metrics != 0) cluster.metrics = &millrace::MetricsRegistry::OfProcess();
    *stream = new millrace_stream(cluster, {weights, count});
  });
}

void millrace_stream_close(millrace_stream* stream) { delete stream; }

int millrace_stream_join(millrace_stream* stream, double seconds) {
  const char* const function = __func__;
  return Call(function, [&] {
    millrace::ClusterMember& member = MemberOf(function, stream);
    if (!(seconds >= 0)) {
      throw millrace::Error(function, ": seconds is ", seconds, ", expected 0 or more");
    }
    member.Join(seconds);
  });
}

int millrace_stream_add(millrace_stream* stream, const float* delta, size_t count) {
  const char* const function = __func__;
  return Call(function, [&] {
    MemberOf(function, stream).Add({&Given(function, "delta", delta), count});
  });
}

int millrace_stream_update(millrace_stream* stream,
                           int (*update)(void* user, size_t offset, float* part, size_t count),
                           void* user) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "update", update);
    MemberOf(function, stream).Update([&](size_t offset, std::span<float> part) {
      millrace::Callback("the callback of millrace_stream_update", update, user, offset,
                         part.data(), part.size());
    });
  });
}

int64_t millrace_stream_iterations(millrace_stream* stream) {
  const char* const function = __func__;
  return millrace::ValueOf(function, int64_t{-1},
                           [&] { return MemberOf(function, stream).iterations(); });
}

float millrace_stream_rate_factor(millrace_stream* stream) {
  const char* const function = __func__;
  return millrace::ValueOf(function, -1.0f,
                           [&] { return MemberOf(function, stream).rate_factor(); });
}

int millrace_stream_nodes(millrace_stream* stream) {
  const char* const function = __func__;
  return Call(function, [&]() -> int { return MemberOf(function, stream).nodes(); });
}

int millrace_stream_is_leader(millrace_stream* stream) {
  const char* const function = __func__;
  return Call(function, [&]() -> int { return MemberOf(function, stream).is_leader(); });
}

int millrace_stream_read_merged(millrace_stream* stream, float* to, size_t count) {
  const char* const function = __func__;
  return Call(function, [&] {
    millrace::ClusterMember& member = MemberOf(function, stream);
    Given(function, "to", to);
    if (count != stream->weights) {
      throw millrace::Error(function, ": count is ", count, ", expected ", stream->weights,
                            ", the number of weights");
    }
    member.ReadMerged({to, count});
  });
}

int millrace_stream_finish(millrace_stream* stream) {
  const char* const function = __func__;
  return Call(function, [&] { MemberOf(function, stream).Finish(); });
}

int millrace_stream_leave(millrace_stream* stream) {
  const char* const function = __func__;
  return Call(function, [&] { MemberOf(function, stream).Leave(); });
}

int millrace_stream_fail(millrace_stream* stream, const char* why, int not_finite) {
  const char* const function = __func__;
  return Call(function, [&] {
    MemberOf(function, stream).Fail(millrace::GivenText(function, "why", why), not_finite != 0);
  });
}
