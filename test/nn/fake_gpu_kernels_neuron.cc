// The kernels of element-wise and normalising layers on the fake device.
#include "contrib/classification/insanity_kernels.h"
#include "contrib/classification/neuron_kernels.h"
#include "nn/layers/activation/neuron_kernels.h"
#include "nn/layers/elementwise/scale_kernels.h"
#include "nn/layers/norm/normalize_kernels.h"
#include "nn/layers/norm/normalize_scale_kernels.h"
#include "nn/layers/write_number_kernels.h"
#include "test/support/fake_gpu.h"

namespace millrace::test {
namespace {

template <typename... Formulas>
struct RegisterFormulas {
  RegisterFakeKernels<NeuronForward<Formulas>..., NeuronBackward<Formulas>...> kernels{};
};

const RegisterFormulas<SigmoidFormula, TanhFormula, EluFormula, SeluFormula, SwishFormula,
                       ClipFormula, Relu6Formula, AbsFormula, ConstantFormula, LinearFormula,
                       SquareFormula, PowerFormula, ExpFormula, LogFormula, BnllFormula,
                       ThresholdFormula>
    formulas;
const RegisterFakeKernels<
    MapOfChannels<ScaleForward<false, false>>, MapOfChannels<ScaleForward<false, true>>,
    MapOfChannels<ScaleForward<true, false>>, MapOfChannels<ScaleForward<true, true>>,
    MapOfChannels<ScaleBackward>, SumsOfChannels<ScaleGradients>, MapOfChannels<PreluForward>,
    MapOfChannels<PreluBackward>, SumsOfChannels<PreluGradient>, SumsOfChannels<MeanOfChannels>,
    SumsOfChannels<DeviationOfChannels>, SumsOfChannels<VarianceOfChannels>,
    SumsOfChannels<NormalizeSums>, MapOfChannels<NormalizeForward<false>>,
    MapOfChannels<NormalizeForward<true>>, MapOfChannels<NormalizeBackward>,
    MapOfChannels<CenterBackward>, MapOfChannels<GlobalNormalizeBackward>, StatisticsOfSums,
    AverageInto, RandomlyDivideNegatives, WriteNumber<float>, WriteNumber<uint64_t>>
    channels;
const RegisterFakeKernels<
    MapOfChannels<NormalizeScaleForward<false, false>>,
    MapOfChannels<NormalizeScaleForward<false, true>>,
    MapOfChannels<NormalizeScaleForward<true, false>>,
    MapOfChannels<NormalizeScaleForward<true, true>>, SumsOfChannels<NormalizeScaleSums<false>>,
    SumsOfChannels<NormalizeScaleSums<true>>, MapOfChannels<NormalizeScaleBackward<false, false>>,
    MapOfChannels<NormalizeScaleBackward<false, true>>,
    MapOfChannels<NormalizeScaleBackward<true, false>>,
    MapOfChannels<NormalizeScaleBackward<true, true>>>
    normalize_scale;

}  // namespace
}  // namespace millrace::test
