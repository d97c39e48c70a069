// gpu-bundle/run, with scripts in place of the programs.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/files/file.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

// A test program with the tests S.A, S.B and S.C, run by filters with "cuda" or "Cuda" in them, by
// those of dry runs, and by their names. `broken` names one that leaves a CUDA error behind, so
// that later ones of its process fail, too.
constexpr char kTests[] = R"sh(
case $* in *list_tests*) printf 'S.\n  A\n  B  # GetParam() = 7\n  C\n'; exit;; esac
filter=${1#--gtest_filter=}
echo "$(basename $0) $filter $CUDA_LAUNCH_BLOCKING" >>calls
bad=
for test in A B C; do
  case ":$filter:" in :S.*) case ":$filter:" in *:S.$test:*) ;; *) continue;; esac;; esac
  echo "[ RUN      ] S.$test"
  [ "$(cat broken 2>/dev/null)" != "$(basename $0) $test" ] || bad=1
  if [ -n "$bad" ]; then
    echo "cuda device 0: work has failed: an illegal memory access was encountered"
    echo "[  FAILED  ] S.$test, where GetParam() = 7 (1 ms)"
  else
    echo "[       OK ] S.$test (1 ms)"
  fi
done
[ -z "$bad" ])sh";

// Its losses are in the file `losses`, its accuracy in the file `accuracy`. It trains until its
// last iteration or SIGINT.
constexpr char kMillrace[] = R"sh(
case $1 in device_query) echo "GPU 0: fake"; exit;; esac
for argument in "$@"; do
  case $argument in --metrics=*) metrics=${argument#*=};; --solver=*) solver=${argument#*=};; esac
done
echo "millrace $*" >>calls
[ -n "$metrics" ] || {
  echo '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 0, "dur": 5}' >$MILLRACE_TRACE
  exit 0
}
iterations=$(sed -n 's/^max_iter: //p' $solver)
display=$(sed -n 's/^display: //p' $solver)
trap 'exit 0' INT
set -- $(cat losses)
at=0
while [ $at -lt $iterations ]; do
  case $at in 0) loss=$1;; 10) loss=$2;; 19) loss=$3;; esac
  echo "{\"iter\": $at, \"time\": $at, \"train\": {\"loss\": $loss}}" >>$metrics
  at=$((at + display))
  [ $iterations -lt 10000 ] || sleep 0.01
done
echo "{\"iter\": $at, \"time\": $at, \"test\": {\"outputs\": {\"accuracy\": $(cat accuracy)}}}" >>$metrics)sh";

class GpuBundle : public testing::Test {
 protected:
  GpuBundle() {
    for (const char* folder : {"bin", "lib", "bench", "tools", "examples/mnist", "examples/zoo",
                               "data/mnist/mnist_train_lmdb"}) {
      fs::create_directories(folder_ / folder);
    }
    CopyFiles("tools/gpu-bundle", "");
    CopyFiles("bench", "bench");
    CopyFiles("examples/zoo", "examples/zoo");
    CopyFiles("examples/mnist", "examples/mnist");
    for (const char* name : {"device_test", "exchange_test", "segment_test", "training_test"}) {
      Program(StrCat("bin/", name), kTests);
    }
    for (const char* name : {"link_bench", "kernel_bench", "segment_bench"}) {
      Program(StrCat("bin/", name), StrCat("echo copies of ", name, ": 7 GB/s"));
    }
    Program("bin/millrace", kMillrace);
    Program("tools/nvidia-smi", "echo fake GPU, driver 580");
    Program("tools/ldd", "echo 'libc.so.6 => /lib/libc.so.6'");
    Program("tools/ncu", "while case $1 in bin/*) false;; esac; do shift; done; exec \"$@\"");
    Program("tools/compute-sanitizer",
            "while case $1 in bin/*) false;; esac; do shift; done\n"
            "echo '========= Invalid __global__ write of size 4 bytes'\nexec \"$@\"");
    const CommandResult losses = Python("import steps\nprint(*steps.LOSSES)");
    WriteFile(folder_ / "losses", losses.output);
    WriteFile(folder_ / "accuracy", "0.99");
  }

