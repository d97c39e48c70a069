#include "device/cuda_kernel.h"
#include "nn/layers/loss/class_loss_kernels.h"
#include "nn/layers/loss/difference_loss_kernels.h"
#include "nn/layers/loss/loss_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<LossOfParts> loss;

const RegisterCudaKernels<PairDistances, LossParts<ContrastiveTerms>, ContrastiveBackward>
    contrastive_loss;

const RegisterCudaKernels<LossParts<EuclideanTerms>, EuclideanBackward> euclidean_loss;

const RegisterCudaKernels<LossParts<HingeTerms>, HingeBackward> hinge_loss;

const RegisterCudaKernels<LossParts<InfogainTerms>, InfogainRowSums, InfogainBackward>
    infogain_loss;

const RegisterCudaKernels<LossParts<MultinomialLogisticTerms>, MultinomialLogisticBackward>
    multinomial_logistic_loss;

const RegisterCudaKernels<LossParts<SigmoidCrossEntropyTerms>, SigmoidCrossEntropyBackward>
    sigmoid_cross_entropy_loss;

}  // namespace
}  // namespace millrace::inline nn
