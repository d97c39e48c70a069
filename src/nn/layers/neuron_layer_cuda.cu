// The kernels of all formulas.
#include "device/cuda_kernel.h"
#include "nn/layers/neuron_formulas.h"
#include "nn/layers/neuron_kernels.h"

namespace millrace::inline nn {
namespace {

template <typename... Formulas>
struct RegisterFormulas {
  RegisterCudaKernels<NeuronForward<Formulas>..., NeuronBackward<Formulas>...> kernels{};
};

const RegisterFormulas<SigmoidFormula, TanhFormula, EluFormula, SeluFormula, SwishFormula,
                       ClipFormula, Relu6Formula, AbsFormula, ConstantFormula, LinearFormula,
                       SquareFormula, PowerFormula, ExpFormula, LogFormula, BnllFormula,
                       ThresholdFormula>
    registered;

}  // namespace
}  // namespace millrace::inline nn
