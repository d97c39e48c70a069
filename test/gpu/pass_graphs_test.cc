// Training iterations as graphs: the same work as without them, and ordinary launches where they
// are not possible.
#include "solver/pass_graphs.h"

#include <algorithm>
#include <functional>

#include "data/data_service.h"
#include "solver/look_ahead.h"
#include "solver/solver.h"
#include "test/gpu/gpu_support.h"
#include "test/support/eventually.h"
#include "test/support/fake_graphs.h"
#include "test/support/log_watch.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

const char* const kRecorded = "the work of training passes is recorded as graphs, with updates";

// Why not all solvers of a run have recorded their iterations, as the log says; "" if they have.
std::string WhyNotRecorded(LogWatch* log, int64_t solvers) {
  const std::vector<std::string> lines = log->With("the work of training passes is ");
  if (static_cast<int64_t>(lines.size()) != solvers) {
    return StrCat(lines.size(), " of ", solvers, " solvers have recorded");
  }
  for (const std::string& line : lines) {
    if (line.find(kRecorded) == line.npos) return line;
  }
  return "";
}

// The same of one solver, which has computed `iterations`.
std::string WhyNotRecorded(const Solver& solver, int64_t iterations) {
  const PassGraphs* const graphs = solver.graphs();
  if (graphs == nullptr) return "graphs are off";
  if (!graphs->why_not().empty()) return graphs->why_not();
  const int64_t expected = iterations - 2;
  if (graphs->updates() == expected) return "";
  return StrCat(graphs->updates(), " iterations were recorded, expected ", expected);
}

struct Trained {
  std::vector<float> losses, weights;
  std::string error;    // that ended the run early
  std::string why_not;  // of WhyNotRecorded
  bool operator==(const Trained& other) const {
    return losses == other.losses && weights == other.weights && error == other.error;
  }
};

// Trains a net like LeNet, or one that a test changes.
struct GraphTrainer {
  using After = std::function<void(int iteration, Solver* solver)>;

  GraphTrainer() {
    graphs_.Reset();
    net_.convolution = true;
  }

  // One solver alone, which calls after() behind each iteration. Ends early if the loss is not
  // finite.
  Trained Train(bool as_graphs, int iterations, Device* device, const After& after = {}) {
    std::string text = net_.Text();
    text.insert(text.find("layer { name: 'hidden'"), between_);
    work_.WriteNet(text);
    SolverConfig config = LoadSolverConfig(work_.Write("run", solver_));
    config.gpu.graphs = as_graphs ? use_ : GraphUse::kOff;
    const LrPolicy policy(config.param);
    DataService data(DataOptions{config.seed});
    const BuiltNet first(config.train.param, config.train.source,
                         TrainNetOptions(config, &data, device));
    const auto host = WeightBuffer::CreatePrivate(first.layout());
    DeviceWeights weights(device, host->size());
    DeviceStrategy strategy(&weights, &host->clock(), peers_, lambda_,
                            std::max(1, config.param.iter_size()));
    replica_ = &weights;
    Solver solver(config, policy, &data, &strategy);
    solver.net().FillWeights();
    Trained result;
    try {
      for (int i = 0; i < iterations; ++i) {
        result.losses.push_back(solver.Step()->loss);
        if (after) after(i, &solver);
      }
    } catch (const NonFiniteLoss& error) {
      result.error = error.what();
    }
    result.why_not = WhyNotRecorded(solver, iterations);
    solver.net().queue().Synchronize();
    weights.CopyToHost(host->data());
    result.weights.assign(host->data(), host->data() + host->size());
    return result;
  }

  Workspace work_;
  SmallNet net_ = work_.Net();
  std::string between_;  // layers behind 'pool', in place
  caffe::SolverParameter solver_ = Workspace::Solver(1000);
  GraphUse use_ = GraphUse::kAuto;
  std::function<float()> peers_;
  float lambda_ = 0;                  // of delay compensation
  DeviceWeights* replica_ = nullptr;  // of the run
  FakeGraphs& graphs_ = FakeGraphs::Get();
};

class PassGraphRuns : public testing::TestWithParam<FakeMode>, protected GraphTrainer {
 protected:
  using GraphTrainer::Train;

