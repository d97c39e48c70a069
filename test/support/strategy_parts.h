// Parts of tests of strategies.
#ifndef MILLRACE_TEST_SUPPORT_STRATEGY_PARTS_H_
#define MILLRACE_TEST_SUPPORT_STRATEGY_PARTS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "millrace/sync_condition.h"
#include "weights/weight_buffer.h"

namespace millrace::test {

// A private array of `count` weights of this value.
inline std::unique_ptr<WeightBuffer> Weights(int64_t count, float value) {
  ParamLayout layout;
  layout.Add("w/0", {count});
  auto weights = WeightBuffer::CreatePrivate(layout);
  std::fill_n(weights->data(), count, value);
  return weights;
}

// Fires after this number of the solver's iterations. Appends the states that it is asked about to
// `seen`, unless that is null.
class Every : public SyncCondition {
 public:
  explicit Every(int64_t steps, std::vector<SyncState>* seen = nullptr)
      : steps_(steps), seen_(seen) {}
  bool Fires(const SyncState& state) override {
    if (seen_ != nullptr) seen_->push_back(state);
    return state.iterations >= steps_;
  }

 private:
  const int64_t steps_;
  std::vector<SyncState>* const seen_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_STRATEGY_PARTS_H_
