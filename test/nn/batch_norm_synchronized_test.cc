// BatchNorm with `synchronized: true`: members of a group take their batches as one.
#include <thread>

#include "test/collective/group_threads.h"
#include "test/nn/layer_runner.h"
#include "test/nn/net_support.h"

namespace millrace::test {
namespace {

const char kText[] = "type: 'BatchNorm' batch_norm_param { synchronized: true eps: 1e-3 }";

Array PartOf(const Array& values, int part, int parts) {
  const size_t size = values.size() / parts;
  return {values.begin() + part * size, values.begin() + (part + 1) * size};
}

// What the layers of all members compute of their parts of a batch, one after the other.
struct Computed {
  Array outputs, diffs, mean, variance;
};

Computed ByMembers(int members, const Shape& shape, const Array& x, const Array& dy, Layout order,
                   bool in_place) {
  FakeProcesses all(1, members);
  std::vector<Computed> parts(members);
  all.Run([&](Collective& member) {
    const int rank = member.rank();
    Collective* group = &member;
    LayerRunner runner(kText);
    runner.context().collective = &group;
    Shape part = shape;
    part[0] /= members;
    runner.AddBottom(part, PartOf(x, rank, members), order);
    in_place ? runner.SetUpInPlace() : runner.SetUp();
    parts[rank].outputs = runner.Output();
    runner.Backward(PartOf(dy, rank, members));
    parts[rank].diffs = GetDiff(runner.bottom());
    runner.layer().EndIteration();
    parts[rank].mean = GetData(runner.param(0));
    parts[rank].variance = GetData(runner.param(1));
  });
  Computed computed = parts[0];
  for (int i = 1; i < members; ++i) {
    computed.outputs.insert(computed.outputs.end(), parts[i].outputs.begin(),
                            parts[i].outputs.end());
    computed.diffs.insert(computed.diffs.end(), parts[i].diffs.begin(), parts[i].diffs.end());
    EXPECT_EQ(Diff(Array(parts[i].mean.size(), 0), parts[i].mean), "");  // the first one writes
  }
  return computed;
}

TEST(SynchronizedBatchNorm, OfPartsOfABatchIsThatOfTheWholeBatch) {
  Rng rng(Seed(), {1});
  const Shape shape = {12, 16, 3, 2};
  const Array dy = Uniform(ShapeCount(shape), -1, 1, &rng);
  // Also far from 0, where sums of squares lose all digits.
  for (const double far : {0.0, 500.0}) {
    const Array x = Uniform(ShapeCount(shape), far - 1, far + 3, &rng);
    const Computed whole = ByMembers(1, shape, x, dy, Layout::kPlain, false);
    const double tolerance = far == 0 ? 3e-6 : 3e-4;
    for (const int members : {2, 3, 6}) {
      for (const Layout order : {Layout::kPlain, Layout::kNhwc, Layout::kBlocked8}) {
        for (const bool in_place : {false, true}) {
          const Computed parts = ByMembers(members, shape, x, dy, order, in_place);
          EXPECT_EQ(Diff(whole.outputs, parts.outputs, tolerance), "");
          EXPECT_EQ(Diff(whole.diffs, parts.diffs, tolerance), "");
          EXPECT_EQ(Diff(whole.mean, parts.mean, tolerance), "");
          EXPECT_EQ(Diff(whole.variance, parts.variance, tolerance), "");
        }
      }
    }
  }
}

TEST(SynchronizedBatchNorm, AloneIsThatOfItsBatch) {
  Rng rng(Seed(), {2});
  const Array x = Uniform(48, -1, 3, &rng);
  LayerRunner runner(kText), plain("type: 'BatchNorm' batch_norm_param { eps: 1e-3 }");
  for (LayerRunner* each : {&runner, &plain}) {
    each->AddBottom({3, 4, 2, 2}, x);
    each->SetUp();
  }
  EXPECT_EQ(plain.Output(), runner.Output());
}

TEST(SynchronizedBatchNorm, RefusesBatchesOfDifferentSizes) {
  FakeProcesses all(1, 2);
  const std::string error = ErrorOf([&] {
    all.Run([&](Collective& member) {
      Collective* group = &member;
      LayerRunner runner(kText);
      runner.context().collective = &group;
      runner.AddBottom({2 + member.rank(), 3}, Array(3 * (2 + member.rank()), 1));
      runner.SetUp();
      runner.Forward();
    });
  });
  EXPECT_CONTAINS(error, "batch_norm_param.synchronized: this solver has ");
  EXPECT_CONTAINS(error, "expected equal batches");
}

// With the layers that it is fused with, in a net, against one net with the whole batch.
TEST(SynchronizedBatchNorm, DoesTheWorkOfScaleAndReluBehindIt) {
  Rng rng(Seed(), {3});
  const auto text = [](int batch, const char* param) {
    return StrCat(
        "name: 'n' force_backward: true layer { name: 'x' type: 'Input' top: 'x'\n"
        "  input_param { shape { dim: ",
        batch,
        " dim: 5 dim: 2 dim: 2 } } }\n"
        "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'y'\n"
        "  batch_norm_param { ",
        param,
        " } }\n"
        "layer { name: 'scale' type: 'Scale' bottom: 'y' top: 'y'\n"
        "  scale_param { bias_term: true filler { value: 1.5 } } }\n"
        "layer { name: 'relu' type: 'ReLU' bottom: 'y' top: 'y' }\n"
        "layer { name: 'loss' type: 'Reduction' bottom: 'y' top: 'loss' loss_weight: 1\n"
        "  reduction_param { operation: SUMSQ coeff: 0.1 } }\n");
  };
  const Array x = Uniform(6 * 20, -1, 2, &rng);
  TestNet whole(text(6, ""));
  SetData(x, whole->FindBlob("x"));
  whole.Pass();
  const Array expected = GetDiff(*whole->FindBlob("x"));
  const std::vector<float> scale = whole.Gradient("scale/0");
  constexpr int kMembers = 3;
  FakeProcesses all(1, kMembers);
  std::vector<Array> diffs(kMembers);
  std::vector<std::vector<float>> scales(kMembers);
  all.Run([&](Collective& member) {
    const int rank = member.rank();
    TestNet net(text(6 / kMembers, "synchronized: true"));
    net->SynchronizeWith(&member);
    SetData(PartOf(x, rank, kMembers), net->FindBlob("x"));
    net.Pass();
    diffs[rank] = GetDiff(*net->FindBlob("x"));
    scales[rank] = net.Gradient("scale/0");
  });
  for (int i = 0; i < kMembers; ++i) {
    EXPECT_EQ(Diff(PartOf(expected, i, kMembers), diffs[i], 1e-5), "");
  }
  for (size_t c = 0; c < scale.size(); ++c) {
    EXPECT_NEAR(scales[0][c] + scales[1][c] + scales[2][c], scale[c], 1e-4f);
  }
}

}  // namespace
}  // namespace millrace::test