  Trained Train(bool as_graphs, int iterations = 50, const After& after = {}) {
    FakeDevice device({.mode = GetParam()});
    return Train(as_graphs, iterations, &device, after);
  }
  // Training takes place without graphs, with one line that says why.
  void ExpectOrdinary(const std::string& why) {
    LogWatch log;
    const Trained ordinary = Train(false, 6), same = Train(true, 6);
    EXPECT_EQ(same, ordinary);
    EXPECT_EQ(graphs_.replayed, 0);
    EXPECT_EQ(log.Count("fake device 0: the work of training passes is not recorded: " + why), 1);
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, PassGraphRuns,
                         testing::Values(FakeMode::kAtOnce, FakeMode::kLate, FakeMode::kThread),
                         [](const auto& info) { return ModeName(info.param); });

TEST_P(PassGraphRuns, DoTheSameWorkBitForBit) {
  const Trained ordinary = Train(false);
  EXPECT_EQ(graphs_.recorded, 0);
  EXPECT_LT(ordinary.losses.back(), ordinary.losses.front() / 2);
  LogWatch log;
  const Trained graphs = Train(true);
  EXPECT_EQ(graphs, ordinary);
  EXPECT_EQ(graphs.why_not, "");
  EXPECT_EQ(graphs_.recorded, 2);   // which take turns
  EXPECT_EQ(graphs_.replayed, 48);  // one for each iteration but the first two
  EXPECT_EQ(log.Count(StrCat("fake device 0: ", kRecorded)), 1);
  EXPECT_EQ(WhyNotRecorded(&log, 1), "");
}

// What changes from update to update is not in the recorded work: rates, the count of Adam, factors
// of clipped gradients; and what only some solvers ask for.
TEST_P(PassGraphRuns, UpdateAsWithoutGraphsByEachRule) {
  std::vector<caffe::SolverParameter> solvers = Workspace::AdaptiveSolvers(1000);
  solvers.push_back(Workspace::Solver(1000));
  solvers.push_back(solvers.back());
  solvers.back().set_type("Nesterov");
  solvers.back().set_regularization_type("L1");
  for (caffe::SolverParameter& solver : solvers) {
    solver.set_lr_policy("inv");
    solver.set_gamma(0.1f);
    solver.set_power(0.75f);
    for (const bool clips : {false, true}) {
      if (clips) solver.set_clip_gradients(0.5f);
      SCOPED_TRACE(StrCat(solver.type(), clips ? " clips" : ""));
      graphs_.Reset();
      solver_ = solver;
      const Trained ordinary = Train(false, 20), graphs = Train(true, 20);
      EXPECT_EQ(graphs, ordinary);
      EXPECT_EQ(graphs.why_not, "");
      EXPECT_EQ(graphs_.replayed, 18);
    }
  }
}

// Other solvers come and go: momentum looks ahead while there are some.
TEST_P(PassGraphRuns, LookAheadWhileOthersTrain) {
  const auto train = [&](bool as_graphs) {
    float look_ahead = 0;
    peers_ = [&] { return look_ahead; };
    return Train(as_graphs, 20, [&](int iteration, Solver*) {
      look_ahead = iteration / 4 % 2 == 1 ? kLookAheadOfMeans : 0;
    });
  };
  const Trained ordinary = train(false);
  EXPECT_EQ(train(true), ordinary);
  peers_ = {};
  EXPECT_NE(Train(true, 20), ordinary);
}

TEST_P(PassGraphRuns, CompensateDelays) {
  lambda_ = 0.5f;
  const Trained ordinary = Train(false, 12), graphs = Train(true, 12);
  EXPECT_EQ(graphs, ordinary);
  EXPECT_EQ(graphs.why_not, "");
}

// The first pass overwrites gradients, the others add to them, and the update follows the last.
TEST_P(PassGraphRuns, SumTheGradientsOfSeveralPasses) {
  between_ =
      "layer { name: 'l' type: 'BatchNorm' bottom: 'pool' top: 'pool' }\n"
      "layer { name: 'm' type: 'Dropout' bottom: 'pool' top: 'pool' }\n";
  for (const int passes : {2, 4}) {
    solver_.set_iter_size(passes);
    graphs_.Reset();
    const Trained ordinary = Train(false, 12), graphs = Train(true, 12);
    EXPECT_EQ(graphs, ordinary) << passes;
    EXPECT_EQ(graphs.why_not, "");
    EXPECT_EQ(graphs_.recorded, passes > 2 ? 4 : 3);  // with two turns of the last
    EXPECT_EQ(graphs_.replayed, 10 * passes);
  }
}

// The update is enqueued before the host knows the loss.
TEST_P(PassGraphRuns, LeaveTheWeightsAsTheyAreIfTheLossIsNotFinite) {
  solver_.set_lr_policy("multistep");
  solver_.add_stepvalue(5);
  solver_.set_gamma(1e30f);
  for (const bool two_losses : {false, true}) {
    if (two_losses) {
      net_.more_layers =
          "layer { name: 'second' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' "
          "top: 'second' loss_weight: 0.5 }\n";
    }
    graphs_.Reset();
    const Trained ordinary = Train(false, 20), graphs = Train(true, 20);
    EXPECT_CONTAINS(ordinary.error, "iteration 6: the loss is not finite");
    EXPECT_EQ(graphs, ordinary);
    EXPECT_EQ(graphs_.replayed, 5);
    for (const float weight : graphs.weights) ASSERT_TRUE(std::isfinite(weight));
  }
}

// As an exchange does: its kernels begin after the update that was enqueued before them, and the
// next update after them, also if they run late.
TEST_P(PassGraphRuns, KeepTheOrderOfAllChangesOfTheWeights) {
  if (GetParam() == FakeMode::kThread) GTEST_SKIP() << "passes may read weights at any time";
  const auto train = [&](bool as_graphs) {
    FakeDevice device({.mode = GetParam()});
    const auto exchange = device.MakeQueue(QueuePriority::kLow);
    return Train(as_graphs, 20, &device, [&](int iteration, Solver*) {
      if (iteration == 19) return;
      replica_->order().Write(*exchange, [&] {
        EnqueueKernel(
            *exchange,
            [](float* weights) {
              for (int i = 0; i < 8; ++i) weights[i] = 0.5f * weights[i] + 0.01f;
            },
            replica_->data());
      });
    });
  };
  const Trained ordinary = train(false);
  EXPECT_EQ(train(true), ordinary);
  EXPECT_EQ(graphs_.replayed, 18);
  EXPECT_NE(Train(true, 20), ordinary);
}

// The log has such a line every ten seconds at most.
TEST(PassGraphLog, SaysThatGradientsAreClipped) {
  GraphTrainer run;
  run.solver_.set_clip_gradients(1e-3f);
  LogWatch log;
  EXPECT_TRUE(Eventually([&] {
    FakeDevice device;
    run.Train(true, 10, &device);
    return !log.With("Gradient clipping: L2 norm ").empty();
  }));
}

// The host is told the loss when the forward pass has ended.
TEST(PassGraphMarks, AreReachedBeforeTheBackwardPass) {
  GraphTrainer run;
  FakeDevice device({.mode = FakeMode::kLate});
  run.Train(true, 8, &device, [&](int iteration, Solver* solver) {
    const FakeQueue& queue = FakeQueue::Of(solver->net().queue());
    if (iteration < 2) return;
    // The backward pass and the update. No other queue changes the weights, so neither the update
    // nor the statistics, which this net has none of, wait.
    EXPECT_EQ(queue.enqueued() - queue.run(), 2u) << iteration;
  });
  EXPECT_EQ(run.graphs_.replayed, 6);
}

// Their passes begin on the host: with the key of a draw, or a count of batches.
TEST_P(PassGraphRuns, PrepareWhatChangesFromPassToPass) {
  for (const std::string layers :
       {"layer { name: 'l' type: 'Dropout' bottom: 'pool' top: 'pool' }",
        "layer { name: 'l' type: 'Dropout' bottom: 'pool' top: 'pool'"
        "  dropout_param { scale_train: false } }",
        "layer { name: 'l' type: 'Insanity' bottom: 'pool' top: 'pool' }",
        "layer { name: 'l' type: 'BN' bottom: 'pool' top: 'pool' }",
        "layer { name: 'l' type: 'BatchNorm' bottom: 'pool' top: 'pool' }",
        "layer { name: 'l' type: 'BatchNorm' bottom: 'pool' top: 'pool' }"
        "layer { name: 'm' type: 'Scale' bottom: 'pool' top: 'pool'"
        "  scale_param { bias_term: true } }"
        "layer { name: 'n' type: 'ReLU' bottom: 'pool' top: 'pool' }"}) {
    between_ = layers + "\n";
    graphs_.Reset();
    const Trained ordinary = Train(false, 20);
    EXPECT_EQ(Train(true, 20), ordinary) << layers;
    EXPECT_EQ(graphs_.replayed, 18) << layers;
  }
}

TEST_P(PassGraphRuns, DrawAnewInEachPass) {
  net_.convolution = false;
  net_.more_layers =
      "layer { name: 'draws' type: 'Pooling' bottom: 'data' top: 'draws'"
      "  pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 } }\n"
      "layer { name: 'next' type: 'InnerProduct' bottom: 'draws' top: 'next'"
      "  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'second' type: 'SoftmaxWithLoss' bottom: 'next' bottom: 'label' top: 'second' "
      "}\n";
  const Trained ordinary = Train(false, 20);
  EXPECT_EQ(Train(true, 20), ordinary);
  EXPECT_EQ(graphs_.replayed, 18);
}

// One net of many layers whose passes enqueue the same work each time.
TEST_P(PassGraphRuns, RepeatAllLayersThatAreAlike) {
  net_.more_layers = R"(
    layer { name: 'a0' type: 'Power' bottom: 'conv' top: 'a0' power_param { scale: 0.1 } }
    layer { name: 'a1' type: 'PReLU' bottom: 'a0' top: 'a1' }
    layer { name: 'a2' type: 'Eltwise' bottom: 'a0' bottom: 'a1' top: 'a2' }
    layer { name: 'a3' type: 'Slice' bottom: 'a2' top: 'b0' top: 'b1' }
    layer { name: 'a4' type: 'Clip' bottom: 'b0' top: 'b2' clip_param { min: -1 max: 1 } }
    layer { name: 'a5' type: 'Exp' bottom: 'b1' top: 'b3' exp_param { scale: 0.1 } }
    layer { name: 'a6' type: 'Concat' bottom: 'b2' bottom: 'b3' top: 'c0' }
    layer { name: 'a7' type: 'ShuffleChannel' bottom: 'c0' top: 'c1'
      shuffle_channel_param { group: 2 } }
    layer { name: 'a8' type: 'Normalize' bottom: 'c1' top: 'c2' }
    layer { name: 'a9' type: 'Interp' bottom: 'c2' top: 'c3' interp_param { height: 5 width: 5 } }
    layer { name: 'b' type: 'Swish' bottom: 'c3' top: 'c4' }
    layer { name: 'c' type: 'SeLu' bottom: 'c4' top: 'c5' }
    layer { name: 'd' type: 'ReLU6' bottom: 'c5' top: 'c6' }
    layer { name: 'e' type: 'Crop' bottom: 'c6' bottom: 'pool' top: 'c7'
      crop_param { axis: 2 offset: 1 } }
    layer { name: 'f' type: 'Permute' bottom: 'c7' top: 'c8'
      permute_param { order: 0 order: 2 order: 3 order: 1 } }
    layer { name: 'g' type: 'Flatten' bottom: 'c8' top: 'c9' }
    layer { name: 'h' type: 'Power' bottom: 'c9' top: 'd0' power_param { shift: 3 } }
    layer { name: 'i' type: 'Log' bottom: 'd0' top: 'd1' }
    layer { name: 'j' type: 'InnerProduct' bottom: 'd1' top: 'd2'
      inner_product_param { num_output: 1 weight_filler { type: 'xavier' } } }
    layer { name: 'k' type: 'Reshape' bottom: 'd2' top: 'd3' reshape_param { shape { dim: -1 } } }
    layer { name: 'l' type: 'EuclideanLoss' bottom: 'd3' bottom: 'label' top: 'd4' }
    layer { name: 'm' type: 'SigmoidCrossEntropyLoss' bottom: 'd3' bottom: 'label' top: 'd5'
      loss_weight: 0.1 }
  )";
  const Trained ordinary = Train(false, 20);
  EXPECT_EQ(Train(true, 20), ordinary);
  EXPECT_EQ(graphs_.replayed, 18);
  EXPECT_LT(ordinary.losses.back(), ordinary.losses.front());
}

