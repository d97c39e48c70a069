// Losses, and layers over time.
#include "test/nn/gpu_cases.h"

namespace millrace::test {
namespace {

std::string InputText(const std::string& top, const std::string& dims) {
  return "layer { name: 'input of " + top + "' type: 'Input' top: '" + top +
         "' input_param { shape { " + dims + " } } }\n";
}

// A layer 'loss' of this type with these bottoms, and a loss weight other than 1.
std::string LossText(const std::string& type, const std::string& bottoms,
                     const std::string& param = "", const std::string& tops = "top: 'l'") {
  return "layer { name: 'loss' type: '" + type + "' " + bottoms + " " + tops + " " + param +
         (tops == "top: 'l'" ? " loss_weight: 0.7 }\n" : " loss_weight: 0.7 loss_weight: 0 }\n");
}

std::string RecurrentText(const std::string& type, const std::string& bottoms,
                          const std::string& param = "", const std::string& tops = "top: 'y'") {
  return "layer { name: 'r' type: '" + type + "' bottom: 'x' " + bottoms + " " + tops +
         " recurrent_param { num_output: 4 " + param +
         " weight_filler { type: 'uniform' min: -0.3 max: 0.3 }"
         " bias_filler { type: 'uniform' } } }\n";
}

const std::string kTarget = InputText("t", "dim: 4 dim: 6 dim: 7 dim: 9");
const std::string kTargets = InputText("label_t", "dim: 4 dim: 6 dim: 7 dim: 9");
const std::string kPair = "bottom: 'x' bottom: 't'";
const std::string kLabels = InputText("labels", "dim: 4 dim: 1 dim: 7 dim: 9");
// 1 throughout, so that the state passes from step to step and from pass to pass.
const std::string kCont =
    "layer { name: 'cont' type: 'DummyData' top: 'cont' dummy_data_param {"
    " shape { dim: 5 dim: 3 } data_filler { value: 1 } } }\n";
// 0 where a stream begins; other numbers scale the state.
const std::string kRandomCont = InputText("label_cont", "dim: 5 dim: 3");
const std::string kStatic = InputText("s", "dim: 3 dim: 2");

const RegisterGpuCases cases({
    {"EuclideanLoss", kTarget + LossText("EuclideanLoss", kPair)},
    {"EuclideanLossOfManyValues",
     InputText("t", "dim: 30 dim: 1000") + LossText("EuclideanLoss", kPair), "30 1000"},
    {"SigmoidCrossEntropyLoss", kTarget + LossText("SigmoidCrossEntropyLoss", kPair)},
    {"SigmoidCrossEntropyLossOfValid",
     kTargets + LossText("SigmoidCrossEntropyLoss", "bottom: 'x' bottom: 'label_t'",
                         "loss_param { ignore_label: 2 normalization: VALID }")},
    {"HingeLoss", LossText("HingeLoss", "bottom: 'x' bottom: 'label'")},
    {"SquaredHingeLoss",
     LossText("HingeLoss", "bottom: 'x' bottom: 'label'", "hinge_loss_param { norm: L2 }")},
    {"ContrastiveLoss",
     InputText("t", "dim: 6 dim: 3") + LossText("ContrastiveLoss", kPair + " bottom: 'label'",
                                                "contrastive_loss_param { margin: 3 }"),
     "6 3"},
    {"LegacyContrastiveLoss",
     InputText("t", "dim: 6 dim: 3") +
         LossText("ContrastiveLoss", kPair + " bottom: 'label'",
                  "contrastive_loss_param { margin: 5 legacy_version: true }"),
     "6 3"},
    {"InfogainLoss", InputText("h", "dim: 6 dim: 6") + kLabels +
                         LossText("InfogainLoss", "bottom: 'x' bottom: 'labels' bottom: 'h'",
                                  "loss_param { ignore_label: 2 }", "top: 'l' top: 'p'")},
    {"MultinomialLogisticLoss",
     LayerText("Softmax", "") + LossText("MultinomialLogisticLoss", "bottom: 'y' bottom: 'label'"),
     "4 6"},
    {"SmoothL1Loss", kTarget + LossText("SmoothL1Loss", kPair)},
    {"SmoothL1LossWithWeights", kTarget + InputText("in", "dim: 4 dim: 6 dim: 7 dim: 9") +
                                    InputText("out", "dim: 4 dim: 6 dim: 7 dim: 9") +
                                    LossText("SmoothL1Loss", kPair + " bottom: 'in' bottom: 'out'",
                                             "smooth_l1_loss_param { sigma: 2 }")},
    {"SmoothL1LossWithInsideWeights", kTarget + InputText("in", "dim: 4 dim: 6 dim: 7 dim: 9") +
                                          LossText("SmoothL1Loss", kPair + " bottom: 'in'")},
    {"SmoothL1LossOhem", kTarget + InputText("in", "dim: 4 dim: 6 dim: 7 dim: 9") +
                             LossText("SmoothL1LossOHEM", kPair + " bottom: 'in'",
                                      "loss_param { normalization: PRE_FIXED "
                                      "pre_fixed_normalizer: 9 }",
                                      "top: 'l' top: 'each'")},
    {"CenterLoss",
     LossText("CenterLoss", "bottom: 'x' bottom: 'label'",
              "center_loss_param { num_output: 5 center_filler { type: 'gaussian' } }")},
    {"FocalLoss", kLabels + LossText("FocalLoss", "bottom: 'x' bottom: 'labels'",
                                     "loss_param { ignore_label: 2 }", "top: 'l' top: 'p'")},
    {"DiceLoss", kTargets + LossText("DiceLoss", "bottom: 'x' bottom: 'label_t'",
                                     "loss_param { ignore_label: 3 }")},
    {"Parameter",
     "layer { name: 'p' type: 'Parameter' top: 'p' param { name: 'p' }"
     "  parameter_param { shape { dim: 4 dim: 6 dim: 7 dim: 9 } } }"
     "layer { name: 'q' type: 'Parameter' top: 'q' param { name: 'p' }"
     "  parameter_param { shape { dim: 4 dim: 6 dim: 7 dim: 9 } } }" +
         LossText("EuclideanLoss", "bottom: 'x' bottom: 'p'") +
         "layer { name: 'loss2' type: 'EuclideanLoss' bottom: 'q' bottom: 'x' top: 'l2' }"},
    {"L1Loss", kTarget + LossText("L1Loss", kPair)},
    {"TripletLoss",
     kTarget + InputText("u", "dim: 4 dim: 6 dim: 7 dim: 9") +
         LossText("TripletLoss", kPair + " bottom: 'u'", "triplet_loss_param { margin: 9 }")},
    {"MarginInnerProduct",
     "layer { name: 'margin' type: 'MarginInnerProduct' bottom: 'x' bottom: 'label' top: 'y'"
     "  top: 'lambda' margin_inner_product_param { num_output: 5 type: QUADRUPLE base: 2 gamma: 0.5"
     "  lambda_min: 0.25 weight_filler { type: 'gaussian' } } }"
     "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'l' }",
     "6 3"},
    {"InnerDistance",
     "layer { name: 'd' type: 'InnerDistance' bottom: 'x' top: 'y' inner_distance_param {"
     "  num_output: 5 weight_filler { type: 'gaussian' } } }",
     "6 3"},
    {"InnerDistanceOfMagnitudes",
     "layer { name: 'd' type: 'InnerDistance' bottom: 'x' top: 'y' inner_distance_param {"
     "  num_output: 5 distance_type: 'L1' normalize: true weight_filler { type: 'gaussian' } } }",
     "6 200"},
    {"InnerDistanceOfLabels",
     InputText("c", "dim: 5 dim: 3") +
         "layer { name: 'd' type: 'InnerDistance' bottom: 'x' bottom: 'c' bottom: 'label' top: 'y'"
         "  inner_distance_param { update_center_only: true } }",
     "6 3"},
    {"LabelSpecificAdd",
     "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'c' inner_product_param {"
     "  num_output: 5 normalize: true bias_term: false weight_filler { type: 'gaussian' } } }"
     "layer { name: 'm' type: 'LabelSpecificAdd' bottom: 'c' bottom: 'label' top: 'c' top: 'bias'"
     "  label_specific_add_param { bias_base: -0.125 bias_gamma: 0.5 bias_power: -1 bias_min: -1 } "
     "}"
     "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'c' bottom: 'label' top: 'l' }",
     "6 3"},
    {"CosinAddm",
     "layer { name: 'n' type: 'TanH' bottom: 'x' top: 'c' }"
     "layer { name: 'm' type: 'CosinAddm' bottom: 'c' bottom: 'label' top: 'y' }"
     "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'l' }",
     "6 5"},
    {"SegAccuracy",
     kLabels +
         "layer { name: 'acc' type: 'SegAccuracy' bottom: 'x' bottom: 'labels' top: 'acc'"
         "  seg_accuracy_param { ignore_label: 2 ignore_label: 255 } }"
         "layer { name: 'acc2' type: 'SegAccuracy' bottom: 'x' bottom: 'labels' top: 'acc2'"
         "  seg_accuracy_param { reset: false } }" +
         LossText("SoftmaxWithLoss", "bottom: 'x' bottom: 'labels'")},
    {"LstmUnit",
     InputText("c", "dim: 1 dim: 3 dim: 4") + InputText("label_cont", "dim: 1 dim: 3") +
         "layer { name: 'u' type: 'LSTMUnit' bottom: 'c' bottom: 'x' bottom: 'label_cont'"
         "  top: 'c2' top: 'h2' }" +
         LossText("EuclideanLoss", "bottom: 'c2' bottom: 'h2'"),
     "1 3 16"},
    {"Lstm", kCont + RecurrentText("LSTM", "bottom: 'cont'"), "5 3 4"},
    {"LstmWithStaticInput", kCont + kStatic + RecurrentText("LSTM", "bottom: 'cont' bottom: 's'"),
     "5 3 4"},
    {"LstmWithExposedState",
     kCont + InputText("h", "dim: 1 dim: 3 dim: 4") + InputText("c", "dim: 1 dim: 3 dim: 4") +
         RecurrentText("LSTM", "bottom: 'cont' bottom: 'h' bottom: 'c'", "expose_hidden: true",
                       "top: 'y' top: 'ht' top: 'ct'"),
     "5 3 4"},
    {"Rnn", kRandomCont + RecurrentText("RNN", "bottom: 'label_cont'"), "5 3 4"},
    {"RnnWithStaticInput", kCont + kStatic + RecurrentText("RNN", "bottom: 'cont' bottom: 's'"),
     "5 3 4"},
    {"RnnWithExposedState",
     kCont + InputText("h", "dim: 1 dim: 3 dim: 4") +
         RecurrentText("RNN", "bottom: 'cont' bottom: 'h'", "expose_hidden: true",
                       "top: 'y' top: 'ht'"),
     "5 3 4"},
});

}  // namespace
}  // namespace millrace::test
