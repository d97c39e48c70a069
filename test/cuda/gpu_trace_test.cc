// Traces of GPUs: the library that CUDA's driver loads (bench/gpu_trace) writes what a fake CUPTI
// reports, and bench/gpu_timeline.py draws it.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "base/files/file.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// What a program does with a GPU, in Python. Each number is passed in 64 bits, as are addresses.
constexpr char kPrelude[] = R"(
import ctypes, os, signal, sys, time
cupti = ctypes.CDLL(os.environ['MILLRACE_CUPTI'])
def call(name, *values):
    return getattr(cupti, name)(*(ctypes.c_char_p(v) if isinstance(v, bytes) else ctypes.c_uint64(v)
                                  for v in values))
library = ctypes.CDLL(sys.argv[1])
def begin():
    return library.InitializeInjection()
EXCHANGE = b'_ZN8millrace8exchange14ExchangeKernelINS0_12AdditiveRuleEEEvNS0_11KernelBatchET_'
RELU = b'_ZN8millrace6device11RunElementsINS_2nn11ReluForwardEEEvT_l'
)";

class GpuTrace : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(library_)) {
      GTEST_SKIP() << library_ << " was not built: no headers of CUPTI";
    }
  }

  CommandResult Trace(const std::string& program, const std::vector<std::string>& settings = {}) {
    std::vector<std::string> command = {"/usr/bin/env",
                                        "MILLRACE_CUPTI=" + build_ + "/test/fake_cupti.so",
                                        "MILLRACE_TRACE=" + file_};
    command.insert(command.end(), settings.begin(), settings.end());
    command.insert(command.end(), {"/usr/bin/python3", "-c", kPrelude + program, library_});
    return test::Run(command);
  }
  CommandResult Draw(const std::vector<std::string>& flags = {}) {
    std::vector<std::string> command = {"bench/gpu_timeline.py", file_};
    command.insert(command.end(), flags.begin(), flags.end());
    return test::Run(command);
  }
  std::string Text() const { return ReadFile(file_); }

  const std::string build_ = std::getenv("BUILD") ? std::getenv("BUILD") : "build";
  const std::string library_ = build_ + "/bundle/libmillrace_trace.so";
  TempDir folder_;
  const std::string file_ = folder_ / "trace.json";
};

TEST_F(GpuTrace, HoldsTheWorkOfEachStreamWithItsTimes) {
  const CommandResult result = Trace(R"(
assert begin() == 1
call('AddKernel', 13, 1500, 4250, RELU, 0)
call('AddKernel', 13, 5000, 6000, b'_ZN12_GLOBAL__N_13SumILi4EN5outer5inner2OpEEEvPf', 7)
call('AddKernel', 13, 6000, 7000, b'sm90_xmma_fprop_implicit_gemm', 0)
call('AddCopy', 21, 0, 1000, 1, 4096, 2)
call('AddCopy', 21, 2000, 3000, 1, 8, 1)
call('AddPeerCopy', 22, 2000, 3001, 9)
call('AddFill', 13, 8000, 9000, 64)
call('AddUnfinishedKernel', 13)
call('Drop', 3)
)");
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(result.errors, "");
  EXPECT_EQ(Text(),
            R"([
{"name":"process_name","ph":"M","pid":0,"args":{"name":"GPU 0"}},
{"name":"thread_name","ph":"M","pid":0,"tid":13,"args":{"name":"stream 13"}},
{"name":"RunElements<ReluForward>","cat":"kernel","ph":"X","pid":0,"tid":13,"ts":1.500,"dur":2.750,"args":{"bytes":0,"graph":0}},
{"name":"Sum<4, Op>","cat":"kernel","ph":"X","pid":0,"tid":13,"ts":5.000,"dur":1.000,"args":{"bytes":0,"graph":1}},
{"name":"sm90_xmma_fprop_implicit_gemm","cat":"kernel","ph":"X","pid":0,"tid":13,"ts":6.000,"dur":1.000,"args":{"bytes":0,"graph":0}},
{"name":"process_name","ph":"M","pid":0,"args":{"name":"GPU 0"}},
{"name":"thread_name","ph":"M","pid":0,"tid":21,"args":{"name":"stream 21"}},
{"name":"copy to device","cat":"copy","ph":"X","pid":0,"tid":21,"ts":0.000,"dur":1.000,"args":{"bytes":4096,"graph":0}},
{"name":"copy to device, pageable","cat":"copy","ph":"X","pid":0,"tid":21,"ts":2.000,"dur":1.000,"args":{"bytes":8,"graph":0}},
{"name":"process_name","ph":"M","pid":0,"args":{"name":"GPU 0"}},
{"name":"thread_name","ph":"M","pid":0,"tid":22,"args":{"name":"stream 22"}},
{"name":"copy to another device","cat":"copy","ph":"X","pid":0,"tid":22,"ts":2.000,"dur":1.001,"args":{"bytes":9,"graph":0}},
{"name":"fill","cat":"fill","ph":"X","pid":0,"tid":13,"ts":8.000,"dur":1.000,"args":{"bytes":64,"graph":0}},
{"name":"end","ph":"M","pid":0,"args":{"spans":7,"left_out":0,"lost":3}}
]
)");
}

