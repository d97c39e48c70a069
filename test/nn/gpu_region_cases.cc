// Layers of regions, SpatialTransformer, and BN.
#include "test/nn/gpu_cases.h"

namespace millrace::test {
namespace {

// A layer with the regions as its second bottom; their numbers are whole, 0 to 4.
std::string OfRegions(const std::string& type, const std::string& param) {
  return "layer { name: 'regions' type: 'Input' top: 'label_regions' input_param {"
         " shape { dim: 5 dim: 5 } } }"
         "layer { name: '" +
         type + "' type: '" + type + "' bottom: 'x' bottom: 'label_regions' top: 'y' " + param +
         " }";
}

std::string Bn(const std::string& param, const std::string& bottom = "x",
               const std::string& top = "y") {
  return LayerText("BN", "bn_param { " + param + " }", bottom, top);
}

const std::string kFour =
    "slope_filler { type: 'uniform' min: 0.5 max: 2 } bias_filler { type: 'uniform' }";
const std::string kTwo =
    "scale_filler { type: 'uniform' min: 0.5 max: 2 } shift_filler { type: 'uniform' }";

const RegisterGpuCases cases({
    {"RoiPooling",
     OfRegions("ROIPooling", "roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: 1.3 }"),
     "5 3 6 7"},
    {"PsRoiPooling",
     OfRegions("PSROIPooling",
               "psroi_pooling_param { output_dim: 2 group_size: 3 spatial_scale: 1.3 }"),
     "5 18 6 7"},
    {"RoiAlign",
     OfRegions("ROIAlign", "roi_align_param { pooled_h: 3 pooled_w: 2 spatial_scale: 1.3 }"),
     "5 3 6 7"},
    {"RoiAlignOfTwo",
     OfRegions("ROIAlign", "roi_pooling_param { pooled_h: 2 pooled_w: 5 spatial_scale: 1.7 }"),
     "5 3 6 7"},
    {"BoxAnnotatorOhem",
     "layer { name: 'regions' type: 'Input' top: 'label_regions' input_param {"
     " shape { dim: 8 dim: 5 } } }"
     "layer { name: 'weights' type: 'Input' top: 'weights' input_param {"
     " shape { dim: 8 dim: 4 } } }" +
         LayerText("Reduction", "reduction_param { axis: 1 operation: ASUM }", "x", "losses") +
         "layer { name: 'ohem' type: 'BoxAnnotatorOHEM' bottom: 'label_regions' bottom: 'losses'"
         " bottom: 'label' bottom: 'weights' top: 'kept' top: 'kept_weights'"
         " box_annotator_ohem_param { roi_per_img: 1 } }"
         "layer { name: 'scores' type: 'InnerProduct' bottom: 'x' top: 'scores'"
         " inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'kept' top: 'l'"
         " loss_param { ignore_label: -1 } }",
     "8 6"},
    {"SpatialTransformer",
     "layer { name: 'theta' type: 'InnerProduct' bottom: 'x' top: 'theta' inner_product_param {"
     "  num_output: 6 weight_filler { type: 'gaussian' std: 0.05 } } }"
     "layer { name: 'st' type: 'SpatialTransformer' bottom: 'x' bottom: 'theta' top: 'y'"
     "  st_param { output_H: 5 output_W: 8 } }",
     "4 3 6 7"},
    {"SpatialTransformerOfFour",
     "layer { name: 'theta' type: 'InnerProduct' bottom: 'x' top: 'theta' inner_product_param {"
     "  num_output: 4 weight_filler { type: 'gaussian' std: 0.05 } } }"
     "layer { name: 'st' type: 'SpatialTransformer' bottom: 'x' bottom: 'theta' top: 'y'"
     "  st_param { theta_1_2: 0 theta_2_1: 0.125 } }",
     "4 3 6 7"},
    {"Bn", Bn(kFour)},
    {"BnInPlace", LayerText("Dropout", "", "x", "y") + Bn(kFour, "y", "y")},
    {"BnFrozen", Bn(kFour + " frozen: true")},
    // The averages start at 0: a smaller eps makes values of some hundreds.
    {"BnInTest", Bn(kFour + " eps: 0.5"), "4 6 7 9", caffe::TEST},
    {"BnOfTwo",
     "layer { name: 'bn' type: 'BN' bottom: 'x' top: 'y' top: 'mean' top: 'variance' bn_param { " +
         kTwo + " } }"},
    {"BnOfTwoInference", Bn(kTwo + " bn_mode: INFERENCE")},
});

}  // namespace
}  // namespace millrace::test
