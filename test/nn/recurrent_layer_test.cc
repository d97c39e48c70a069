// LSTM and RNN: what both have in common, and each against plain loops.
#include "test/nn/recurrent_reference.h"

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

using reference::Recurrent;
using reference::RecurrentWeights;

struct Case {
  std::string type;
  bool has_static, exposed;
  Recurrent r;

  bool lstm() const { return type == "LSTM"; }
  int64_t gates() const { return lstm() ? 4 : 1; }
  int64_t state() const { return r.streams * r.outputs; }
  std::string Text() const {
    return StrCat("name: 'r' type: '", type, "' recurrent_param { num_output: ", r.outputs,
                  " expose_hidden: ", exposed ? "true" : "false", " }");
  }
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.type << (c.has_static ? " with a static input" : "")
       << (c.exposed ? " with exposed states" : "");
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* type : {"LSTM", "RNN"}) {
    for (const bool has_static : {false, true}) {
      for (const bool exposed : {false, true}) {
        cases.push_back({type, has_static, exposed, {4, 3, 5, has_static ? 2 : 0, 6}});
      }
    }
  }
  return cases;
}

// A layer with random bottoms and weights, and the same for the reference.
class Subject {
 public:
  explicit Subject(const Case& c, uint64_t stream = 1) : c_(c), rng_(Seed(), {stream}) {
    const Recurrent& r = c.r;
    x = Uniform(r.steps * r.streams * r.inputs, -1, 1, &rng_);
    cont = RandomClasses(r.steps * r.streams, 2, &rng_);
    std::vector<Bottom> bottoms = {{{r.steps, r.streams, r.inputs}, x},
                                   {{r.steps, r.streams}, cont}};
    if (c.has_static) {
      fixed = Uniform(r.streams * r.static_inputs, -1, 1, &rng_);
      bottoms.push_back({{r.streams, r.static_inputs}, fixed});
    }
    hidden = cells = Array(c.state(), 0.0);
    if (c.exposed) {
      hidden = Uniform(c.state(), -1, 1, &rng_);
      bottoms.push_back({{1, r.streams, r.outputs}, hidden});
      if (c.lstm()) {
        cells = Uniform(c.state(), -1, 1, &rng_);
        bottoms.push_back({{1, r.streams, r.outputs}, cells});
      }
    }
    runner = RunnerOf(c.Text(), bottoms, !c.exposed ? 1 : c.lstm() ? 3 : 2);
    int number = 0;
    const auto fill = [&](Array* values) {
      Blob& blob = runner->param(number++);
      *values = Uniform(blob.count(), -0.7, 0.7, &rng_);
      SetData(*values, &blob);
    };
    fill(&weights.x), fill(&weights.bias);
    if (c.has_static) fill(&weights.fixed);
    fill(&weights.hidden);
    if (!c.lstm()) fill(&weights.output), fill(&weights.output_bias);
  }

  // The outputs of the next pass, by the loops.
  Array Expected() {
    return c_.lstm() ? c_.r.Lstm(weights, x, cont, fixed, &hidden, &cells)
                     : c_.r.Rnn(weights, x, cont, fixed, &hidden);
  }
  void SetX(const Array& values) {
    x = values;
    SetData(x, &runner->bottom(0));
  }
  void SetCont(const Array& values) {
    cont = values;
    SetData(cont, &runner->bottom(1));
  }
  Array RandomX() { return Uniform(static_cast<int64_t>(x.size()), -1, 1, &rng_); }

  Array x, cont, fixed, hidden, cells;
  RecurrentWeights weights;
  std::unique_ptr<LayerRunner> runner;

 private:
  const Case c_;
  Rng rng_;
};

class RecurrentLayer : public testing::TestWithParam<Case> {};