  // Copies the files of a folder, without its subfolders.
  void CopyFiles(const std::string& from, const std::string& to) {
    for (const fs::directory_entry& each : fs::directory_iterator(from)) {
      if (each.is_regular_file()) fs::copy(each.path(), fs::path(folder_.path()) / to);
    }
  }
  void Program(const std::string& name, const std::string& text) {
    WriteFile(folder_ / name, "#!/bin/sh\n" + text + "\n");
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }
  std::vector<std::string> Environment() {
    return {"/usr/bin/env", StrCat("PATH=", folder_ / "tools", ":/usr/bin:/bin"), "SECONDS=0.01"};
  }
  std::vector<std::string> Command(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = Environment();
    command.push_back(folder_ / "run");
    command.push_back("--out=" + out());
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  CommandResult Script(const std::vector<std::string>& arguments) {
    return test::Run(Command(arguments));
  }
  // Runs Python's lines in the folder of the bundle.
  CommandResult Python(const std::string& lines) {
    std::vector<std::string> command = Environment();
    for (const std::string& each :
         {std::string("/usr/bin/python3"), std::string("-c"),
          StrCat("import sys\nsys.path.insert(0, '", folder_.path(), "')\n", lines)}) {
      command.push_back(each);
    }
    return test::Run(command);
  }
  // Runs a part after changes to the modules.
  CommandResult ChangedScript(const std::string& changes, const std::string& part) {
    return Python(StrCat("import gtests, report, runpy, steps\n", changes,
                         "\nsys.argv = ['run', '--out=", out(), "', '", part,
                         "']\nrunpy.run_path('", folder_ / "run", "', run_name='__main__')"));
  }

  std::string out() { return folder_ / "out"; }
  std::string Calls() { return fs::exists(folder_ / "calls") ? ReadFile(folder_ / "calls") : ""; }
  std::string Report(const std::string& part) { return ReadFile(out() + "/" + part + ".txt"); }
  // The archive's list of files; fails unless it is whole.
  std::string Archive(const std::string& part) {
    const CommandResult list = test::Run({"/usr/bin/tar", "tzf", out() + "/" + part + ".tar.gz"});
    EXPECT_EQ(list.status, 0) << list.errors;
    return list.output;
  }
  std::string Archived(const std::string& part, const std::string& file) {
    return test::Run({"/usr/bin/tar", "xzOf", out() + "/" + part + ".tar.gz", part + "/" + file})
        .output;
  }
  int Files() {
    return static_cast<int>(std::distance(fs::directory_iterator(out()), fs::directory_iterator()));
  }
  // Waits until the file exists.
  bool Await(const std::string& file) {
    for (int i = 0; i < 2000 * Patience() && !fs::exists(folder_ / file); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return fs::exists(folder_ / file);
  }

  TempDir folder_;
};

class GpuBundleParts : public GpuBundle, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Each, GpuBundleParts, testing::Values("first", "speed", "rest"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GpuBundleParts, RunOnFakesWithTheirBudget) {
  Program("bin/millrace",
          StrCat("[ $1 != device_query ] || { echo this machine has no GPU; exit 1; }", kMillrace));
  fs::remove(folder_ / "tools/nvidia-smi");
  const CommandResult result = Script({GetParam(), "--dry-run"});
  EXPECT_EQ(result.status, 0) << result.output << result.errors;
  const std::string report = Report(GetParam());
  EXPECT_CONTAINS(result.output, report);
  EXPECT_CONTAINS(report, "step         planned   taken  result");
  EXPECT_CONTAINS(report, "this machine has no GPU");
  // Planned and taken seconds of the sum stay below the caller's limit less 20 s for the archive.
  const CommandResult sums =
      Python(StrCat("import steps\nplanned, limit = steps.PARTS['", GetParam(),
                    "']\nprint(sum(step.seconds for step in planned) <= limit - 20, *[step.name "
                    "for step in planned])"));
  EXPECT_EQ(sums.output.substr(0, 5), "True ");
  std::istringstream names(sums.output.substr(5));
  for (std::string name; names >> name;) {
    const size_t line = report.find("\n" + name + " ");
    ASSERT_NE(line, std::string::npos) << name;
    const std::string text = report.substr(line, report.find('\n', line + 1) - line);
    EXPECT_TRUE(text.find("  passed") != std::string::npos ||
                text.find("  skipped") != std::string::npos)
        << text;
  }
  EXPECT_CONTAINS(Archive(GetParam()), StrCat(GetParam(), "/results.json\n"));
  EXPECT_EQ(Files(), 2);
}

TEST_F(GpuBundle, RunsTestsOfGpusOnlyOnAMachineWithAGpu) {
  const CommandResult result = Script({"first"});
  EXPECT_EQ(result.status, 0) << result.output << result.errors;
  EXPECT_CONTAINS(Report("first"), "fake GPU, driver 580");
  EXPECT_CONTAINS(Report("first"), "8 of 8 steps passed");
  std::istringstream calls(Calls());
  int programs = 0;
  for (std::string line; std::getline(calls, line);) {
    if (line.find("_test ") == std::string::npos) continue;
    ++programs;
    EXPECT_TRUE(line.find("cuda") != std::string::npos || line.find("OnCuda") != std::string::npos)
        << line;
  }
  EXPECT_EQ(programs, 5);
  EXPECT_CONTAINS(Calls(), "--precision=bf16 --cuda_graphs=off");
}

TEST_F(GpuBundle, KeepsItsArchiveWhenItIsToEnd) {
  Program("bin/training_test",
          "echo '[ RUN      ] S.Long'\n"
          "until grep -qs S.Long work/first/training_test.log; do sleep 0.05; done\n"
          "echo $$ >started.tmp; mv started.tmp started; exec sleep 1000");
  for (const int signal : {SIGTERM, SIGKILL}) {
    fs::remove(folder_ / "started");
    fs::remove_all(out());
    Process run(Command({"first"}));
    ASSERT_TRUE(Await("started"));
    run.Signal(signal);
    const CommandResult result = run.Wait();
    EXPECT_EQ(result.status, signal == SIGTERM ? 1 : 128 + SIGKILL);
    const std::string files = Archive("first"), report = Report("first");
    EXPECT_CONTAINS(files, "first/device_test.log\n");
    EXPECT_CONTAINS(files, "first/results.json\n");
    EXPECT_CONTAINS(report, "\ndevices            8 ");
    EXPECT_CONTAINS(report, "not run");
    const int child = std::stoi(ReadFile(folder_ / "started"));
    if (signal == SIGKILL) {
      kill(child, SIGKILL);
      continue;
    }
    EXPECT_CONTAINS(report, "ended early: SIGTERM");
    EXPECT_CONTAINS(report, "FAILED: SIGTERM");
    EXPECT_CONTAINS(files, "first/training_test.log\n");
    EXPECT_CONTAINS(Archived("first", "training_test.log"), "S.Long");
    EXPECT_CONTAINS(result.output, report);
    EXPECT_EQ(kill(child, 0), -1);
  }
}

TEST_F(GpuBundle, EndsBeforeTheLimitOfItsCaller) {
  for (const char* name : {"device_test", "exchange_test", "segment_test", "training_test"}) {
    Program(StrCat("bin/", name), "exec sleep 1000");
  }
  EXPECT_EQ(Script({"first", "--limit=22"}).status, 1);
  EXPECT_CONTAINS(Report("first"), "ended early: the caller's limit is near");
  EXPECT_CONTAINS(Archive("first"), "first/results.json\n");
}

TEST_F(GpuBundle, FailsWithTheTextOfWhatIsWrongAndTriesAllOtherPrograms) {
  Program("bin/device_test",
          "echo 'device_test: error while loading shared libraries: libx.so.1: no such file' >&2; "
          "exit 127");
  Program("bin/millrace",
          StrCat("[ $1 != device_query ] || { echo driver too old; exit 1; }", kMillrace));
  Program("tools/ldd", "echo \"libx.so.1 => not found\"");
  fs::remove(folder_ / "tools/nvidia-smi");
  fs::remove(folder_ / "bin/segment_test");
  EXPECT_EQ(Script({"first"}).status, 1);
  const std::string report = Report("first");
  EXPECT_CONTAINS(report, "bin/device_test: libx.so.1 => not found");
  EXPECT_CONTAINS(report, "device_query: exit status 1: driver too old");
  EXPECT_CONTAINS(report, "nvidia-smi --format=csv: exit status 127");
  EXPECT_CONTAINS(report, "error while loading shared libraries: libx.so.1");
  EXPECT_CONTAINS(report, "bin/segment_test: exit status 127: bin/segment_test: No such file");
  EXPECT_CONTAINS(report, "5 of 8 steps passed, 3 failed");
}

TEST_F(GpuBundle, RunsAFailedTestAloneThenBlockingThenUnderMemcheck) {
  WriteFile(folder_ / "broken", "training_test B");
  EXPECT_EQ(Script({"first"}).status, 1);
  const std::string report = Report("first");
  // The CUDA error ends with the process: C passes in the next one.
  EXPECT_CONTAINS(Calls(),
                  "OnCuda* \ntraining_test S.C \ntraining_test S.B \ntraining_test S.B "
                  "1\ntraining_test S.B \n");
  EXPECT_CONTAINS(report, "FAILED: 2 passed, 1 failed tests");
  EXPECT_CONTAINS(report,
                  "\ntraining_test S.B\n    failed: cuda device 0: work has failed: an illegal");
  EXPECT_CONTAINS(report, "  alone: failed: cuda device 0");
  EXPECT_CONTAINS(report, "  CUDA_LAUNCH_BLOCKING=1: failed: cuda device 0");
  EXPECT_CONTAINS(report, "  memcheck: failed: cuda device 0");
  EXPECT_CONTAINS(report, "========= Invalid __global__ write of size 4 bytes");
  EXPECT_CONTAINS(report, "exchange          40 ");
  EXPECT_EQ(report.find("training_test S.C"), std::string::npos);
}

TEST_F(GpuBundle, GoesOnBehindTestsThatCrashOrHang) {
  Program("bin/training_test", StrCat(R"sh(case $* in
  *list_tests*) ;;
  *S.B:S.C*) echo '[ RUN      ] S.B'; exec sleep 1000;;
  *OnCuda*) echo '[ RUN      ] S.A'; kill -SEGV $$;;
esac)sh",
                                      kTests));
  const CommandResult result = ChangedScript("gtests.MAX_SECONDS_WITHOUT_RESULT = 0.3", "first");
  const std::string report = Report("first");
  EXPECT_CONTAINS(report, "FAILED: 1 passed, 2 failed tests");
  EXPECT_CONTAINS(report, "\ntraining_test S.A\n    failed: ended by signal 11");
  EXPECT_CONTAINS(report, "\ntraining_test S.B\n    failed: no result of S.B after 0.3 s");
  EXPECT_CONTAINS(report, "  alone: passed");
}

