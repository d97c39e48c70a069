// Interface of a sampler: the order in which a run reads its training data (docs/learning.md). A
// solver file names one.
//
//   sampler { type: "shuffle" }
//
// Each process reads its shard of the numbers 0 .. total - 1 in each epoch, and the sampler says
// which record has a number. A sampler of one's own:
//
//   class Backwards : public millrace::Sampler {
//    public:
//     explicit Backwards(uint64_t total) : total_(total) {}
//     uint64_t Record(uint64_t, uint64_t number) const override { return total_ - 1 - number; }
//     ...
//   };
//   const millrace::RegisterSampler registered(
//       {.name = "backwards"},
//       [](const millrace::SampledData& data, const millrace::PartValues&) {
//         return std::make_shared<Backwards>(data.total);
//       });
#ifndef MILLRACE_SAMPLER_H_
#define MILLRACE_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "millrace/export.h"
#include "millrace/part.h"

namespace millrace {

// Immutable; several threads call it at the same time. A run reads the same records in each process
// and after a resume only if the results depend on nothing but the arguments and the data that the
// sampler was made with.
class MILLRACE_API Sampler {
 public:
  virtual ~Sampler() = default;
  // The record, below the total, that has `number` in `epoch`; number < total. Called for every
  // record that is read. Does not throw.
  virtual uint64_t Record(uint64_t epoch, uint64_t number) const = 0;
};

// What a sampler knows of the data of a layer.
struct SampledData {
  uint64_t total = 0;                // records, at least one
  uint64_t seed = 0, stream = 0;     // key of random choices; the same for all processes of a run
  std::vector<int32_t> labels = {};  // by record, if the sampler needs them
};

// Gets complete, checked values. Throws Error in one line if they contradict each other or the
// data.
using SamplerFactory = std::function<std::shared_ptr<const Sampler>(const SampledData& data,
                                                                    const PartValues& values)>;

// Registers a sampler. `needs_labels`: all records are read once at the start, for their labels;
// layers whose records do not have one label each then refuse it. Define one at namespace scope.
// The first sampler of a name stays. A second one, or a descriptor with a mistake, is an error when
// plugins are loaded and when a session or run starts.
struct MILLRACE_API RegisterSampler {
  RegisterSampler(PartDescriptor descriptor, SamplerFactory make, bool needs_labels = false);
};

}  // namespace millrace

#endif  // MILLRACE_SAMPLER_H_
