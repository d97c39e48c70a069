#include "solver/solver.h"

#include <cmath>
#include <utility>

#include "solver/pass_graphs.h"

namespace millrace::inline solver {

BuiltNetOptions TrainNetOptions(const SolverConfig& config, DataService* data, Device* device,
                                int consumer) {
  BuiltNetOptions options;
  options.state = config.train.state;
  options.seed = config.seed;
  options.data = data;
  options.data_consumer = consumer;
  options.device = device;
  options.gpu = config.gpu;
  return options;
}

namespace {

std::unique_ptr<UpdateRule> MakeRule(const SolverConfig& config,
                                     const std::vector<UpdateParam>& params, int64_t size,
                                     Queue& queue) {
  try {
    return UpdateRuleRegistry::Get().Create(config.param, params, size, queue);
  } catch (const FieldError& error) {
    throw Located(config.source, error);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory("the history of the update rule: ", error.what());
  }
}

std::unique_ptr<UpdateRule> MakeRule(const SolverConfig& config, const BuiltNet& net) {
  return MakeRule(config, UpdateParamsOf(net), net.layout().size(), net.queue());
}

}  // namespace

void CheckRuleFor(const SolverConfig& config, Queue* queue) { MakeRule(config, {}, 0, *queue); }

Solver::Solver(const SolverConfig& config, const LrPolicy& policy, DataService* data,
               Strategy* strategy, std::unique_ptr<BuiltNet> net)
    : config_(config),
      policy_(policy),
      strategy_(*strategy),
      net_(net ? std::move(net)
               : std::make_unique<BuiltNet>(config.train.param, config.train.source,
                                            TrainNetOptions(config, data, &strategy->device()))),
      step_(strategy->synchronous()),
      rule_(step_ == nullptr || step_->updates() ? MakeRule(config, *net_) : nullptr) {
  net_->BindWeights(strategy_.weights());
  net_->LockWith(strategy_.lock());
  if (step_ != nullptr) net_->SynchronizeWith(&step_->statistics());
  if (rule_) strategy_.Prepare(rule_.get());
  if (&net_->device() != &HostDevice()) update_.emplace(net_.get(), &strategy_, rule_.get());
}

std::optional<StepResult> Solver::Step() {
  const std::optional<int64_t> iteration = Claim();
  if (!iteration) return std::nullopt;
  return Compute(*iteration);
}

StepResult Solver::Compute(int64_t iteration) {
  StepResult result{
      .iteration = iteration, .rate = policy_.Rate(iteration), .notice = policy_.Notice(iteration)};
  if (update_) update_->set_rate(result.rate);
  const Gradients gradients = ComputeGradients(iteration);
  result.loss = gradients.loss;
  if (step_ != nullptr) step_->SetLoss(result.loss);
  if (on_gradients_) on_gradients_();
  if (gradients.updated) {
    update_->Enqueued();
  } else {
    strategy_.Update(result.rate, net_->gradients(), rule_.get());
  }
  if (step_ != nullptr) result.loss = step_->loss();
  strategy_.Write(&net_->queue(), [this] { net_->EndIteration(); });
  strategy_.Complete();
  return result;
}

Solver::Gradients Solver::ComputeGradients(int64_t iteration) {
  const int passes = config_.param.iter_size();
  net_->ClearGradients();
  graphs_ = PassGraphs::Of(net_.get(), config_, step_ != nullptr && step_->sums_gradients());
  Gradients result;
  for (int pass = 0; pass < passes; ++pass) {
    const uint64_t number = static_cast<uint64_t>(iteration) * passes + pass;
    net_->set_pass(step_ == nullptr ? number : number * step_->solvers() + step_->index());
    if (graphs_ != nullptr && graphs_->why_not().empty()) {
      const PassGraphs::Enqueued enqueued = graphs_->Enqueue(pass, update_ ? &*update_ : nullptr);
      enqueued.forward.Synchronize();  // for the loss; the backward pass goes on
      result.updated = enqueued.updates;
    } else {
      net_->EnqueueForward();
      if (step_ != nullptr && pass == passes - 1) {
        net_->Backward([this](int64_t begin) { step_->OnGradients(net_->gradients(), begin); });
      } else {
        net_->Backward();
      }
    }
    result.loss += net_->Loss();
    if (!std::isfinite(result.loss)) {
      // Throw before the gradient reaches the shared weights. An update that has been enqueued
      // leaves them as they are.
      const std::string where = net_->FindNonFinite();
      throw NonFiniteLoss("iteration ", iteration, ": the loss is not finite (", result.loss, "); ",
                          where.empty() ? "all layers are finite" : where);
    }
  }
  result.loss /= static_cast<float>(passes);
  return result;
}

History Solver::ExportHistory() const {
  History history;
  if (rule_) rule_->ExportHistory(&history);
  return history;
}

}  // namespace millrace::inline solver
