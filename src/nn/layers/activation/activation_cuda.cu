#include "device/cuda_kernel.h"
#include "nn/layers/activation/dropout_kernels.h"
#include "nn/layers/activation/neuron_kernels.h"
#include "nn/layers/activation/relu_kernels.h"
#include "nn/layers/activation/softmax_kernels.h"

namespace millrace::inline nn {
namespace {

const RegisterCudaKernels<DropoutMask> dropout;

template <typename... Formulas>
struct RegisterFormulas {
  RegisterCudaKernels<NeuronForward<Formulas>..., NeuronBackward<Formulas>...> kernels{};
};

const RegisterFormulas<SigmoidFormula, TanhFormula, EluFormula, SwishFormula, ClipFormula,
                       AbsFormula, ConstantFormula, LinearFormula, SquareFormula, PowerFormula,
                       ExpFormula, LogFormula, BnllFormula, ThresholdFormula>
    neuron;

const RegisterCudaKernels<ReluForward, ReluBackward> relu;

const RegisterCudaKernels<SoftmaxForward, SoftmaxBackward, LossOfPositions, RightPositions,
                          MeanOfPositions, MeanOfClasses, SoftmaxLossBackward>
    softmax;

}  // namespace
}  // namespace millrace::inline nn