TEST_P(PassGraphRuns, AllocateNothing) {
  FakeDevice device({.mode = GetParam()});
  uint64_t before = 0;
  Train(true, 50, &device, [&](int iteration, Solver*) {
    if (iteration == 2) before = device.memory().allocations();
    if (iteration > 2) {
      EXPECT_EQ(device.memory().allocations(), before) << iteration;
    }
  });
  EXPECT_GT(graphs_.replayed, 0);
}

// An array of the net has moved: what has been recorded would use the old one.
TEST_P(PassGraphRuns, AreRecordedAgainWhenTheMemoryMoves) {
  const Trained ordinary = Train(false, 12);
  FakeDevice device({.mode = GetParam()});
  Buffer copy;
  float* original = nullptr;
  const Trained moved = Train(true, 12, &device, [&](int iteration, Solver* solver) {
    BuiltNet& net = solver->net();
    if (iteration == 7) {
      // For one iteration the passes read a copy of the weights.
      const size_t bytes = net.layout().size() * sizeof(float);
      copy = Buffer(device.memory(), bytes);
      original = net.params()[0].owner->blob->data();
      net.queue().Copy(copy.get(), original, bytes);
      net.BindWeights(copy.get<float>());
    } else if (iteration == 8) {
      net.BindWeights(original);
    }
  });
  EXPECT_EQ(moved, ordinary);
  EXPECT_EQ(graphs_.recorded, 5);  // two, then each turn after a move
  EXPECT_EQ(graphs_.replayed, 10);
}

