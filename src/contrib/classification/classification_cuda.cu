#include "contrib/classification/channel_scale_kernels.h"
#include "contrib/classification/insanity_kernels.h"
#include "contrib/classification/neuron_kernels.h"
#include "contrib/classification/spatial_transformer_kernels.h"
#include "device/cuda_kernel.h"

namespace millrace::inline contrib {
namespace {

const RegisterCudaKernels<AxpyOfChannels, AxpyFactorGradient> axpy;

const RegisterCudaKernels<ScaleChannels, ChannelScaleGradient> channel_scale;

const RegisterCudaKernels<RandomlyDivideNegatives> insanity;

const RegisterCudaKernels<NeuronForward<Relu6Formula>, NeuronBackward<Relu6Formula>,
                          NeuronForward<SeluFormula>, NeuronBackward<SeluFormula>>
    neuron;

const RegisterCudaKernels<TransformerForward, TransformerGather, TransformerOfTheta>
    spatial_transformer;

}  // namespace
}  // namespace millrace::inline contrib
