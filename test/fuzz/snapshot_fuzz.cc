// .solverstate and .caffemodel files of any bytes. They are rejected with one line that names the
// file, or give a state that can be queried and restored, or weights for a net.
#include "base/error.h"
#include "nn/net.h"
#include "proto/parse.h"
#include "solver/run_state.h"
#include "solver/snapshot.h"
#include "solver/update_rule.h"
#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

// Whether `body` succeeds, or throws an Error that begins with `path`.
template <typename Body>
bool SucceedsOrNames(const std::string& path, Body body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    return IsOneLineNaming(error, {path});
  }
}

// A net whose layer "ip" has the blobs of the seeds.
class SmallNet {
 public:
  SmallNet() {
    caffe::NetParameter param;
    ParseText(
        "layer { name: 'data' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 4 } } }\n"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'\n"
        "  inner_product_param { num_output: 3 } }\n",
        "net", &param, nullptr);
    net_ = std::make_unique<BuiltNet>(param, SourceMap(), BuiltNetOptions());
    weights_.resize(net_->layout().size());
    net_->BindWeights(weights_.data());
  }
  BuiltNet* get() { return net_.get(); }

 private:
  std::vector<float> weights_;
  std::unique_ptr<BuiltNet> net_;
};

void AddBlob(const Shape& shape, caffe::BlobProto* blob) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    blob->mutable_shape()->add_dim(dim);
    count *= dim;
  }
  for (int64_t i = 0; i < count; ++i) blob->add_data(0.5f * static_cast<float>(i));
}

// Reads the state of a merge rule as strategies and simulations do.
void ReadRunState(const ResumePoint& point) {
  const ContinuedState state = point.merge_state();
  CheckRunState(state, "allreduce outer", 2, 32);
  const StateReader run = state.Shared();
  run.Counts("totals", 2);
  run.Array("rule_state", 3);
  for (int solver = 0; solver < 2; ++solver) {
    const StateReader part = state.OfSolver(solver);
    part.Array("velocity", 3);
    part.Numbers("sync_condition[0]", 1);
  }
}

}  // namespace

std::vector<std::string> Corpus() {
  caffe::SolverState state;
  state.set_iter(1000);
  state.set_learned_net("/dev/null");
  state.set_current_step(1);
  state.set_seed(12345);
  AddBlob({3, 4}, state.add_history());
  AddBlob({3}, state.add_history());
  caffe::SolverState several = state;
  *several.add_solver_history()->mutable_history() = state.history();
  caffe::StreamPosition* position = several.add_stream();
  position->set_layer("data");
  position->set_next_batch(9);
  position->add_outstanding(8);
  caffe::SolverState legacy = state;
  legacy.mutable_history(1)->clear_shape();
  legacy.mutable_history(1)->set_num(1);
  legacy.mutable_history(1)->set_channels(1);
  legacy.mutable_history(1)->set_height(1);
  legacy.mutable_history(1)->set_width(3);
  caffe::SolverState with_rule = several;
  RunState run;
  run.set_rule("allreduce outer");
  run.set_solvers(2);
  run.set_weights(32);
  AddArray("rule_state", std::vector<float>{1, 2, 3}, &run);
  AddNumbers("totals", std::vector<double>{1e9, 100}, &run);
  for (int solver = 0; solver < 2; ++solver) {
    SolverPart* const part = run.add_solver();
    AddArray("velocity", std::vector<float>{4, 5, 6}, part);
    AddNumbers("sync_condition[0]", std::vector<double>{0.5}, part);
    *part->add_stream() = *position;
  }
  SetRunState(run, &with_rule);
  caffe::NetParameter model;
  model.set_name("n");
  model.add_layer()->set_name("ip");
  AddBlob({3, 4}, model.mutable_layer(0)->add_blobs());
  AddBlob({3}, model.mutable_layer(0)->add_blobs());
  caffe::NetParameter old;
  old.add_layers()->set_name("ip");
  AddBlob({3, 4}, old.mutable_layers(0)->add_blobs());
  AddBlob({3}, old.mutable_layers(0)->add_blobs());
  return {state.SerializeAsString(), several.SerializeAsString(), legacy.SerializeAsString(),
          model.SerializeAsString(), old.SerializeAsString(),     with_rule.SerializeAsString()};
}

bool Target(const std::string& input) {
  const MemoryFile file(input);
  const std::string path = file.path();
  const bool as_state = SucceedsOrNames(path, [&] {
    const ResumePoint point = LoadResumePoint(path);
    for (int solvers = 1; solvers < 4; ++solvers) ResumeNotice(point, solvers);
    for (int solver = 0; solver < point.solvers() && solver < 4; ++solver) {
      const auto rule = UpdateRuleRegistry::Get().Create(
          {}, {{"ip/0", {3, 4}, 0, 12, 1, 1}, {"ip/1", {3}, 16, 3, 1, 1}}, 32);
      RestoreHistory(point, solver, rule.get());
    }
    if (point.run) ReadRunState(point);
  });
  static SmallNet net;
  const bool as_model = SucceedsOrNames(path, [&] { LoadWeights(path, net.get()); });
  return as_state && as_model;
}

}  // namespace millrace::fuzz
