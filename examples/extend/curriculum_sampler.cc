// A sampler: training begins with the first records, the easy ones if the data are sorted so, and
// gets to all of them over some epochs. In epoch e, records are drawn with replacement from the
// first share + (1 - share) * e / epochs of all.
//   sampler { type: "curriculum" param { key: "share" value: 0.2 } param { key: "epochs" value: 5 }
//   }
#include <millrace/sampler.h>

#include <algorithm>
#include <cmath>

namespace {

class CurriculumSampler : public millrace::Sampler {
 public:
  CurriculumSampler(const millrace::SampledData& data, double share, double epochs)
      : total_(data.total), key_(data.seed ^ data.stream), share_(share), epochs_(epochs) {}

  uint64_t Record(uint64_t epoch, uint64_t number) const override {
    const double seen = std::min(1.0, share_ + (1 - share_) * static_cast<double>(epoch) / epochs_);
    const auto open = static_cast<uint64_t>(std::ceil(seen * static_cast<double>(total_)));
    return Mixed(Mixed(key_ ^ epoch) ^ number) % std::clamp<uint64_t>(open, 1, total_);
  }

 private:
  // The finalizer of SplitMix64: the choice depends on key, epoch and number alone.
  static uint64_t Mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  const uint64_t total_, key_;
  const double share_, epochs_;
};

const millrace::RegisterSampler registered(
    {.name = "curriculum",
     .parameters =
         {{.name = "share", .default_value = 0.25, .least = 0, .most = 1},
          {.name = "epochs", .default_value = 10, .least = 1, .most = 1e9, .whole = true}}},
    [](const millrace::SampledData& data, const millrace::PartValues& values) {
      return std::make_shared<CurriculumSampler>(data, values.at("share"), values.at("epochs"));
    });

}  // namespace
