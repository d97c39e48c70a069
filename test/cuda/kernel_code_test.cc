// What the compiler made of the kernels for GPUs, read from the objects of the build: no division
// of integers (device/divisor.h), loads and stores of 16 bytes (device/element_pack.h), and no
// variables in memory for want of registers. Needs NVIDIA's cuobjdump.
#include <cxxabi.h>
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// The machine code of one kernel, as far as the tests ask.
struct Code {
  std::string name;
  bool divides = false;  // integers
  bool spills = false;
  int wide_loads = 0, wide_stores = 0;
};

bool Contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

std::string Demangled(const std::string& symbol) {
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  const std::string name = status == 0 ? text : symbol;
  std::free(text);
  return name;
}

// The listing of cuobjdump: "Function : SYMBOL", then an instruction in each line.
std::vector<Code> Parse(const std::string& listing) {
  std::vector<Code> codes;
  std::istringstream lines(listing);
  for (std::string line; std::getline(lines, line);) {
    const std::string label = "Function : ";
    if (const size_t at = line.find(label); at != std::string::npos) {
      codes.push_back({Demangled(line.substr(at + label.size()))});
      continue;
    }
    if (codes.empty()) continue;
    Code& code = codes.back();
    // Divisions, inline or called, begin with a reciprocal that is rounded up.
    code.divides |= Contains(line, "I2F.") && Contains(line, ".RP ");
    code.spills |= Contains(line, " STL") || Contains(line, " LDL");
    code.wide_loads += Contains(line, " LDG.E.128");
    code.wide_stores += Contains(line, " STG.E.128");
  }
  return codes;
}

class KernelCode : public testing::Test {
 protected:
  void SetUp() override {
    const char* const home = std::getenv("CUDA_HOME");
    const std::string folder = home ? home : "/usr/local/cuda";
    const CommandResult found = test::Run(
        {"/bin/sh", "-c",
         "PATH=" + folder + "/bin:$PATH; command -v nvdisasm >/dev/null && command -v cuobjdump"});
    if (found.status != 0) {
      GTEST_SKIP() << "no cuobjdump and nvdisasm in " << folder
                   << "/bin or on the PATH: compiled kernels are not read";
    }
    tool_ = found.output.substr(0, found.output.find('\n'));
  }

  // The kernels of src/NAME.cu.
  const std::vector<Code>& CodesOf(const std::string& name) {
    const auto [found, is_new] = codes_.try_emplace(name);
    if (!is_new) return found->second;
    const std::string object = Dirname(Binary()) + "/obj/src/" + name + ".cu.o";
    const CommandResult listing = test::Run({tool_, "-sass", object}, 300);
    EXPECT_EQ(listing.status, 0) << object << ": " << listing.errors;
    return found->second = Parse(listing.output);
  }
  std::vector<Code> Matching(const std::string& name, const char* pattern) {
    std::vector<Code> matching;
    for (const Code& code : CodesOf(name)) {
      if (fnmatch(pattern, code.name.c_str(), 0) == 0) matching.push_back(code);
    }
    EXPECT_FALSE(matching.empty()) << "no kernel of " << name << " is " << pattern;
    return matching;
  }

 private:
  std::string tool_;
  std::map<std::string, std::vector<Code>> codes_;
};

enum class Wide { kNone, kLoads, kStores, kBoth };

struct Rule {
  const char* file;
  const char* kernels;  // pattern of their names
  Wide wide;            // which accesses have to be of 16 bytes somewhere
};

// Kernels with indices of 64 bits, which divide, are for arrays of 2^31 values and more.
constexpr const char* kNarrow = "*RunElements<*, int, false>(*";
constexpr const char* kNarrowRows = "*RunRows<*, int>(*";
constexpr const char* kPacked = "*RunElements<*, true>(*";
constexpr const char* kMaps = "*RunElements<*MapOfChannels<*>, int, true>(*";
constexpr const char* kSums = "*RunRows<*SumsOfChannels<*>, int>(*";

