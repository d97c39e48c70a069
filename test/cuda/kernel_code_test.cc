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
#include "base/files/file.h"
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
  std::vector<Code> Matching(const std::string& name, const std::string& pattern) {
    std::vector<Code> matching;
    for (const Code& code : CodesOf(name)) {
      if (fnmatch(pattern.c_str(), code.name.c_str(), FNM_EXTMATCH) == 0) matching.push_back(code);
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
  const char* form;     // pattern of the names of instances; % stands for the kernels
  const char* kernels;  // their names, with | between them; *: all; null: `form` has no %
  Wide wide;            // which accesses have to be of 16 bytes somewhere
};

// Kernels with indices of 64 bits, which divide, are for arrays of 2^31 values and more.
constexpr const char* kNarrow = "*RunElements<%, int, false>(*";
constexpr const char* kNarrowRows = "*RunRows<%, int>(*";
constexpr const char* kPacked = "*RunElements<%, true>(*";
constexpr const char* kMaps = "*RunElements<*MapOfChannels<%>, int, true>(*";
constexpr const char* kSums = "*RunRows<*SumsOfChannels<%>, int>(*";

const Rule kRules[] = {
    {"nn/layers/activation/activation_cuda", kPacked, "ReluForward|ReluBackward", Wide::kBoth},
    {"nn/layers/activation/activation_cuda", "*RunElements<*NeuronForward<*>, long, true>(*",
     nullptr, Wide::kStores},
    {"nn/layers/activation/activation_cuda", "*RunElements<*NeuronBackward<*>, long, true>(*",
     nullptr, Wide::kBoth},
    {"nn/layers/elementwise/elementwise_cuda", kPacked,
     "EltwiseSum|EltwiseScale|EltwiseProduct|EltwiseQuotientGradient|EltwiseMaxOfTwo|"
     "EltwiseMaxOfNext|EltwiseMaxGradient",
     Wide::kBoth},
    {"nn/layers/utility/utility_cuda", kPacked, "SplitAdd", Wide::kBoth},
    {"nn/layers/recurrent/recurrent_cuda", kPacked, "ContinueState|TanhForward|TanhStepBackward",
     Wide::kBoth},
    {"nn/layers/elementwise/elementwise_cuda", kMaps,
     "BiasForward|BiasGradient|BiasReluForward|BiasReluGradient", Wide::kBoth},
    {"nn/layers/elementwise/elementwise_cuda", kSums,
     "BiasForward|BiasGradient|BiasReluForward|BiasReluGradient", Wide::kLoads},
    {"nn/layers/elementwise/elementwise_cuda", "*RunRows<*BiasReluGradient*, int>(*", nullptr,
     Wide::kBoth},
    {"nn/layers/elementwise/elementwise_cuda", kMaps,
     "ScaleForward|ScaleBackward|ScaleGradients|PreluForward|PreluBackward|PreluGradient",
     Wide::kBoth},
    {"nn/layers/elementwise/elementwise_cuda", kSums,
     "ScaleForward|ScaleBackward|ScaleGradients|PreluForward|PreluBackward|PreluGradient",
     Wide::kLoads},
    {"contrib/segmentation/segmentation_cuda", kSums, "BnVariance|BnOfAverages", Wide::kLoads},
    {"nn/layers/norm/norm_cuda", kMaps,
     "MeanOfChannels|DeviationOfChannels|VarianceOfChannels|MeanSquareOfChannels|TakeVariance|"
     "NormalizeSums|NormalizeForward|NormalizeBackward|CenterBackward|GlobalNormalizeBackward|"
     "StatisticsOfSums|AverageInto",
     Wide::kBoth},
    {"nn/layers/norm/norm_cuda", kSums,
     "MeanOfChannels|DeviationOfChannels|VarianceOfChannels|MeanSquareOfChannels|TakeVariance|"
     "NormalizeSums|NormalizeForward|NormalizeBackward|CenterBackward|GlobalNormalizeBackward|"
     "StatisticsOfSums|AverageInto",
     Wide::kLoads},
    {"nn/layers/norm/norm_cuda", kMaps,
     "NormalizeScaleForward|NormalizeScaleSums|NormalizeScaleBackward", Wide::kBoth},
    {"nn/layers/norm/norm_cuda", kSums,
     "NormalizeScaleForward|NormalizeScaleSums|NormalizeScaleBackward", Wide::kLoads},
    {"nn/layers/shape/shape_cuda", "*RunElements<*CopyParts<*ElementPack, *>, int, *", nullptr,
     Wide::kBoth},
    {"nn/layers/shape/shape_cuda", kNarrow, "CopyParts", Wide::kNone},
    {"solver/update_rules_cuda", "*RunRows<*UpdateOfRows<*", nullptr, Wide::kBoth},
    {"strategy/merge_cuda", kPacked, "*", Wide::kBoth},
    {"contrib/classification/classification_cuda", kNarrow, "ScaleChannels|ChannelScaleGradient",
     Wide::kNone},
    {"nn/layers/convolution/convolution_cuda", kNarrow, "ImageToColumns|ColumnsToImage",
     Wide::kNone},
    {"nn/layers/norm/norm_cuda", kNarrow, "LrnForward|LrnBackward", Wide::kNone},
    {"nn/layers/recurrent/recurrent_cuda", kNarrow, "LstmForward|LstmBackward", Wide::kNone},
    {"nn/layers/pooling/pooling_cuda", kNarrow,
     "MaxPoolForward|MaxPoolBackward|AveragePoolTop|AveragePoolBottom", Wide::kNone},
    {"nn/layers/recurrent/recurrent_cuda", kNarrow, "ContinueState|TanhForward|TanhStepBackward",
     Wide::kNone},
    {"nn/layers/utility/utility_cuda", kNarrow, "ReduceRows|ReductionGradient", Wide::kNone},
    {"nn/layers/activation/activation_cuda", kNarrow,
     "SoftmaxForward|SoftmaxBackward|LossOfPositions|RightPositions|MeanOfPositions|MeanOfClasses|"
     "SoftmaxLossBackward",
     Wide::kNone},
    {"nn/layers/activation/activation_cuda", kNarrowRows,
     "SoftmaxForward|SoftmaxBackward|LossOfPositions|RightPositions|MeanOfPositions|MeanOfClasses|"
     "SoftmaxLossBackward",
     Wide::kNone},
    {"nn/layers/pooling/pooling_cuda", kNarrow,
     "StochasticPoolDraw|StochasticPoolMean|StochasticPoolMeanGradient", Wide::kNone},
    {"nn/layers/shape/shape_cuda", kNarrow, "CopyElements|CopyRows", Wide::kNone},
    {"nn/layers/shape/shape_cuda", kNarrowRows, "CopyElements|CopyRows", Wide::kNone},
    {"nn/layers/shape/shape_cuda", kNarrow, "TileGradient", Wide::kNone},
    {"nn/layers/norm/norm_cuda", kNarrow, "ScaleToUnit|UnitRowGradient", Wide::kNone},
    {"contrib/segmentation/segmentation_cuda", kNarrow,
     "UpsampleNearest|UpsampleNearestGradient|UpsampleByMask|UpsampleByMaskGradient", Wide::kNone},
};

std::string PatternOf(const Rule& rule) {
  std::string pattern = rule.form;
  if (!rule.kernels) return pattern;
  const std::string kernels = rule.kernels;
  const std::string names = kernels == "*" ? kernels : "*::@(" + kernels + ")*";
  return pattern.replace(pattern.find('%'), 1, names);
}

TEST_F(KernelCode, DividesNoIntegersAndKeepsItsVariablesInRegisters) {
  for (const Rule& rule : kRules) {
    for (const Code& code : Matching(rule.file, PatternOf(rule))) {
      EXPECT_FALSE(code.divides) << code.name;
      EXPECT_FALSE(code.spills) << code.name;
    }
  }
}

TEST_F(KernelCode, AccessesElementsIn16Bytes) {
  for (const Rule& rule : kRules) {
    if (rule.wide == Wide::kNone) continue;
    for (const Code& code : Matching(rule.file, PatternOf(rule))) {
      EXPECT_TRUE(code.wide_loads > 0 || rule.wide == Wide::kStores) << code.name;
      EXPECT_TRUE(code.wide_stores > 0 || rule.wide == Wide::kLoads) << code.name;
    }
  }
}

// That the test would see a division.
TEST_F(KernelCode, HasDivisionsWithWideIndices) {
  for (const Code& code : Matching("nn/layers/norm/norm_cuda", "*ScaleToUnit, long, *")) {
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