TEST_F(GpuBundle, TakesNoRefusalForSuccess) {
  Program("bin/segment_test",
          "echo '[ RUN      ] S.A'; echo 'Skipped'; echo 'no CUDA device: none';"
          "echo '[  SKIPPED ] S.A (0 ms)'");
  Program("bin/device_test", "echo '[  PASSED  ] 0 tests.'");
  WriteFile(folder_ / "accuracy", "0.93");
  WriteFile(folder_ / "losses", "2.3 2.3 9.9");
  EXPECT_EQ(Script({"first"}).status, 1);
  const std::string report = Report("first");
  EXPECT_CONTAINS(report, "FAILED: 0 passed tests; no test has run");
  EXPECT_CONTAINS(report, "\nsegment_test S.A\n    failed: Skipped\n    no CUDA device: none");
  EXPECT_CONTAINS(report, "FAILED: losses 2.3000, 2.3000, 9.9000");
  EXPECT_CONTAINS(report, "LeNet, graphs: accuracy 0.9300 after 1000 iterations");
  EXPECT_CONTAINS(report, "4 of 8 steps passed, 4 failed");
}

TEST_F(GpuBundle, BeginsWithWhatFailedBefore) {
  WriteFile(folder_ / "broken", "exchange_test C");
  WriteFile(folder_ / "accuracy", "0.5");
  EXPECT_EQ(Script({"first"}).status, 1);
  fs::remove(folder_ / "calls");
  EXPECT_EQ(Script({"speed"}).status, 1);
  EXPECT_EQ(Calls().find("exchange_test S.C \n"), 0u);
  EXPECT_CONTAINS(Report("speed"), "exchange_test S.C: failed: cuda device 0");
  EXPECT_CONTAINS(Report("speed"), "lenet: LeNet, fp32: accuracy 0.5000");
  EXPECT_CONTAINS(Report("speed"), "overlap of links with solvers");
  // The archives may come from elsewhere.
  fs::rename(out(), folder_ / "kept");
  fs::remove(folder_ / "broken");
  WriteFile(folder_ / "accuracy", "0.99");
  EXPECT_EQ(Script({"rest", "--before=" + folder_ / "kept"}).status, 0);
  EXPECT_CONTAINS(Report("rest"), "passed: 1 tests and 1 steps pass now");
  EXPECT_EQ(Script({"rest", "--before=" + folder_ / "losses"}).status, 1);
}