TEST_F(GpuTrace, OfAKilledProcessHasWhatWasFlushed) {
  const CommandResult result = Trace(R"(
begin()
call('AddKernel', 13, 0, 1000, RELU, 0)
flushes = call('DefaultFlushes')
while call('DefaultFlushes') < flushes + 2:  # the file has it before the second one begins
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
)");
  EXPECT_EQ(result.status, 128 + SIGKILL);
  EXPECT_CONTAINS(Text(), "RunElements<ReluForward>");
  WriteFile(file_, Text() + "{\"name\":\"Sgd");  // a line of which a part was written
  const CommandResult drawn = Draw();
  EXPECT_EQ(drawn.status, 0) << drawn.errors;
  EXPECT_CONTAINS(drawn.output, "1 spans in 0.001 ms; cut off");
}

TEST_F(GpuTrace, KeepsToItsSizeAndCountsWhatItLeavesOut) {
  const CommandResult result = Trace(R"(
begin()
for i in range(5000):
    call('AddKernel', 13, 1000 * i, 1000 * i + 500, RELU, 0)
)",
                                     {"MILLRACE_TRACE_MIB=0.25"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_LE(Text().size(), size_t{256} << 10);
  EXPECT_GT(Text().size(), size_t{255} << 10);
  const CommandResult drawn = Draw();
  int spans = 0, left_out = 0;
  ASSERT_EQ(std::sscanf(drawn.output.c_str() + drawn.output.find(": "), ": %d spans in %*f ms, %d",
                        &spans, &left_out),
            2)
      << drawn.output;
  EXPECT_EQ(spans + left_out, 5000);
}

TEST_F(GpuTrace, BeginsWhenItIsTold) {
  Trace(R"(
begin()
call('AddKernel', 13, 1999999999, 2000000500, RELU, 0)
call('AddKernel', 13, 2000001000, 2000001500, RELU, 0)
)",
        {"MILLRACE_TRACE_AFTER=2"});
  EXPECT_CONTAINS(Text(), "\"ts\":1.000,");
  EXPECT_CONTAINS(Text(), "\"spans\":1,");
}