// ---- Nets without graphs ----

TEST_P(PassGraphRuns, LeaveOutNetsOfWhichALayerNeedsTheHost) {
  net_.more_layers = "layer { name: 'most' type: 'ArgMax' bottom: 'scores' top: 'most' }\n";
  ExpectOrdinary("layer 'most' (ArgMax) may need the host");
}

TEST_P(PassGraphRuns, LeaveOutNetsThatAverageOverSolversWithinAPass) {
  between_ =
      "layer { name: 'norm' type: 'BatchNorm' bottom: 'pool' top: 'pool'"
      "  batch_norm_param { synchronized: true } }\n";
  ExpectOrdinary("layer 'norm' (BatchNorm) averages over the solvers on the host");
}

TEST_P(PassGraphRuns, LeaveOutWhatAsksForTheHostWithinAPass) {
  solver_.set_debug_info(true);
  ExpectOrdinary("debug_info is set");
}

// The assertion of the tests on GPUs: it does not hold if the runtime refuses.
TEST_P(PassGraphRuns, GoOnWithoutIfARecordingIsRefused) {
  const Trained ordinary = Train(false, 8);
  EXPECT_EQ(ordinary.why_not, "graphs are off");
  for (const int64_t n : {0, 1}) {
    graphs_.Reset();
    graphs_.refuses_from = n;
    LogWatch log;
    const Trained graphs = Train(true, 8);
    EXPECT_EQ(graphs, ordinary);
    EXPECT_EQ(graphs.why_not, "the recording was refused");
    EXPECT_EQ(graphs_.replayed, n);
    const std::string line =
        "fake device 0: the work of training passes is not recorded: the recording was refused";
    EXPECT_EQ(log.Count(line), 1);
    EXPECT_EQ(WhyNotRecorded(&log, 1), n == 0 ? line : "2 of 1 solvers have recorded");
  }
}

