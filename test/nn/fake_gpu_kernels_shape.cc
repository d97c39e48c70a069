// Kernels of the layers that move and combine blobs, on the fake device.
#include "contrib/classification/channel_scale_kernels.h"
#include "contrib/segmentation/upsample_kernels.h"
#include "nn/layers/convolution/column_kernels.h"
#include "nn/layers/elementwise/eltwise_kernels.h"
#include "nn/layers/pooling/stochastic_pooling_kernels.h"
#include "nn/layers/shape/copy_kernels.h"
#include "nn/layers/shape/row_index_kernels.h"
#include "nn/layers/shape/tile_kernels.h"
#include "nn/layers/utility/argmax_kernels.h"
#include "nn/layers/utility/reduction_kernels.h"
#include "test/support/fake_gpu.h"

namespace millrace::test {
namespace {

const RegisterFakeKernels<
    CopyElements, CopyRows, CopyParts<float, true>, CopyParts<float, false>,
    CopyParts<ElementPack, true>, CopyParts<ElementPack, false>, EltwiseSum, EltwiseScale,
    EltwiseProduct, EltwiseQuotientGradient, EltwiseMaxOfTwo, EltwiseMaxOfNext, EltwiseMaxGradient,
    TileGradient, ReduceRows, ReductionGradient, LargestOfRows, GatherRows, LinkEqualRows,
    MarkFirstRows, AddGatheredRows, CountInvalidRows, AxpyOfChannels, AxpyFactorGradient,
    ScaleChannels, ChannelScaleGradient, ImageToColumns, ColumnsToImage, StochasticPoolDraw,
    StochasticPoolMean, StochasticPoolMeanGradient, UpsampleNearest, UpsampleNearestGradient,
    UpsampleByMask, UpsampleByMaskGradient, InterpForward, InterpGradient>
    kernels;

}  // namespace
}  // namespace millrace::test
