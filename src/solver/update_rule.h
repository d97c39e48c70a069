// Update rules: how a solver applies a gradient to the weights. A rule's formulas are a class of
// their own (sgd.h). Its kernels over spans of the flat arrays are a file for each type of device,
// which registers the rule there under its name in SolverParameter.type (sgd_cpu.cc).
#ifndef MILLRACE_SOLVER_UPDATE_RULE_H_
#define MILLRACE_SOLVER_UPDATE_RULE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/range_lock.h"
#include "millrace/blob.h"
#include "millrace/device.h"
#include "proto/caffe.pb.h"

namespace millrace {

namespace nn {
class Net;
}

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
std::vector<UpdateParam> UpdateParamsOf(const nn::Net& net);

// The history of one solver in the file format.
using History = google::protobuf::RepeatedPtrField<caffe::BlobProto>;

// One instance belongs to one solver thread, which also constructs it. All arrays are in the memory
// of one device. The history is memory of the instance, initially zero, and not thread-safe. Other
// threads may write the weights at any time.
class UpdateRule {
 public:
  // The rule keeps `slots` numbers per weight (SGD keeps one, its momentum). `size` is the length
  // of the flat arrays in floats. Kernels run on `queue`, which outlives the rule. Throws Error if
  // there is not enough memory.
  UpdateRule(const std::vector<UpdateParam>& params, int64_t size, int slots, Queue& queue);
  // Waits until the device no longer uses the history.
  virtual ~UpdateRule();
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  // Enqueues one iteration's update. `gradients` holds the sum over iter_size batches. Both arrays
  // have `size` floats. `together`: other threads, processes or machines train these weights as
  // well. Does not allocate. Throws Error only if the device has failed.
  virtual void Apply(float rate, bool together, const float* gradients, float* weights) = 0;

  // On the host, makes updates hold the shared lock `holder` of the weights' array, which outlives
  // the rule's last update. Other devices ignore it.
  void LockWith(RangeLock::Shared* holder) { holder_ = holder; }

  // The queue on which updates run.
  Queue& queue() const { return queue_; }

  // The number of blobs in a solverstate for this rule: slots times parameters, all parameters of a
  // slot together, as in Caffe.
  int history_blobs() const { return slots_ * static_cast<int>(params_.size()); }
  // Export and import wait for the queue.
  void ExportHistory(History* history) const;
  // Throws Error(`what`, ...) naming the parameter if the number or the shapes of the blobs do not
  // fit. The history is then undefined.
  void ImportHistory(const History& history, const std::string& what);

 protected:
  // Null without a lock.
  RangeLock::Shared* lock_holder() const { return holder_; }
  const std::vector<UpdateParam>& params() const { return params_; }
  // The history of slot `slot`, laid out like the weights.
  float* history(int slot) const { return history_.get<float>() + slot * size_; }

 private:
  MemorySpace& memory() const { return queue_.device().memory(); }

  Queue& queue_;
  const std::vector<UpdateParam> params_;
  const int64_t size_;
  const int slots_;
  Buffer history_;
  RangeLock::Shared* holder_ = nullptr;
};

// Rules by their name in SolverParameter.type and by device.
class UpdateRuleRegistry {
 public:
  using Factory = std::function<std::unique_ptr<UpdateRule>(
      const caffe::SolverParameter&, const std::vector<UpdateParam>&, int64_t size, Queue& queue)>;
  static UpdateRuleRegistry& Get();

  void Register(const std::string& name, DeviceType device, Factory factory);
  // Throws FieldError("type", ...) that lists the known rules, unless some device has this one.
  void CheckKnown(const std::string& name) const;
  // The rule on the device of `queue`. Throws as CheckKnown does, or FieldError("type", ...) that
  // lists the devices that have the rule. `param` has been validated (solver_config.h).
  std::unique_ptr<UpdateRule> Create(const caffe::SolverParameter& param,
                                     const std::vector<UpdateParam>& params, int64_t size,
                                     Queue& queue = HostQueue()) const;

 private:
  std::map<std::string, std::map<DeviceType, Factory>> factories_;
};

// Define one at namespace scope in a file with a rule's kernels for a device.
struct RegisterUpdateRule {
  RegisterUpdateRule(const std::string& name, DeviceType device,
                     UpdateRuleRegistry::Factory factory) {
    UpdateRuleRegistry::Get().Register(name, device, std::move(factory));
  }
};

}  // namespace millrace

#endif  // MILLRACE_SOLVER_UPDATE_RULE_H_
