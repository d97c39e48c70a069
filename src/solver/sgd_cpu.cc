// SGD on the host: Hogwild updates under range locks.
#include "solver/hogwild_update.h"
#include "solver/sgd.h"

namespace millrace {
namespace {

class SgdRuleCpu final : public SgdRule {
 public:
  SgdRuleCpu(const caffe::SolverParameter& param, const std::vector<UpdateParam>& params,
             int64_t size, Queue& queue)
      : SgdRule(param, params, size, queue) {}

 protected:
  void Step(const SgdStep& step, bool l1, int64_t offset, int64_t count, const float* gradients,
            float* weights) override {
    const auto update = l1 ? HogwildUpdateSgdL1 : HogwildUpdateSgdL2;
    HogwildBlocks(lock_holder(), weights, offset, count, [&](int64_t begin, int64_t block) {
      update(step, block, gradients + begin, history(0) + begin, weights + begin, BestSimd());
    });
  }
  double SumOfSquares(int64_t count, const float* gradients) override {
    return millrace::SumOfSquares(count, gradients);
  }
};

const RegisterSgdRules<SgdRuleCpu> registered(DeviceType::kCpu);

}  // namespace
}  // namespace millrace