TEST_P(RecurrentLayer, MatchesTheLoops) {
  Subject subject(GetParam());
  LayerRunner& runner = *subject.runner;
  const Recurrent& r = GetParam().r;
  EXPECT_EQ(runner.top().shape(), (Shape{r.steps, r.streams, r.outputs}));
  EXPECT_EQ(Diff(subject.Expected(), runner.Output(), 1e-5), "");
  if (!GetParam().exposed) return;
  EXPECT_EQ(runner.top(1).shape(), (Shape{1, r.streams, r.outputs}));
  EXPECT_EQ(Diff(subject.hidden, GetData(runner.top(1)), 1e-5), "");
  if (GetParam().lstm()) {
    EXPECT_EQ(Diff(subject.cells, GetData(runner.top(2)), 1e-5), "");
  }
}

TEST_P(RecurrentLayer, HandsItsStateToTheNextPass) {
  if (GetParam().exposed) GTEST_SKIP() << "the state is a bottom";
  Subject subject(GetParam());
  for (int pass = 0; pass < 3; ++pass) {
    SCOPED_TRACE(pass);
    EXPECT_EQ(Diff(subject.Expected(), subject.runner->Output(), 1e-5), "");
    // A layer that works in place on the outputs changes neither the state nor the gradients.
    SetData(Array(subject.runner->top().count(), 9.0), &subject.runner->top());
    subject.SetX(subject.RandomX());
    subject.SetCont(Array(subject.cont.size(), 1.0));
  }
}

TEST_P(RecurrentLayer, ForgetsTheStateWhereAStreamBegins) {
  Subject subject(GetParam());
  subject.SetCont(Array(subject.cont.size(), 0.0));
  const Array once = subject.runner->Output();
  EXPECT_EQ(subject.runner->Output(), once);
}

TEST_P(RecurrentLayer, GradientsAreRight) {
  Subject subject(GetParam());
  // No state from the pass before, so that all passes are the same.
  if (!GetParam().exposed) {
    Array cont = subject.cont;
    std::fill_n(cont.begin(), GetParam().r.streams, 0.0);
    subject.SetCont(cont);
  }
  GradientCheck check;
  check.top_scale = {1, 0, 0};  // no gradient flows from the last state
  EXPECT_EQ(subject.runner->CheckGradients(check), "");
  if (GetParam().has_static) {
    check.propagate_down = {false, false, true};
    EXPECT_EQ(subject.runner->CheckGradients(check), "");
  }
}

TEST_P(RecurrentLayer, IgnoresChangesOfTheOutputsInTheBackwardPass) {
  Subject subject(GetParam());
  Rng rng(Seed(), {2});
  const Array top_diff = Uniform(subject.runner->top().count(), -1, 1, &rng);
  subject.runner->Forward();
  subject.runner->Backward(top_diff);
  const Array expected = GetDiff(subject.runner->bottom());
  SetData(Array(top_diff.size(), 9.0), &subject.runner->top());
  subject.runner->Backward(top_diff);
  EXPECT_EQ(GetDiff(subject.runner->bottom()), expected);
}

TEST_P(RecurrentLayer, DeclaresItsArraysInTheOrderOfCaffesFiles) {
  const Case& c = GetParam();
  Subject subject(c);
  const int64_t d = c.r.outputs, sums = c.gates() * d;
  std::vector<Shape> expected = {{sums, c.r.inputs}, {sums}};
  if (c.has_static) expected.push_back({sums, c.r.static_inputs});
  expected.push_back({sums, d});
  if (!c.lstm()) expected.insert(expected.end(), {{d, d}, {d}});
  std::vector<Shape> shapes;
  for (const Param& param : subject.runner->layer().params()) shapes.push_back(param.blob->shape());
  EXPECT_EQ(shapes, expected);
}

TEST_P(RecurrentLayer, StatesItsBottomsAndTops) {
  const Case& c = GetParam();
  Subject subject(c);
  const Arity arity = subject.runner->layer().arity();
  const int states = c.exposed ? (c.lstm() ? 2 : 1) : 0;
  EXPECT_EQ(arity.min_bottom, 2 + states);
  EXPECT_EQ(arity.max_bottom, 3 + states);
  EXPECT_EQ(arity.min_top, 1 + states);
  EXPECT_EQ(arity.max_top, 1 + states);
  EXPECT_TRUE(subject.runner->layer().AllowBackward(0));
  EXPECT_FALSE(subject.runner->layer().AllowBackward(1));
  EXPECT_EQ(subject.runner->layer().AllowBackward(2), c.has_static);
  EXPECT_FALSE(subject.runner->layer().AllowBackward(3));
}

