// Layers behind a Filter that selects nothing: their bottoms have no items in a pass, after passes
// with some.
#include <algorithm>

#include "test/nn/gpu_cases.h"
#include "test/nn/net_support.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

std::string Dims(const std::string& sizes) {
  std::string dims = " dim: " + sizes;
  for (size_t at = 0; (at = dims.find(' ', at + 6)) != std::string::npos;) {
    dims.replace(at, 1, " dim: ");
  }
  return dims;
}

// The layers of `each` behind a Filter of their inputs.
std::string NetOf(const GpuCase& each) {
  const std::string items = Dims(each.shape.substr(0, each.shape.find(' ')));
  return "force_backward: true layer { name: 'in' type: 'Input' top: 'all' top: 'all_labels'"
         " top: 'pick' input_param { shape {" +
         Dims(each.shape) + " } shape {" + items + " } shape {" + items +
         " } } }"
         "layer { name: 'filter' type: 'Filter' bottom: 'all' bottom: 'all_labels'"
         " bottom: 'pick' top: 'x' top: 'label' }" +
         each.layers;
}

class EmptyBottoms : public testing::TestWithParam<GpuCase> {};

// Passes end, or end with an error: that of a bottom which still has items, or of a layer that
// cannot be without.
TEST_P(EmptyBottoms, AreComputedOrRefused) {
  const GpuCase& each = GetParam();
  TestNet net(NetOf(each), InPhase(each.phase));
  FillRandom(net->FindBlob("all"), 1);
  FillRandom(net->FindBlob("all_labels"), 2, 5);
  Blob& chosen = *net->FindBlob("pick");
  const auto choose = [&](float value) { std::fill_n(chosen.data(), chosen.count(), value); };
  choose(1);
  net.Pass(0);
  choose(0);
  const std::string error = [&]() -> std::string {
    try {
      net.Pass(1);
    } catch (const Error& refused) {
      return refused.what();
    }
    return "";
  }();
  EXPECT_EQ(net->FindBlob("x")->count(), 0);
  // Only these nets mix what was filtered with inputs of their own.
  const bool mixes = each.layers.find("'Input'") != std::string::npos ||
                     each.layers.find("'DummyData'") != std::string::npos ||
                     each.layers.find("'Parameter'") != std::string::npos ||
                     each.layers.find("'Reshape'") != std::string::npos;
  if (!mixes) {
    EXPECT_EQ(error, "");
  }
  choose(1);
  net.Pass(2);
  EXPECT_EQ(net->FindBlob("x")->count(), net->FindBlob("all")->count());
}

// The same of nets that are built without items.
TEST_P(EmptyBottoms, AreBuiltOrRefused) {
  const GpuCase& each = GetParam();
  const std::string rest = each.shape.substr(each.shape.find(' '));
  const std::string text =
      "force_backward: true layer { name: 'in' type: 'Input' top: 'x' top: 'label' input_param {"
      " shape {" +
      Dims("0" + rest) + " } shape { dim: 0 } } }" + each.layers;
  try {
    TestNet net(text, InPhase(each.phase));
    net.Pass();
    EXPECT_EQ(net->FindBlob("x")->count(), 0);
  } catch (const Error& refused) {
    EXPECT_NE(std::string(refused.what()), "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmptyBottoms, testing::ValuesIn(GpuCases()),
                         [](const testing::TestParamInfo<GpuCase>& info) {
                           return info.param.name;
                         });

TEST(EmptyBottom, HasNoRegions) {
  for (const char* type : {"ROIPooling", "PSROIPooling", "ROIAlign"}) {
    const std::string text = StrCat(
        "layer { name: 'in' type: 'Input' top: 'x' top: 'regions' input_param {"
        "  shape { dim: 0 dim: 4 dim: 3 dim: 3 } shape { dim: 2 dim: 5 } } }"
        "layer { name: 'pool' type: '",
        type,
        "' bottom: 'x' bottom: 'regions' top: 'y' roi_pooling_param { pooled_h: 2 pooled_w: 2 } "
        "psroi_pooling_param { output_dim: 1 group_size: 2 spatial_scale: 1 } }");
    EXPECT_CONTAINS(ErrorOf([&] { TestNet net(text); }),
                    "bottom[1]: 2 regions given of no images, expected none");
  }
}

TEST(EmptyBottom, IsTiledAndReshaped) {
  TestNet net(
      "layer { name: 'in' type: 'Input' top: 'all' top: 'chosen' input_param {"
      "  shape { dim: 4 dim: 6 } shape { dim: 4 } } }"
      "layer { name: 'filter' type: 'Filter' bottom: 'all' bottom: 'chosen' top: 'x' }"
      "layer { name: 't' type: 'Tile' bottom: 'x' top: 't' tile_param { axis: 1 tiles: 2 } }"
      "layer { name: 'r' type: 'Reshape' bottom: 't' top: 'r' reshape_param { axis: 1"
      "  shape { dim: -1 dim: 3 } } }");
  std::fill_n(net->FindBlob("chosen")->data(), 4, 0.0f);
  net->Forward();
  EXPECT_EQ(net->FindBlob("t")->shape(), (Shape{0, 12}));
  EXPECT_EQ(net->FindBlob("r")->shape(), (Shape{0, 4, 3}));
}

}  // namespace
}  // namespace millrace::test
