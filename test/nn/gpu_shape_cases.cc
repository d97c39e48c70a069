// Layers that move and combine blobs.
#include "base/error.h"
#include "test/nn/gpu_cases.h"

namespace millrace::test {
namespace {

// Two different blobs of the shape of "x": "a" and "b".
std::string TwoBlobs() {
  return LayerText("Dropout", "", "x", "a") +
         "layer { name: 'b' type: 'Dropout' bottom: 'x'"
         " top: 'b' dropout_param { dropout_ratio: 0.2 } }";
}
std::string OfTwo(const std::string& type, const std::string& param, const std::string& top = "y") {
  return StrCat("layer { name: '", type, "' type: '", type, "' bottom: 'a' bottom: 'b' top: '", top,
                "' ", param, " }");
}
// A layer with eleven bottoms: blobs "a" and "b" in turn.
std::string Elevenfold(const std::string& type) {
  std::string bottoms;
  for (int i = 0; i < 11; ++i) bottoms += i % 2 == 0 ? " bottom: 'a'" : " bottom: 'b'";
  return StrCat("layer { name: 'm' type: '", type, "'", bottoms, " top: 'y' }");
}
std::string OfThree(const std::string& param) {
  return TwoBlobs() +
         "layer { name: 'c' type: 'Dropout' bottom: 'x' top: 'c' }"
         "layer { name: 'e' type: 'Eltwise' bottom: 'a' bottom: 'b' bottom: 'c' top: 'y' "
         "eltwise_param { " +
         param + " } }";
}
// The tops "p" and "q" of a Slice, used unequally.
std::string Sliced(const std::string& param) {
  return "layer { name: 's' type: 'Slice' bottom: 'x' top: 'p' top: 'q' slice_param { " + param +
         " } }" + LayerText("Dropout", "", "p", "pd") +
         "layer { name: 'fp' type: 'Flatten' bottom: 'pd' top: 'f' }"
         "layer { name: 'fq' type: 'Flatten' bottom: 'q' top: 'g' }"
         "layer { name: 'j' type: 'Concat' bottom: 'f' bottom: 'g' bottom: 'f' top: 'y' }";
}

const RegisterGpuCases cases({
    {"Concat", TwoBlobs() + OfTwo("Concat", "")},
    {"ConcatOfBatches",
     TwoBlobs() + OfTwo("Concat", "concat_param { axis: 0 }", "c") +
         LayerText("Reshape", "reshape_param { shape { dim: 4 dim: -1 } }", "c")},
    {"ConcatOfColumns", TwoBlobs() + OfTwo("Concat", "concat_param { axis: 3 }")},
    {"ConcatInPacks", TwoBlobs() + OfTwo("Concat", ""), "3 5 2 6"},
    {"ConcatOfEleven", TwoBlobs() + Elevenfold("Concat")},
    {"ConcatOfElevenInPacks", TwoBlobs() + Elevenfold("Concat"), "3 5 2 6"},
    {"ConcatWithoutAGradientOfOne",
     LayerText("Dropout", "", "x", "a") +
         "layer { name: 'b' type: 'DummyData' top: 'b' dummy_data_param {"
         " shape { dim: 4 dim: 2 dim: 7 dim: 9 } data_filler { value: 2 } } }" +
         OfTwo("Concat", "")},
    {"SliceInPacks", Sliced("slice_point: 2"), "3 5 2 6"},
    {"Slice", Sliced("slice_point: 2")},
    {"SliceOfRows", Sliced("axis: 2 slice_point: 3")},
    {"EltwiseSum", TwoBlobs() + OfTwo("Eltwise", "")},
    {"EltwiseSumWithCoefficients", OfThree("coeff: 1 coeff: -2 coeff: 0.5")},
    {"EltwiseProductInPlace", TwoBlobs() +
                                  OfTwo("Eltwise", "eltwise_param { operation: PROD }", "a") +
                                  LayerText("Split", "", "a")},
    {"EltwiseMaxInPlace", TwoBlobs() + OfTwo("Eltwise", "eltwise_param { operation: MAX }", "a") +
                              LayerText("Split", "", "a")},
    {"SliceWithAnEmptyPart", Sliced("slice_point: 6")},
    {"EltwiseProduct", OfThree("operation: PROD")},
    {"EltwiseMax", OfThree("operation: MAX")},
    {"Flatten", LayerText("Flatten", "flatten_param { axis: 1 end_axis: 2 }")},
    {"Reshape", LayerText("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }")},
    {"Crop",
     "layer { name: 'size' type: 'Input' top: 'size' input_param { shape { dim: 4 dim: 2"
     " dim: 5 dim: 6 } } }"
     "layer { name: 'c' type: 'Crop' bottom: 'x' bottom: 'size' top: 'y' crop_param {"
     " axis: 1 offset: 3 offset: 0 offset: 2 } }"},
    {"Silence",
     LayerText("Split", "", "x", "y") + "layer { name: 'q' type: 'Silence' bottom: 'x' }"},
    {"Tile", LayerText("Tile", "tile_param { axis: 2 tiles: 3 }")},
    {"TileOfColumns", LayerText("Tile", "tile_param { axis: 3 tiles: 2 }")},
    {"ReductionSum", LayerText("Reduction", "reduction_param { axis: 2 coeff: 2 }")},
    {"ReductionOfMagnitudes",
     LayerText("Reduction", "reduction_param { axis: 1 operation: ASUM }", "x", "r") +
         LayerText("Reshape", "reshape_param { shape { dim: 4 dim: 1 } }", "r")},
    {"ReductionOfSquares", LayerText("Reduction", "reduction_param { axis: 3 operation: SUMSQ }")},
    {"ReductionMean", LayerText("Reduction", "reduction_param { axis: -1 operation: MEAN }")},
    {"ArgMax", LayerText("ArgMax", "argmax_param { axis: 1 top_k: 3 }", "x", "best") +
                   LayerText("Split", "")},
    {"ArgMaxOfItems",
     LayerText("ArgMax", "argmax_param { top_k: 5 out_max_val: true }", "x", "best") +
         LayerText("Split", "")},
    {"Embed",
     "layer { name: 'words' type: 'Input' top: 'label_words' input_param {"
     " shape { dim: 4 dim: 6 } } }"
     "layer { name: 'e' type: 'Embed' bottom: 'label_words' top: 'y' embed_param {"
     " num_output: 7 input_dim: 5 weight_filler { type: 'uniform' }"
     " bias_filler { type: 'uniform' } } }"},
    {"BatchReindex",
     "layer { name: 'r' type: 'BatchReindex' bottom: 'x' bottom: 'label' top: 'y' }", "5 6 7"},
    {"Permute", LayerText("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }")},
    {"PermuteOfLargePlanes",
     LayerText("Permute", "permute_param { order: 0 order: 2 order: 1 order: 3 }"), "2 3 5 70"},
    {"Reorg", LayerText("Reorg", "reorg_param { stride: 2 }"), "4 8 4 6"},
    {"ReorgBack", LayerText("Reorg", "reorg_param { stride: 2 reverse: true }"), "4 8 3 5"},
    {"Reverse", LayerText("Reverse", "reverse_param { axis: 1 axis: 3 }")},
    {"ReverseOfRows", LayerText("Reverse", "reverse_param { axis: 1 }"), "4 99"},
    {"Flip", LayerText("Flip", "flip_param { flip_height: true }")},
    {"FlipOfHeight", LayerText("Flip", "flip_param { flip_width: false flip_height: true }")},
    {"ShuffleChannel", LayerText("ShuffleChannel", "shuffle_channel_param { group: 3 }")},
    {"Axpy",
     LayerText("Reduction", "reduction_param { axis: 2 operation: MEAN }", "x", "r") + TwoBlobs() +
         "layer { name: 'axpy' type: 'Axpy' bottom: 'r' bottom: 'a' bottom: 'b' top: 'y' }"},
    {"ChannelScale",
     LayerText("Reduction", "reduction_param { axis: 1 operation: SUMSQ }", "x", "norm") +
         "layer { name: 'r' type: 'Reshape' bottom: 'norm' top: 'scale' reshape_param {"
         " shape { dim: 6 dim: 1 } } }"
         "layer { name: 's' type: 'ChannelScale' bottom: 'x' bottom: 'scale' top: 'y' }",
     "6 5"},
    {"Filter",
     "layer { name: 'chosen' type: 'DummyData' top: 'chosen' dummy_data_param {"
     " shape { dim: 4 } data_filler { type: 'gaussian' std: 3 sparse: 2 } } }"
     "layer { name: 'f' type: 'Filter' bottom: 'x' bottom: 'label' bottom: 'chosen'"
     " top: 'some' top: 'classes' }"
     "layer { name: 'rest' type: 'InnerProduct' bottom: 'some' top: 'rest'"
     " inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }"
     "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'rest' bottom: 'classes'"
     " top: 'l' }"},
    {"Upsample", LayerText("Upsample", "upsample_param { scale_h: 2 scale_w: 3 }")},
    {"UpsampleByMask",
     "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' top: 'mask' pooling_param {"
     " kernel_size: 2 stride: 2 } }"
     "layer { name: 'up' type: 'Upsample' bottom: 'p' bottom: 'mask' top: 'y' upsample_param {"
     " upsample_h: 7 upsample_w: 9 } }"},
    {"Interp", LayerText("Interp", "interp_param { zoom_factor: 2 }")},
    {"InterpOfAPart",
     LayerText("Interp", "interp_param { height: 4 width: 11 pad_beg: -1 pad_end: -2 }")},
});

}  // namespace
}  // namespace millrace::test
