// millrace simulate.
#include "metrics/metrics_writer.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class Simulate : public testing::Test {
 protected:
  CommandResult Run(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"simulate", "--solver=" + solver_, "--mtu=600"});
    return Millrace(flags);
  }

  Workspace work_;
  const std::string solver_ = work_.Write("run", Workspace::Tested(Workspace::Solver(80), 40));
};

TEST_F(Simulate, PrintsOneLineAndWritesMetricsAndWeights) {
  const CommandResult result =
      Run({"--workers=3", "--slow=1:2,2:3", "--codec=int8", "--loss=0.05",
           "--metrics=" + work_ / "run.jsonl", "--save=" + work_ / "run.caffemodel"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(Matches(result.output,
                    R"(^workers 3, iterations (80), virtual seconds .*, loss .*, staleness )"
                    R"(.* iterations, sent [0-9.]{1,4} [kM]B \([0-9.]{1,4} k?B?(bytes)? an iteration\)\n$)")
                .size(),
            1u)
      << result.output;
  int tests = 0;
  double bytes = 0;
  for (const MetricsRow& row : ReadMetrics(work_ / "run.jsonl")) {
    tests += row.has_test();
    if (row.segments().count("simulated.bytes_sent") == 0) continue;
    EXPECT_GE(row.segments().at("simulated.bytes_sent"), bytes);
    bytes = row.segments().at("simulated.bytes_sent");
  }
  EXPECT_EQ(tests, 3);
  EXPECT_GT(bytes, 0);
  const CommandResult tested =
      Millrace({"test", "--model=" + work_ / "net.prototxt",
                "--weights=" + work_ / "run.caffemodel", "--iterations=2"});
  EXPECT_EQ(tested.status, 0) << tested.errors;
}

TEST_F(Simulate, ContinuesASnapshot) {
  const std::string half = work_.Write("half", Workspace::Solver(40));
  const auto simulate = [&](const std::string& solver, const std::string& flags) {
    const CommandResult result =
        Millrace({"simulate", "--solver=" + solver, "--mtu=600", "--workers=10", "--scaling=none",
                  "--snapshot_every=40", flags});
    EXPECT_EQ(result.status, 0) << result.errors;
    return result;
  };
  const CommandResult whole = simulate(solver_, "--seed=7");
  EXPECT_CONTAINS(whole.errors,
                  "The workers merge by the rule outer with Nesterov momentum, rate "
                  "0.07 and delay 10, undamped: the default for more than 8 members");
  const std::string model = work_.Snapshot("run", 80) + ".caffemodel";
  const std::string expected = ReadFile(model);
  simulate(half, "--seed=7");
  const std::string snapshot = work_.Snapshot("half", 40) + ".solverstate";
  const CommandResult rest = Run({"--workers=10", "--scaling=none", "--seed=7",
                                  "--snapshot_every=40", "--snapshot=" + snapshot});
  EXPECT_EQ(rest.status, 0) << rest.errors;
  EXPECT_CONTAINS(rest.errors, "Resuming from " + snapshot + " at iteration 40");
  EXPECT_EQ(ReadFile(model), expected);
  const CommandResult refused = Run({"--workers=8", "--scaling=none", "--snapshot=" + snapshot});
  EXPECT_EQ(refused.status, 1);
  EXPECT_CONTAINS(refused.errors, snapshot + ": run_state.rule: ");
}

TEST_F(Simulate, StrategiesWithoutAnExchangeWriteTheSameRows) {
  for (const char* strategy : {"allreduce", "gossip"}) {
    caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(80), 20);
    solver.mutable_strategy()->set_type(strategy);
    caffe::PartParameter& stop = *solver.add_stop_condition();
    stop.set_type("iterations");
    (*stop.mutable_param())["most"] = 40;
    const std::string metrics = work_ / (std::string(strategy) + ".jsonl");
    const CommandResult result = Millrace({"simulate", "--solver=" + work_.Write(strategy, solver),
                                           "--workers=3", "--metrics=" + metrics, "--mtu=600"});
    ASSERT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(Matches(result.output, R"(^workers 3, iterations (4[012]), virtual seconds )").size(),
              1u)
        << result.output;
    EXPECT_CONTAINS(result.errors, "Stop condition iterations at iteration 40: ");
    std::vector<int> tested;
    for (const MetricsRow& row : ReadMetrics(metrics)) {
      if (row.has_run()) continue;
      EXPECT_EQ(row.segments().at("simulated.staleness"), 0);
      if (row.has_test()) tested.push_back(row.iter());
    }
    ASSERT_GE(tested.size(), 3u);
    EXPECT_EQ(std::vector<int>(tested.begin(), tested.begin() + 3), (std::vector<int>{0, 20, 40}));
  }
}

TEST_F(Simulate, RefusesBadFlagsInOneLine) {
  const auto error = [&](const std::string& flag) {
    const CommandResult result = Run({flag});
    EXPECT_EQ(result.status, 1) << flag;
    EXPECT_EQ(result.output, "") << flag;
    return Matches(result.errors, R"(millrace: (.*)\n$)").at(0);
  };
  EXPECT_EQ(error("--workers=0"), "workers: 0 given, expected 1 to 64");
  EXPECT_EQ(error("--max_mbps=0"), "max_mbps: 0 given, expected 0.01 to 1000000");
  EXPECT_EQ(error("--slow=1"), "--slow: \"1\" given, expected WORKER:FACTOR,...");
  EXPECT_EQ(error("--slow=0.5:2"), "--slow: \"0.5\" given, expected the number of a worker");
  EXPECT_EQ(error("--slow=7:2"), "slow: worker: 7 given, expected a number below that of workers");
  EXPECT_EQ(error("--rule=additive:share"), "--rule: \"share\" given, expected NAME:KEY=VALUE,...");
  EXPECT_EQ(error("--rule=additive:a=b"), "--rule: \"b\" given, expected a number");
  EXPECT_NE(error("--rule=nonesuch").find("nonesuch"), std::string::npos);
  EXPECT_EQ(error("--codec=sparse:0"),
            "--codec: \"sparse:0\" given, expected float32, bfloat16, int8, int4, sparse:THRESHOLD "
            "with a threshold above 0, or topk:SHARE or random:SHARE with a share above 0 and at "
            "most 1");
  EXPECT_NE(error("--codec=topk:1.5").find("topk:SHARE"), std::string::npos);
  for (const char* bad : {"random", "topk:0", "topk:1.5", "int8:1", "topk:"}) {
    EXPECT_EQ(error(StrCat("--position_codec=", bad).c_str()),
              StrCat("--position_codec: \"", bad,
                     "\" given, expected one of float32, bfloat16, int8, int4, topk or topk:SHARE, "
                     "with a share above 0 and at most 1"));
  }
  const CommandResult refused = Run({"--rule=decayed", "--codec=int8"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.errors,
            "millrace: merge rule decayed: codec is int8, which leaves nothing unsent: expected "
            "sparse, topk or random\n");
}

}  // namespace
}  // namespace millrace::test
