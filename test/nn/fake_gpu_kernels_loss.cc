// The fake device's kernels of losses and recurrent layers.
#include "nn/layers/center_loss_kernels.h"
#include "nn/layers/contrastive_loss_kernels.h"
#include "nn/layers/dice_loss_kernels.h"
#include "nn/layers/euclidean_loss_kernels.h"
#include "nn/layers/focal_loss_kernels.h"
#include "nn/layers/hinge_loss_kernels.h"
#include "nn/layers/infogain_loss_kernels.h"
#include "nn/layers/inner_distance_kernels.h"
#include "nn/layers/l1_loss_kernels.h"
#include "nn/layers/label_margin_kernels.h"
#include "nn/layers/lstm_kernels.h"
#include "nn/layers/margin_inner_product_kernels.h"
#include "nn/layers/recurrent_kernels.h"
#include "nn/layers/seg_accuracy_kernels.h"
#include "nn/layers/sigmoid_cross_entropy_loss_kernels.h"
#include "nn/layers/smooth_l1_loss_kernels.h"
#include "nn/layers/triplet_loss_kernels.h"
#include "nn/layers/unit_rows_kernels.h"
#include "test/support/fake_gpu.h"

namespace millrace::test {
namespace {

const RegisterFakeKernels<
    LossOfParts, LossParts<CenterTerms>, CenterLossBackward, CenterGradient, PairDistances,
    LossParts<ContrastiveTerms>, ContrastiveBackward, LossParts<DiceTerms>, DiceOfParts,
    DiceBackward, LossParts<EuclideanTerms>, EuclideanBackward, LossParts<FocalTerms>,
    FocalBackward, LossParts<HingeTerms>, HingeBackward, LossParts<InfogainTerms>, InfogainRowSums,
    InfogainBackward, LossParts<MultinomialLogisticTerms>, MultinomialLogisticBackward,
    LossParts<SigmoidCrossEntropyTerms>, SigmoidCrossEntropyBackward, LossParts<SmoothL1Terms>,
    SmoothL1OfPlaces, DifferenceBackward<SmoothL1Terms>, LossParts<L1Terms>,
    DifferenceBackward<L1Terms>, TripletGap, LossParts<TripletTerms>, TripletBackward,
    MarginForward, MarginBackward, MarginOfLength, MarginSumOfClass, MarginOfWeights,
    PredictPositions, CountClasses, SegAccuracyOfCounts, InnerDistances, InnerDistanceOfExamples,
    InnerDistanceOfCenters, ScaleToUnit, UnitRowGradient, LabelMarginForward<AddedMargin>,
    LabelMarginBackward<AddedMargin>, LabelMarginForward<AngleMargin>,
    LabelMarginBackward<AngleMargin>, LstmForward, LstmBackward, ContinueState, TanhForward,
    TanhStepBackward>
    kernels;

}  // namespace
}  // namespace millrace::test
