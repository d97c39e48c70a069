// GPUs by flag and by solver file, on machines with and without them.
#include "train/choose_gpus.h"

#include <map>

#include "test/support/fake_device.h"
#include "test/support/problem.h"

namespace millrace::test {
namespace {

// A machine with these GPUs.
class FakeDriver : public DeviceDriver {
 public:
  explicit FakeDriver(const std::vector<int>& ordinals) {
    for (const int ordinal : ordinals) {
      gpus_[ordinal] = std::make_unique<FakeDevice>(FakeDeviceOptions{.ordinal = ordinal});
    }
  }

  DeviceType type() const override { return kFakeDevice; }
  const char* type_name() const override { return "fake"; }
  std::vector<DeviceInfo> List() override {
    std::vector<DeviceInfo> all;
    for (const auto& [ordinal, gpu] : gpus_) {
      all.push_back({kFakeDevice, ordinal, StrCat("Fake ", 1000 + ordinal), size_t{3} << 20});
    }
    return all;
  }
  std::string WhyNone() override { return gpus_.empty() ? "no module is loaded" : ""; }
  std::string Versions() override { return "Fake 1.2"; }
  Device& Open(int ordinal) override { return *gpus_.at(ordinal); }

 private:
  std::map<int, std::unique_ptr<FakeDevice>> gpus_;
};

std::vector<int> Chosen(const std::string& text, DeviceDriver* driver) {
  std::vector<int> ordinals;
  for (const Device* gpu : ChooseGpus(text, driver)) ordinals.push_back(gpu->ordinal());
  return ordinals;
}

TEST(ChooseGpus, TakesNumbersOrAll) {
  FakeDriver driver({0, 1, 3});
  EXPECT_EQ(Chosen("", &driver), (std::vector<int>{}));
  EXPECT_EQ(Chosen("1", &driver), (std::vector<int>{1}));
  EXPECT_EQ(Chosen("3,0", &driver), (std::vector<int>{3, 0}));
  EXPECT_EQ(Chosen("all", &driver), (std::vector<int>{0, 1, 3}));
}

TEST(ChooseGpus, ChoosesNoneOnAMachineWithoutGpus) {
  FakeDriver none({});
  for (const char* text : {"0", "1,0", "all"}) {
    EXPECT_TRUE(ChooseGpus(text, &none).empty());
    EXPECT_TRUE(ChooseGpus(text, nullptr).empty());
    EXPECT_EQ(&ChooseDevice(text, &none), &HostDevice());
  }
  EXPECT_EQ(WhyNoGpu(&none), "this machine has no GPU (no module is loaded)");
  EXPECT_CONTAINS(WhyNoGpu(nullptr), "driver");
}

TEST(ChooseGpus, RefusesWhatTheMachineLacks) {
  FakeDriver driver({0, 1});
  EXPECT_EQ(ErrorOf([&] { ChooseGpus("0,2", &driver); }),
            "--gpu=0,2: this machine has no GPU 2; it has 0, 1");
  EXPECT_EQ(ErrorOf([&] { ChooseGpus("1,0,1", &driver); }), "--gpu=1,0,1: GPU 1 is given twice");
}

TEST(ChooseGpus, RefusesOtherText) {
  FakeDriver driver({0, 1}), none({});
  for (const char* text : {"x", "0,", ",1", "-1", "0 1", "all,0", "1.0", "99999999999"}) {
    for (FakeDriver* each : {&driver, &none}) {
      EXPECT_EQ(ErrorOf([&] { ChooseGpus(text, each); }),
                StrCat("--gpu=", text, ": expected numbers of GPUs, separated by commas, or all"));
    }
  }
}

TEST(ChooseDevice, IsTheHostOrTheFirstGpu) {
  FakeDriver driver({0, 1});
  EXPECT_EQ(&ChooseDevice("", nullptr), &HostDevice());
  EXPECT_EQ(&ChooseDevice("1", &driver), &driver.Open(1));
  EXPECT_EQ(&ChooseDevice("all", &driver), &driver.Open(0));
  EXPECT_EQ(&ChooseDevice("1,0", &driver), &driver.Open(1));
}

TEST(DescribeGpus, HasALineForEachAndOneForTheSoftware) {
  FakeDriver driver({0, 2}), none({});
  const std::string zero = "GPU 0: Fake 1000, 3 MiB", two = "GPU 2: Fake 1002, 3 MiB";
  EXPECT_EQ(DescribeGpus("", &driver), (std::vector<std::string>{zero, two, "Fake 1.2"}));
  EXPECT_EQ(DescribeGpus("2", &driver), (std::vector<std::string>{two, "Fake 1.2"}));
  EXPECT_EQ(ErrorOf([&] { DescribeGpus("", &none); }),
            "this machine has no GPU (no module is loaded)");
  EXPECT_CONTAINS(ErrorOf([&] { DescribeGpus("1", &driver); }), "no GPU 1; it has 0, 2");
}

TEST(GpusOf, FollowTheSolverFile) {
  FakeDriver driver({0, 1}), none({});
  Workspace work;
  const auto chosen = [&](const std::string& name, auto change, DeviceDriver* of) {
    caffe::SolverParameter solver = Workspace::Solver(1);
    change(&solver);
    std::vector<int> ordinals;
    for (const Device* gpu : GpusOf(LoadSolverConfig(work.Write(name, solver)), of)) {
      ordinals.push_back(gpu->ordinal());
    }
    return ordinals;
  };
  const auto gpu = [](caffe::SolverParameter* solver) {
    solver->set_solver_mode(caffe::SolverParameter::GPU);
  };
  const auto second = [&](caffe::SolverParameter* solver) {
    gpu(solver);
    solver->set_device_id(1);
  };
  const auto third = [&](caffe::SolverParameter* solver) {
    gpu(solver);
    solver->set_device_id(2);
  };
  const auto cpu = [](caffe::SolverParameter* solver) {
    solver->set_solver_mode(caffe::SolverParameter::CPU);
  };
  EXPECT_EQ(chosen("a", gpu, &driver), (std::vector<int>{0}));
  EXPECT_EQ(chosen("b", second, &driver), (std::vector<int>{1}));
  EXPECT_EQ(chosen("c", cpu, &driver), (std::vector<int>{}));
  // The format's default is GPU, but only an explicit mode counts.
  EXPECT_EQ(chosen(
                "d", [](auto*) {}, &driver),
            (std::vector<int>{}));
  EXPECT_EQ(chosen("e", third, &none), (std::vector<int>{}));
  EXPECT_EQ(chosen("f", gpu, nullptr), (std::vector<int>{}));
  const std::string error = ErrorOf([&] { chosen("g", third, &driver); });
  EXPECT_CONTAINS(error, "g.prototxt:");
  EXPECT_CONTAINS(error, "device_id: 2 given, expected a GPU of this machine: 0, 1");
}

}  // namespace
}  // namespace millrace::test
