// Layers that work on boxes.
#include "test/nn/box_rows.h"
#include "test/nn/gpu_cases.h"

namespace millrace::test {
namespace {

std::string InputText(const std::string& top, const std::string& dims) {
  return "layer { name: 'input of " + top + "' type: 'Input' top: '" + top +
         "' input_param { shape { " + dims + " } } }\n";
}

// Two images with an object each, and the priors of a map of 2 x 3 cells: 36 boxes.
const std::string kBoxes =
    RowText("t1", {0, 1, 0, 0.125, 0.125, 0.5, 0.625, 0}) +
    RowText("t2", {1, 2, 0, 0.375, 0.25, 0.875, 0.75, 1}) +
    "layer { name: 'truth' type: 'Concat' bottom: 't1' bottom: 't2' top: 'truth'"
    "  concat_param { axis: 2 } }\n" +
    InputText("map", "dim: 2 dim: 1 dim: 2 dim: 3") +
    "layer { name: 'prior' type: 'PriorBox' bottom: 'map' top: 'prior' prior_box_param {"
    "  min_size: 20 min_size: 40 max_size: 30 max_size: 50 aspect_ratio: 2 img_size: 60"
    "  variance: 0.1 } }\n";
// 2 * 3 * (2 * 3 + 2) priors.
const std::string kLocations = "2 192";

std::string LossText(const std::string& param) {
  return kBoxes + InputText("conf", "dim: 2 dim: 144") +
         "layer { name: 'loss' type: 'MultiBoxLoss' bottom: 'x' bottom: 'conf' bottom: 'prior'"
         "  bottom: 'truth' top: 'l' loss_weight: 0.7 multibox_loss_param { num_classes: 3 " +
         param + " } }\n";
}

std::string NormalizeText(const std::string& param) {
  return LayerText("Normalize",
                   "norm_param { scale_filler { type: 'uniform' min: 1 max: 2 } " + param + " }");
}

const RegisterGpuCases cases({
    {"NormalizeAcross", NormalizeText("")},
    {"NormalizeAcrossByChannel", NormalizeText("channel_shared: false")},
    {"NormalizePositions", NormalizeText("across_spatial: false")},
    {"NormalizePositionsByChannel", NormalizeText("across_spatial: false channel_shared: false")},
    {"MultiBoxLoss", LossText("code_type: CENTER_SIZE overlap_threshold: 0.3"), kLocations},
    {"MultiBoxLossOfAllPriors", LossText("mining_type: NONE conf_loss_type: LOGISTIC"), kLocations},
    // Sizes of images are constants; regions of the proposals are pooled.
    {"Proposal",
     RowText("image", {50, 70, 1}) +
         "layer { name: 'rows' type: 'Reshape' bottom: 'image' top: 'rows' reshape_param {"
         "  shape { dim: 1 dim: 3 } } }"
         "layer { name: 'two' type: 'Tile' bottom: 'rows' top: 'two' tile_param { axis: 0"
         "  tiles: 2 } }" +
         InputText("changes", "dim: 2 dim: 8 dim: 3 dim: 4") +
         "layer { name: 'rpn' type: 'Proposal' bottom: 'x' bottom: 'changes' bottom: 'two'"
         "  top: 'rois' top: 'scores of rois' proposal_param { ratio: 1 scale: 1 scale: 2"
         "    min_size: 4 pre_nms_topn: 20 post_nms_topn: 6 } }"
         "layer { name: 'pool' type: 'ROIAlign' bottom: 'x' bottom: 'rois' top: 'pooled'"
         "  roi_align_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.0625 } }"
         "layer { name: 'loss' type: 'Reduction' bottom: 'pooled' top: 'l' loss_weight: 0.7"
         "  reduction_param { operation: SUMSQ } }",
     "2 4 3 4"},
    {"DetectionOutput",
     LossText("mining_type: NONE") +
         "layer { name: 'found' type: 'DetectionOutput' bottom: 'x' bottom: 'conf' bottom: 'prior'"
         "  top: 'found' detection_output_param { num_classes: 3 keep_top_k: 20"
         "    confidence_threshold: 0.1 nms_param { nms_threshold: 0.45 top_k: 30 } } }"
         "layer { name: 'judged' type: 'DetectionEvaluate' bottom: 'found' bottom: 'truth'"
         "  top: 'judged' detection_evaluate_param { num_classes: 3 overlap_threshold: 0.3 } }",
     kLocations},
});

}  // namespace
}  // namespace millrace::test
