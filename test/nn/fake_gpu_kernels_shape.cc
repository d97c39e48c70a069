// Kernels of the layers that move and combine blobs, on the fake device.
#include "nn/layers/argmax_kernels.h"
#include "nn/layers/axpy_kernels.h"
#include "nn/layers/channel_scale_kernels.h"
#include "nn/layers/column_kernels.h"
#include "nn/layers/eltwise_kernels.h"
#include "nn/layers/interp_kernels.h"
#include "nn/layers/part_copy_kernels.h"
#include "nn/layers/reduction_kernels.h"
#include "nn/layers/row_index_kernels.h"
#include "nn/layers/stochastic_pooling_kernels.h"
#include "nn/layers/strided_copy_kernels.h"
#include "nn/layers/tile_kernels.h"
#include "nn/layers/upsample_kernels.h"
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
