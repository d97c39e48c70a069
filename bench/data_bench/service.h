// Batches of a minibatch service in this process, beside those of local reading.
#ifndef MILLRACE_BENCH_DATA_BENCH_SERVICE_H_
#define MILLRACE_BENCH_DATA_BENCH_SERVICE_H_

#include <cstdint>
#include <string>

#include "proto/caffe.pb.h"

namespace millrace::bench {

struct Rate {
  double images = 0;        // a second
  double processor_us = 0;  // of all threads of the process, for each image
};
// That so many solvers take together from the layer.
Rate BatchRate(const caffe::LayerParameter& param, int solvers, double seconds);

enum class Path {
  kMemory,    // the service's shared memory
  kLoopback,  // a connection within the machine
  kLink,      // one between two network namespaces, at 1 Gbit/s; needs root
};
// The same of one solver that takes them from a service with one thread per processor.
Rate ServedRate(const caffe::LayerParameter& param, Path path, double seconds);
// Why kLink cannot be measured here; "" if it can.
std::string WhyNoLink();

// Bytes of the values of a batch of the layer.
uint64_t BatchBytes(const caffe::LayerParameter& param);
// Bodies of so many bytes a second that the HTTP client of the control service gets from its
// server, on loopback.
double HttpRate(uint64_t bytes, double seconds);

}  // namespace millrace::bench

#endif  // MILLRACE_BENCH_DATA_BENCH_SERVICE_H_
