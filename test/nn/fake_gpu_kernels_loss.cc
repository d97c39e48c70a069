// The fake device's kernels of losses and recurrent layers.
#include "contrib/detection/difference_loss_kernels.h"
#include "contrib/detection/focal_loss_kernels.h"
#include "contrib/faces/distance_kernels.h"
#include "contrib/faces/margin_kernels.h"
#include "contrib/segmentation/dice_loss_kernels.h"
#include "contrib/segmentation/seg_accuracy_kernels.h"
#include "nn/layers/inner_product/unit_rows_kernels.h"
#include "nn/layers/loss/class_loss_kernels.h"
#include "nn/layers/loss/difference_loss_kernels.h"
#include "nn/layers/recurrent/recurrent_kernels.h"
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