TEST_F(GpuBundle, NamesTheCudaLibrariesThatProgramsHaveLoaded) {
  // Maps a file of that name until its lines have been read, which takes longer than two looks.
  WriteFile(folder_ / "lib/libcublasLt.so.13", "x");
  WriteFile(folder_ / "map.py", R"sh(import mmap, time
file = open("lib/libcublasLt.so.13", "r+b")
mapped = mmap.mmap(file.fileno(), 0)
for i in range(20):
    print("line", i, flush=True)
    time.sleep(0.05)
while "line 19" not in open("work/first/device_test.log").read():
    time.sleep(0.05)
)sh");
  Program("bin/device_test", "exec python3 map.py");
  Script({"first"});
  EXPECT_CONTAINS(Report("first"),
                  StrCat("programs have loaded\n", folder_ / "lib/libcublasLt.so.13"));
}

TEST_F(GpuBundle, KeepsLogsAndArchiveSmall) {
  Program("bin/device_test", "echo first; head -c 4000000 /dev/zero | tr '\\0' x; echo last");
  Program("bin/exchange_test", "head -c 100000 /dev/urandom | base64 -w 70");
  ChangedScript("report.MAX_ARCHIVE = 80000", "first");
  const std::string log = Archived("first", "device_test.log");
  EXPECT_CONTAINS(log, "bytes are left out]");
  EXPECT_CONTAINS(log, "first\n");
  EXPECT_CONTAINS(log, "xlast\n");
  EXPECT_LT(log.size(), 1'300'000u);
  EXPECT_EQ(Archive("first").find("exchange_test.log"), std::string::npos);
  EXPECT_CONTAINS(Report("first"), "\nexchange_test.log: ");
}