const Rule kRules[] = {
    {"nn/layers/relu_layer_cuda", kPacked, Wide::kBoth},
    {"nn/layers/neuron_layer_cuda", "*RunElements<*NeuronForward<*>, long, true>(*", Wide::kStores},
    {"nn/layers/neuron_layer_cuda", "*RunElements<*NeuronBackward<*>, long, true>(*", Wide::kBoth},
    {"nn/layers/eltwise_layer_cuda", kPacked, Wide::kBoth},
    {"nn/layers/split_layer_cuda", kPacked, Wide::kBoth},
    {"nn/layers/recurrent_cuda", kPacked, Wide::kBoth},
    {"nn/layers/bias_cuda", kMaps, Wide::kBoth},
    {"nn/layers/bias_cuda", kSums, Wide::kLoads},
    {"nn/layers/bias_cuda", "*RunRows<*BiasReluGradient*, int>(*", Wide::kBoth},
    {"nn/layers/scale_layer_cuda", kMaps, Wide::kBoth},
    {"nn/layers/scale_layer_cuda", kSums, Wide::kLoads},
    {"nn/layers/bn_layer_cuda", kSums, Wide::kLoads},
    {"nn/layers/normalize_layer_cuda", kMaps, Wide::kBoth},
    {"nn/layers/normalize_layer_cuda", kSums, Wide::kLoads},
    {"nn/layers/normalize_scale_cuda", kMaps, Wide::kBoth},
    {"nn/layers/normalize_scale_cuda", kSums, Wide::kLoads},
    {"nn/layers/part_copy_cuda", "*RunElements<*CopyParts<*ElementPack, *>, int, *", Wide::kBoth},
    {"nn/layers/part_copy_cuda", kNarrow, Wide::kNone},
    {"solver/sgd_cuda", "*RunRows<*UpdateOfRows<*", Wide::kBoth},
    {"solver/element_rules_cuda", "*RunRows<*UpdateOfRows<*", Wide::kBoth},
    {"strategy/merge_cuda", kPacked, Wide::kBoth},
    {"nn/layers/channel_scale_layer_cuda", kNarrow, Wide::kNone},
    {"nn/layers/column_kernels_cuda", kNarrow, Wide::kNone},
    {"nn/layers/lrn_layer_cuda", kNarrow, Wide::kNone},
    {"nn/layers/lstm_cuda", kNarrow, Wide::kNone},
    {"nn/layers/pooling_layer_cuda", kNarrow, Wide::kNone},
    {"nn/layers/recurrent_cuda", kNarrow, Wide::kNone},
    {"nn/layers/reduction_layer_cuda", kNarrow, Wide::kNone},
    {"nn/layers/softmax_layer_cuda", kNarrow, Wide::kNone},
    {"nn/layers/softmax_layer_cuda", kNarrowRows, Wide::kNone},
    {"nn/layers/stochastic_pooling_layer_cuda", kNarrow, Wide::kNone},
    {"nn/layers/strided_copy_cuda", kNarrow, Wide::kNone},
    {"nn/layers/strided_copy_cuda", kNarrowRows, Wide::kNone},
    {"nn/layers/tile_layer_cuda", kNarrow, Wide::kNone},
    {"nn/layers/unit_rows_cuda", kNarrow, Wide::kNone},
    {"nn/layers/upsample_layer_cuda", kNarrow, Wide::kNone},
};

TEST_F(KernelCode, DividesNoIntegersAndKeepsItsVariablesInRegisters) {
  for (const Rule& rule : kRules) {
    for (const Code& code : Matching(rule.file, rule.kernels)) {
      EXPECT_FALSE(code.divides) << code.name;
      EXPECT_FALSE(code.spills) << code.name;
    }
  }
}

TEST_F(KernelCode, AccessesElementsIn16Bytes) {
  for (const Rule& rule : kRules) {
    if (rule.wide == Wide::kNone) continue;
    for (const Code& code : Matching(rule.file, rule.kernels)) {
      EXPECT_TRUE(code.wide_loads > 0 || rule.wide == Wide::kStores) << code.name;
      EXPECT_TRUE(code.wide_stores > 0 || rule.wide == Wide::kLoads) << code.name;
    }
  }
}

// That the test would see a division.
TEST_F(KernelCode, HasDivisionsWithWideIndices) {
  for (const Code& code : Matching("nn/layers/unit_rows_cuda", "*ScaleToUnit, long, *")) {
    EXPECT_TRUE(code.divides) << code.name;
  }
}

TEST(KernelCodeListing, IsReadByFunction) {
  const std::vector<Code> codes = Parse(
      "  Function : _ZN8millrace1AEv\n"
      "    /*0000*/  I2F.U64.RP R5, UR4 ;\n"
      "    /*0010*/  LDG.E R9, desc[UR6][R4.64] ;\n"
      "  Function : _Z1fv\n"
      "    /*0000*/  LDG.E.128 R8, desc[UR6][R4.64] ;\n"
      "    /*0010*/  STL [R1], R2 ;\n"
      "    /*0020*/  STG.E.128 desc[UR6][R4.64], R8 ;\n"
      "    /*0030*/  I2FP.F32.U32 R4, R3 ;\n");
  ASSERT_EQ(codes.size(), 2u);
  EXPECT_EQ(codes[0].name, "millrace::A()");
  EXPECT_TRUE(codes[0].divides);
  EXPECT_FALSE(codes[0].spills);
  EXPECT_EQ(codes[0].wide_loads, 0);
  EXPECT_EQ(codes[1].name, "f()");
  EXPECT_FALSE(codes[1].divides);
  EXPECT_TRUE(codes[1].spills);
  EXPECT_EQ(codes[1].wide_loads, 1);
  EXPECT_EQ(codes[1].wide_stores, 1);
}

}  // namespace
}  // namespace millrace::test
