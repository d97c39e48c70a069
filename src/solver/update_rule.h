// Update rules: how a solver applies a gradient to the weights. Each rule is a file of its own that
// registers itself under its name in SolverParameter.type.
#ifndef MILLRACE_SOLVER_UPDATE_RULE_H_
#define MILLRACE_SOLVER_UPDATE_RULE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/range_lock.h"
#include "device/device.h"
#include "nn/blob.h"
#include "proto/caffe.pb.h"

namespace millrace {

class Net;

// One learnable parameter: a range of the flat arrays of weights and gradients.
struct UpdateParam {
  std::string name;    // for errors
  Shape shape;         // row-major
  int64_t offset = 0;  // in floats
  int64_t count = 0;   // product of shape
  float lr_mult = 1;   // 0: the range is never touched
  float decay_mult = 1;
};

// The parameters of a net in the order of net.params(), which is also the order of the blobs in a
// solverstate.
std::vector<UpdateParam> UpdateParamsOf(const Net& net);

// The history of one solver in the file format.
using History = google::protobuf::RepeatedPtrField<caffe::BlobProto>;

// One instance belongs to one solver thread, which also constructs it. The history is memory of the
// instance, initially zero, and not thread-safe. Other threads may write the weights at any time.
class UpdateRule {
 public:
  // The rule keeps `slots` numbers per weight (SGD keeps one, its momentum). `size` is the length
  // of the flat arrays in floats. Throws Error if there is not enough memory.
  UpdateRule(const std::vector<UpdateParam>& params, int64_t size, int slots);
  virtual ~UpdateRule() = default;
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  // Applies one iteration's update. `gradients` holds the sum over iter_size batches. Both arrays
  // have `size` floats. `together`: other threads, processes or machines train these weights as
  // well. Does not throw or allocate.
  virtual void Apply(float rate, bool together, const float* gradients, float* weights) = 0;

  // Makes updates hold the shared lock `holder` of the weights' array, which outlives the rule's
  // last update. Without a lock, concurrent stores by exchanges may be lost.
  void LockWith(RangeLock::Shared* holder) { holder_ = holder; }

  // The number of blobs in a solverstate for this rule: slots times parameters, all parameters of a
  // slot together, as in Caffe.
  int history_blobs() const { return slots_ * static_cast<int>(params_.size()); }
  void ExportHistory(History* history) const;
  // Throws Error(`what`, ...) naming the parameter if the number or the shapes of the blobs do not
  // fit. The history is then undefined.
  void ImportHistory(const History& history, const std::string& what);

 protected:
  // Calls update(offset, count) for all elements of a parameter. With a lock, it does so in blocks
  // of about a microsecond each, so that an exclusive holder does not wait for long.
  template <typename Update>
  void ForEachBlock(const UpdateParam& param, const float* weights, Update update) const {
    if (holder_ == nullptr) return update(param.offset, param.count);
    const int64_t end = param.offset + param.count;
    for (int64_t offset = param.offset; offset < end; offset += kBlock) {
      const int64_t count = std::min(kBlock, end - offset);
      holder_->Lock(weights + offset, count);
      update(offset, count);
      holder_->Unlock();
    }
  }

  const std::vector<UpdateParam>& params() const { return params_; }
  // The history of slot `slot`, laid out like the weights.
  float* history(int slot) const { return history_.get<float>() + slot * size_; }

 private:
  static constexpr int64_t kBlock = 4096;  // floats

  const std::vector<UpdateParam> params_;
  const int64_t size_;
  const int slots_;
  Buffer history_;
  RangeLock::Shared* holder_ = nullptr;
};

// Rules by their name in SolverParameter.type.
class UpdateRuleRegistry {
 public:
  using Factory = std::function<std::unique_ptr<UpdateRule>(
      const caffe::SolverParameter&, const std::vector<UpdateParam>&, int64_t size)>;
  static UpdateRuleRegistry& Get();

  void Register(const std::string& name, Factory factory);
  // Throws FieldError("type", ...) that lists the known rules.
  void CheckKnown(const std::string& name) const;
  // Throws as CheckKnown does. `param` has been validated (solver_config.h).
  std::unique_ptr<UpdateRule> Create(const caffe::SolverParameter& param,
                                     const std::vector<UpdateParam>& params, int64_t size) const;

 private:
  std::map<std::string, Factory> factories_;
};

// Registers a rule. Define one at namespace scope in the rule's file.
template <typename Rule>
struct RegisterUpdateRule {
  explicit RegisterUpdateRule(const std::string& name) {
    UpdateRuleRegistry::Get().Register(
        name, [](const caffe::SolverParameter& param, const std::vector<UpdateParam>& params,
                 int64_t size) {
          return std::unique_ptr<UpdateRule>(std::make_unique<Rule>(param, params, size));
        });
  }
};

}  // namespace millrace

#endif  // MILLRACE_SOLVER_UPDATE_RULE_H_