TEST_F(GpuBundle, UnpacksProgramsOnce) {
  const CommandResult packed = test::Run(
      {"/usr/bin/tar", "cJf", folder_ / "programs.tar.xz", "-C", folder_.path(), "./bin"});
  ASSERT_EQ(packed.status, 0) << packed.errors;
  fs::remove_all(folder_ / "bin");
  EXPECT_EQ(Script({"first"}).status, 0) << Report("first");
  fs::remove(folder_ / "bin/device_test");
  EXPECT_EQ(Script({"first"}).status, 1);
  EXPECT_FALSE(fs::exists(folder_ / "bin/device_test"));
}

TEST_F(GpuBundle, PrintsRatesAsTheyAreMeasuredBesidePyTorch) {
  WriteFile(folder_ / "tools/torch.py", "");
  WriteFile(folder_ / "bench/torch_gpu.py", R"sh(import json, sys
print(json.dumps({"torch": "9.9"}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    answer = {"error": "out of memory"} if "bf16" in request["setting"] else {"images_per_second": 50}
    print(json.dumps(answer), flush=True)
)sh");
  const auto rates = [&](const std::string& more) {
    return test::Run(
        {"/bin/sh", "-c",
         StrCat("cd ", folder_.path(), "; PYTHONPATH=tools RESULTS=", folder_ / "results",
                " python3 bench/gpu_rates.py --nets=lenet:64 --seconds=0.1 --rounds=2 ", more)});
  };
  const CommandResult all = rates("--display=1");
  EXPECT_EQ(all.status, 0) << all.output << all.errors;
  EXPECT_CONTAINS(all.output, "PyTorch 9.9\n");
  EXPECT_CONTAINS(all.output, "lenet, batch 64, Millrace auto, graphs: 64.0 images/s\n");
  EXPECT_CONTAINS(all.output, "lenet, batch 64, PyTorch bf16, channels_last: out of memory\n");
  EXPECT_CONTAINS(all.output, "| lenet, 64 | Millrace fp32 | 64 | 1.28 |");
  const CommandResult cut = rates("--limit=0");
  EXPECT_EQ(cut.status, 0) << cut.output << cut.errors;
  EXPECT_CONTAINS(cut.output,
                  "lenet, batch 64, Millrace fp32: left out, the limit of 0 s is near\n");
  Program("bin/millrace", "echo no memory is left; exit 1");
  const CommandResult failed = rates("");
  EXPECT_EQ(failed.status, 1);
  EXPECT_CONTAINS(failed.output, "lenet, batch 64, Millrace bf16: no memory is left\n");
  EXPECT_CONTAINS(failed.errors, "lenet: Millrace bf16");
}

}  // namespace
}  // namespace millrace::test