// The refusal may come after some passes of an iteration.
TEST_P(PassGraphRuns, GoOnWithinAnIterationIfARecordingIsRefused) {
  between_ = "layer { name: 'l' type: 'BatchNorm' bottom: 'pool' top: 'pool' }\n";
  solver_.set_iter_size(3);
  const Trained ordinary = Train(false, 8);
  for (const int64_t n : {0, 1, 2, 3}) {
    graphs_.Reset();
    graphs_.refuses_from = n;
    EXPECT_EQ(Train(true, 8), ordinary) << n;
  }
}

TEST_P(PassGraphRuns, EndTheRunIfTheyAreAskedForAndRefused) {
  use_ = GraphUse::kOn;
  const std::string line = "fake device 0: --cuda_graphs=on: training passes cannot be recorded: ";
  EXPECT_EQ(Train(true, 8).why_not, "");
  graphs_.Reset();
  graphs_.refuses_from = 0;
  EXPECT_EQ(ErrorOf([&] { Train(true, 8); }), line + "the recording was refused");
  net_.more_layers = "layer { name: 'most' type: 'ArgMax' bottom: 'scores' top: 'most' }\n";
  EXPECT_EQ(ErrorOf([&] { Train(true, 8); }), line + "layer 'most' (ArgMax) may need the host");
}

