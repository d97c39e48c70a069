// Interface of an update rule: how a solver applies a gradient to its weights. `type` in the solver
// file names the rule.
//
//   class MyRule : public millrace::UpdateRule {
//    public:
//     explicit MyRule(const millrace::UpdateContext& context) : UpdateRule(context, 1) {}
//     void Apply(float rate, float look_ahead, const float* gradients, float* weights) override;
//   };
//   const millrace::RegisterUpdateRule<MyRule> registered("Mine", millrace::DeviceType::kCpu);
#ifndef MILLRACE_UPDATE_RULE_H_
#define MILLRACE_UPDATE_RULE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "millrace/blob.h"
#include "millrace/caffe.pb.h"
#include "millrace/device.h"
#include "millrace/error.h"
#include "millrace/export.h"

namespace millrace::inline base {
class UpdateLock;  // Millrace's own
}
namespace millrace {

// One learnable parameter: a range of the flat arrays of weights and gradients.
struct UpdateParam {
  std::string name;    // for errors
  Shape shape;         // row-major
  int64_t offset = 0;  // in floats
  int64_t count = 0;   // product of shape
  float lr_mult = 1;   // 0: the range is never touched
  float decay_mult = 1;
};

// What a solver passes to its rule.
struct UpdateContext {
  caffe::SolverParameter param;     // valid: the fields of every rule have been checked
  std::vector<UpdateParam> params;  // empty when a solver file is checked
  int64_t size = 0;                 // length of the flat arrays, in floats
  Queue* queue = &HostQueue();      // for the rule's kernels; outlives the rule
};

// The history of one solver in the file format.
using History = google::protobuf::RepeatedPtrField<caffe::BlobProto>;

// One instance belongs to one solver thread, which also constructs it. All arrays are in the memory
// of the queue's device. Other threads may write the weights at any time.
class MILLRACE_API UpdateRule {
 public:
  // The rule keeps `slots` numbers per weight (SGD keeps one, its momentum), initially zero.
  // Snapshots save them, and a resumed run has them again. A subclass throws FieldError for a field
  // of `context.param` that it cannot use; the solver adds file and line. `counts`: the rule
  // depends on the number of its updates (CountUpdate), which is then saved with the history.
  // Throws Error if there is not enough memory.
  UpdateRule(const UpdateContext& context, int slots, bool counts = false);
  // Waits until the device no longer uses the history.
  virtual ~UpdateRule();
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  // The keys of custom_param that the rule reads, the parameters of rules outside of Millrace:
  //   custom_param { key: "beta1" value: "0.9" }
  // Any other key is an error in the solver file.
  virtual std::set<std::string> custom_params() const { return {}; }

  // Enqueues one iteration's update; code for the host may compute at once. `rate` is the learning
  // rate of the iteration. `gradients` holds the sum over iter_size batches. Both arrays have the
  // context's `size`. `look_ahead`: the share of its momentum by which a rule looks ahead of the
  // weights. Above 0 if other threads, processes or machines train them as well, so that
  // `gradients` may be of older weights: 1 where the steps of all add up, less where they are
  // averaged. Does not allocate. Throws Error only if the device has failed.
  virtual void Apply(float rate, float look_ahead, const float* gradients, float* weights) = 0;

  // ---- For solvers ----

  // On the host, makes updates hold `lock`, which outlives the rule's last update. Other devices
  // ignore it.
  void LockWith(UpdateLock* lock) { lock_ = lock; }
  // The queue on which updates run.
  Queue& queue() const { return *context_.queue; }
  // The numbers per weight that the rule keeps.
  int slots() const { return slots_; }
  // The number of blobs in a solverstate for this rule: slots times parameters, all parameters of a
  // slot together, as in Caffe.
  int history_blobs() const { return slots_ * static_cast<int>(params().size()); }
  // Export and import wait for the queue.
  void ExportHistory(History* history) const;
  // `updates`: the number of updates that the history holds, if it does not say so itself. Throws
  // Error(`what`, ...) naming the parameter if the number or the shapes of the blobs do not fit.
  // The history is then undefined.
  void ImportHistory(const History& history, const std::string& what, int64_t updates = 0);