INSTANTIATE_TEST_SUITE_P(All, RecurrentLayer, testing::ValuesIn(Cases()));

TEST(RecurrentLayerState, IsZeroAfterAChangeOfTheNumberOfStreams) {
  Subject subject({"LSTM", false, false, {2, 3, 4, 0, 5}});
  subject.runner->Forward();
  Rng rng(Seed(), {3});
  for (const int64_t streams : {2, 4}) {
    const Array x = Uniform(2 * streams * 4, -1, 1, &rng), cont(2 * streams, 1.0);
    Resize(subject.runner.get(), {{{2, streams, 4}, x}, {{2, streams}, cont}});
    Array hidden(streams * 5, 0.0), cells = hidden;
    const Recurrent r{2, streams, 4, 0, 5};
    for (int pass = 0; pass < 2; ++pass) {
      EXPECT_EQ(Diff(r.Lstm(subject.weights, x, cont, {}, &hidden, &cells),
                     subject.runner->Output(), 1e-5),
                "");
    }
  }
}

TEST(RecurrentLayerState, StaysWhenTheShapesAreSetAgain) {
  Subject subject({"RNN", false, false, {2, 3, 4, 0, 5}});
  subject.SetCont(Array(6, 1.0));
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(Diff(subject.Expected(), subject.runner->Output(), 1e-5), "");
    subject.runner->Reshape({2, 3, 4}, subject.x);
  }
}

TEST(RecurrentLayerInputs, MayHaveSeveralAxes) {
  const auto runner = RunnerOf("type: 'LSTM' recurrent_param { num_output: 2 }",
                               {{{2, 3, 4, 5}, Array(120, 0.5)}, {{2, 3}, Array(6, 1.0)}});
  EXPECT_EQ(runner->param(0).shape(), (Shape{8, 20}));
  EXPECT_EQ(runner->top().shape(), (Shape{2, 3, 2}));
}

TEST(RecurrentLayerSettings, AreChecked) {
  const auto text = [](const std::string& param) {
    return "type: 'LSTM' recurrent_param { " + param + " }";
  };
  const std::string two = text("num_output: 2"),
                    exposed = text("num_output: 2 expose_hidden: true");
  EXPECT_CONTAINS(SetUpError(text(""), {{2, 3, 4}, {2, 3}}), "0 given, expected at least 1");
  EXPECT_CONTAINS(SetUpError(two, {{2, 3}, {2, 3}}), "expected steps x streams x values");
  EXPECT_CONTAINS(SetUpError(two, {{2, 3, 4}, {3, 2}}), "one number per step and stream");
  EXPECT_CONTAINS(SetUpError(two, {{2, 3, 4}, {2, 3}, {4, 5}}), "expected 3 streams of 5 values");
  EXPECT_CONTAINS(SetUpError(two, {{2, 3, 4}, {2, 3}, {3}}), "expected streams x values");
  EXPECT_CONTAINS(SetUpError(exposed, {{2, 3, 4}, {2, 3}, {1, 3, 2}, {1, 2, 3}}),
                  "the state before the first step");
  EXPECT_CONTAINS(
      SetUpError(text("num_output: 2 weight_filler { type: 'x' }"), {{2, 3, 4}, {2, 3}}),
      "there is no filler 'x'");
  Subject subject({"LSTM", false, false, {2, 3, 4, 0, 5}});
  EXPECT_CONTAINS(ErrorOf([&] {
                    subject.runner->Reshape({3, 3, 4}, Array(36, 0.0));
                  }),
                  "expected 2 steps of streams of 4 values");
}

}  // namespace
}  // namespace millrace::test