// ---- Updates that stay outside of the graphs ----

TEST_P(PassGraphRuns, LeaveOutTheUpdateIfItCannotBeRecorded) {
  const auto expect = [&](const std::string& why) {
    graphs_.Reset();
    LogWatch log;
    const Trained ordinary = Train(false, 4), graphs = Train(true, 4);
    EXPECT_EQ(graphs, ordinary);
    EXPECT_EQ(graphs.why_not, "0 iterations were recorded, expected 2");
    EXPECT_EQ(graphs_.recorded, 1);
    EXPECT_EQ(graphs_.replayed, 2);
    const std::string line = StrCat("fake device 0: the work of training passes is recorded as ",
                                    "graphs, without updates: ", why);
    EXPECT_EQ(log.Count(line), 1);
    EXPECT_EQ(WhyNotRecorded(&log, 1), line);
  };
  for (int i = 0; i < 4; ++i) {
    net_.more_layers += StrCat("layer { name: 'loss", i, "' type: 'SoftmaxWithLoss' ",
                               "bottom: 'scores' bottom: 'label' top: 'loss", i, "' }\n");
  }
  expect("the objective is not the sum of at most 4 outputs of one number each");
  net_.more_layers =
      "layer { name: 'vector' type: 'Power' bottom: 'scores' top: 'vector' loss_weight: 1e-3 }\n";
  expect("the objective is not the sum of at most 4 outputs of one number each");
  net_.more_layers = "";
  net_.hidden = 31'000;
  net_.convolution = false;
  expect("exchanges would wait for whole passes: there are more than 2097152 weights");
}

// The n-th call of the device fails, for every n, those within the recordings among them.
TEST(PassGraphFailures, EndWithOneLineWhateverCallFails) {
  GraphTrainer run;
  uint64_t calls = 0;
  {
    FakeDevice device;
    run.Train(true, 5, &device);
    calls = device.calls()->count();
  }
  EXPECT_EQ(run.graphs_.replayed, 3);
  for (uint64_t n = 0; n < calls; ++n) {
    FakeDevice device({.fails_at_call = n});
    try {
      run.Train(true, 5, &device);
      // It may be a call that ends an object, which reports nothing.
    } catch (const Error& error) {  // of the device, or of the layer that needed it
      const std::string line = error.what();
      EXPECT_CONTAINS(line, "fake device 0: ");
      EXPECT_EQ(line.find('\n'), line.npos);
    }
    ASSERT_EQ(device.memory().blocks(), 0u) << n;
  }
}

class PassGraphsOnChosen : public OnChosenDevice, protected GraphTrainer {};

INSTANTIATE_TEST_SUITE_P(Modes, PassGraphsOnChosen, testing::ValuesIn(DeviceChoices()),
                         DeviceChoiceName);

TEST_P(PassGraphsOnChosen, LearnAsWithoutGraphs) {
  const Trained ordinary = Train(false, 50, &first()), graphs = Train(true, 50, &first());
  for (size_t i = 0; i < 50; ++i) {
    // Algorithms of a GPU's libraries may add in any order.
    EXPECT_NEAR(graphs.losses[i], ordinary.losses[i], is_fake() ? 0 : 1e-2) << i;
  }
  EXPECT_EQ(graphs.why_not, "");
}

// Layers that draw, count or keep numbers, several passes, clipped gradients.
TEST_P(PassGraphsOnChosen, LearnAsWithoutGraphsWithAllThatChangesFromPassToPass) {
  between_ =
      "layer { name: 'l' type: 'BatchNorm' bottom: 'pool' top: 'pool' }\n"
      "layer { name: 'm' type: 'Scale' bottom: 'pool' top: 'pool'\n"
      "  scale_param { bias_term: true } }\n"
      "layer { name: 'n' type: 'Dropout' bottom: 'pool' top: 'pool' }\n";
  solver_.set_iter_size(2);
  solver_.set_clip_gradients(1);
  solver_.set_lr_policy("exp");
  solver_.set_gamma(0.99f);
  const Trained ordinary = Train(false, 30, &first()), graphs = Train(true, 30, &first());
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_NEAR(graphs.losses[i], ordinary.losses[i], is_fake() ? 0 : 1e-2) << i;
  }
  EXPECT_EQ(graphs.why_not, "");
}