TEST_F(GpuTrace, TheProgramGoesOnWithoutOneThatCannotBeWritten) {
  const auto line = [&](const std::string& before) {
    const CommandResult result = Trace(before + "\nassert begin() == 0\nprint('goes on')");
    EXPECT_EQ(result.output, "goes on\n");
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    return result.errors;
  };
  EXPECT_EQ(line("del os.environ['MILLRACE_TRACE']"),
            "millrace_trace: MILLRACE_TRACE is not set: expected the file to write\n");
  EXPECT_EQ(line("os.environ['MILLRACE_TRACE'] = '/does/not/exist'"),
            "millrace_trace: cannot create /does/not/exist\n");
  EXPECT_CONTAINS(line("os.environ['MILLRACE_CUPTI'] = '/does/not/exist'"),
                  "expected CUPTI's file in MILLRACE_CUPTI");
  EXPECT_CONTAINS(line("call('FailToEnable')"), "cuptiActivityEnable fails with code");
}

TEST_F(GpuTrace, IsDrawnWithTheShareOfTheLinkBesideTheSolver) {
  Trace(R"(
begin()
for at in range(0, 1000000, 100000):
    call('AddKernel', 13, at, at + 30000, b'cudnn_conv_fprop', 0)
    call('AddKernel', 13, at + 30000, at + 50000, b'sgemm_128x128', 0)
    call('AddKernel', 13, at + 50000, at + 60000, b'_ZN8millrace6device7RunRowsINS_6solver12UpdateOfRowsINS2_9SgdUpdateEEEEEvT_l', 0)
    call('AddKernel', 17, at + 50000, at + 90000, EXCHANGE, 0)
    call('AddCopy', 21, at + 20000, at + 40000, 1, 4096, 2)
)");
  const std::string picture = folder_ / "trace.svg";
  const CommandResult drawn = Draw({"-o", picture});
  EXPECT_EQ(drawn.status, 0) << drawn.errors;
  // From the first work to the end of the last are 990 us.
  EXPECT_CONTAINS(drawn.output, "50 spans in 0.990 ms\n");
  EXPECT_CONTAINS(drawn.output, "| solver 13 | 60.6 % |  |");
  EXPECT_CONTAINS(drawn.output, "| link 17 | 40.4 % | 25.0 % |");
  EXPECT_CONTAINS(drawn.output, "| uploads 21 | 20.2 % | 100.0 % |");
  EXPECT_CONTAINS(drawn.output, "overlap of links with solvers: 25.0 %");
  EXPECT_CONTAINS(drawn.output, "| exchange | ExchangeKernel<AdditiveRule> | 10 | 0.400 | 40.00 |");
  EXPECT_CONTAINS(drawn.output,
                  "| update | RunRows<UpdateOfRows<SgdUpdate> > | 10 | 0.100 | 10.00 |");
  const std::string svg = ReadFile(picture);
  const auto count = [&](const std::string& part) {
    int found = 0;
    for (size_t at = 0; (at = svg.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("<title>cudnn_conv_fprop, 30.00 us</title>"), 10);
  EXPECT_EQ(count("<title>ExchangeKernel&lt;AdditiveRule&gt;, 40.00 us</title>"), 10);
  EXPECT_EQ(count("<title>copy to device, 20.00 us, 4096 bytes</title>"), 10);
  // One in the legend.
  EXPECT_EQ(count("fill=\"#3465a4\""), 11);
  EXPECT_EQ(count("fill=\"#4e9a06\""), 11);
  EXPECT_EQ(count("fill=\"#cc0000\""), 11);
  EXPECT_EQ(count("fill=\"#75507b\""), 11);
}

TEST_F(GpuTrace, ThatIsNoneIsRefusedWithOneLine) {
  WriteFile(file_, "[\n{\"name\":1}\n{}\n]\n");
  EXPECT_CONTAINS(Draw().errors, file_ + ":2: '{\"name\":1}': expected a trace event on a line");
  WriteFile(file_, "[\n]\n");
  EXPECT_EQ(Draw().errors, file_ + ": no work of a GPU in it, expected some\n");
  std::filesystem::remove(file_);
  EXPECT_EQ(Draw().errors, file_ +
                               ": No such file or directory: expected a trace that "
                               "libmillrace_trace.so has written\n");
  EXPECT_EQ(Draw().status, 1);
}

}  // namespace
}  // namespace millrace::test