 protected:
  const caffe::SolverParameter& param() const { return context_.param; }
  // In the order of the net, which is also the order of the blobs in a solverstate.
  const std::vector<UpdateParam>& params() const { return context_.params; }
  // The history of slot `slot`, laid out like the weights.
  float* history(int slot) const { return history_.get<float>() + slot * context_.size; }
  // Counts an update and returns the number of those that the history holds then, those before a
  // resume included: 1 for the first. Call it once in Apply.
  int64_t CountUpdate() { return ++updates_; }
  // Null without a lock.
  UpdateLock* lock() const { return lock_; }

  // The number in custom_param `key`, or `default_value` if it is not set. Throws FieldError if it
  // is not a finite number.
  double CustomNumber(const std::string& key, double default_value) const;
  // The text in custom_param `key`, or `default_value` if it is not set.
  std::string CustomText(const std::string& key, const std::string& default_value) const;

  // The factor of every gradient that iter_size and clip_gradients ask for, as in Caffe.
  float GradientScale(const float* gradients);
  // The sum of squares of `count` gradients. The default is for the host.
  virtual double SumOfSquares(int64_t count, const float* gradients);

  // On the host: calls update(begin, count) for consecutive parts of the elements of `param`, which
  // are [begin, begin + count) in the flat arrays. During a call, segments do not write these
  // weights; other solvers may. `update` takes about a microsecond and does not throw. Weights that
  // change outside of such a call may lose what segments bring.
  template <typename Update>
  void ForBlocks(const UpdateParam& param, float* weights, Update update) {
    CallForBlocks(param, weights, std::ref(update));  // a reference is copied without allocation
  }

 private:
  MemorySpace& memory() const { return queue().device().memory(); }
  void CallForBlocks(const UpdateParam& param, float* weights,
                     const std::function<void(int64_t begin, int64_t count)>& update);

  const UpdateContext context_;
  const int slots_;
  const bool counts_;
  int64_t updates_ = 0;
  Buffer history_;
  UpdateLock* lock_ = nullptr;
};

// Rules by their name in SolverParameter.type and by device.
class MILLRACE_API UpdateRuleRegistry {
 public:
  using Factory = std::function<std::unique_ptr<UpdateRule>(const UpdateContext&)>;
  static UpdateRuleRegistry& Get();

  // Keeps the first rule of a name and device. A second one is an error when plugins are loaded and
  // when a session starts.
  void Register(const std::string& name, DeviceType device, Factory factory);
  // Throws FieldError("type", ...) that lists the known rules, unless some device has this one.
  void CheckKnown(const std::string& name) const;
  // Throws FieldError for what the rule of param.type on the host refuses in `param`.
  void Check(const caffe::SolverParameter& param) const;
  // The rule on the device of `queue`. Throws as CheckKnown and Check do, or FieldError("type",
  // ...) that lists the devices that have the rule.
  std::unique_ptr<UpdateRule> Create(const caffe::SolverParameter& param,
                                     const std::vector<UpdateParam>& params, int64_t size,
                                     Queue& queue = HostQueue()) const;

 private:
  std::map<std::string, std::map<DeviceType, Factory>> factories_;
};

// Registers a class that is constructed from an UpdateContext. Define one at namespace scope in the
// file with the rule's kernels for a device.
template <typename Rule>
struct RegisterUpdateRule {
  RegisterUpdateRule(const std::string& name, DeviceType device) {
    UpdateRuleRegistry::Get().Register(name, device, [](const UpdateContext& context) {
      return std::unique_ptr<UpdateRule>(std::make_unique<Rule>(context));
    });
  }
};

}  // namespace millrace

#endif  // MILLRACE_UPDATE_RULE_H_
