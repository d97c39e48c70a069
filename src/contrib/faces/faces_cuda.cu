#include "contrib/faces/distance_kernels.h"
#include "contrib/faces/margin_kernels.h"
#include "device/cuda_kernel.h"

namespace millrace::inline contrib {
namespace {

const RegisterCudaKernels<LossParts<CenterTerms>, CenterLossBackward, CenterGradient> center_loss;

const RegisterCudaKernels<InnerDistances, InnerDistanceOfExamples, InnerDistanceOfCenters>
    inner_distance;

const RegisterCudaKernels<LabelMarginForward<AddedMargin>, LabelMarginBackward<AddedMargin>,
                          LabelMarginForward<AngleMargin>, LabelMarginBackward<AngleMargin>>
    label_margin;

const RegisterCudaKernels<MarginForward, MarginBackward, MarginOfLength, MarginSumOfClass,
                          MarginOfWeights>
    margin_inner_product;

const RegisterCudaKernels<TripletGap, LossParts<TripletTerms>, TripletBackward> triplet_loss;

}  // namespace
}  // namespace millrace::inline contrib