// Each on a replica of its own, whose links exchange with the host meanwhile.
TEST_P(PassGraphsOnChosen, LearnOnTwoGpus) {
  if (const std::string why = WhyNoSecond(); !why.empty()) GTEST_SKIP() << why;
  LogWatch log;
  work_.WriteNet(net_);
  TrainOptions options;
  options.gpus = {&first(), &second()};
  const Outcome outcome =
      RunNamed(work_, "run", Workspace::Tested(Workspace::Solver(160), 80), options);
  EXPECT_EQ(outcome.Losses().size(), 160u);
  EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9);
  EXPECT_EQ(WhyNotRecorded(&log, 2), "");
}

// The default of a run.
TEST_P(PassGraphsOnChosen, LearnOnOneGpuBesideAProcessor) {
  LogWatch log;
  work_.WriteNet(net_);
  TrainOptions options;
  options.gpus = {&first()};
  options.solvers = 1;
  const Outcome outcome =
      RunNamed(work_, "run", Workspace::Tested(Workspace::Solver(160), 80), options);
  EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9);
  EXPECT_EQ(WhyNotRecorded(&log, 1), "");
}

// Strategies whose solvers have weights of their own between merges.
TEST_P(PassGraphsOnChosen, MergeAsWithoutGraphs) {
  work_.WriteNet(net_);
  TrainOptions options;
  options.gpus = {&first()};
  for (const std::string strategy : {"allreduce", "local"}) {
    caffe::SolverParameter solver = Workspace::Solver(20);
    solver.mutable_strategy()->set_type(strategy);
    solver.mutable_strategy()->mutable_merge_rule()->set_type("average");
    if (strategy == "allreduce") {
      (*solver.mutable_strategy()->mutable_param())["every"] = 4;
    } else {
      caffe::PartParameter& steps = *solver.mutable_strategy()->add_sync_condition();
      steps.set_type("steps");
      (*steps.mutable_param())["every"] = 4;
    }
    std::vector<float> weights[2];
    for (const bool graphs : {false, true}) {
      options.gpu_settings.graphs = graphs ? GraphUse::kAuto : GraphUse::kOff;
      LogWatch log;
      const std::string name = StrCat(strategy, graphs ? "graphs" : "kernels");
      RunNamed(work_, name, solver, options);
      weights[graphs] = WeightsOf(LoadModel(work_.Snapshot(name, 20) + ".caffemodel"));
      EXPECT_EQ(WhyNotRecorded(&log, graphs), "") << strategy;
    }
    ASSERT_EQ(weights[0].size(), weights[1].size());
    for (size_t i = 0; i < weights[0].size(); ++i) {
      ASSERT_NEAR(weights[0][i], weights[1][i], is_fake() ? 0 : 1e-2) << strategy << " " << i;
    }
    graphs_.Reset();
  }
}

// Sums begin within the backward pass.
TEST_P(PassGraphsOnChosen, AreNotForSolversThatSumGradients) {
  if (!is_fake()) GTEST_SKIP() << "only a fake device counts graphs";
  work_.WriteNet(net_);
  TrainOptions options;
  options.gpus = {&first()};
  caffe::SolverParameter solver = Workspace::Solver(10);
  solver.mutable_strategy()->set_type("allreduce");
  RunNamed(work_, "run", solver, options);
  EXPECT_EQ(graphs_.replayed, 0);
}

TEST(PassGraphFlag, IsAutoOnOrOff) {
  EXPECT_EQ(ParseGraphUse("auto"), GraphUse::kAuto);
  EXPECT_EQ(ParseGraphUse("on"), GraphUse::kOn);
  EXPECT_EQ(ParseGraphUse("off"), GraphUse::kOff);
  EXPECT_EQ(ErrorOf([] { ParseGraphUse("yes"); }), "--cuda_graphs=yes: expected auto, on or off");
}

}  // namespace
}  // namespace millrace::test
