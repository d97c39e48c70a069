#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "proto/parse.h"
#include "proto/upgrade.h"

namespace millrace::inline proto {
namespace {

using caffe::LayerParameter;

// Along an axis, place x of a blob is the centre of what it was computed from, at scale * x + shift
// of another blob.
struct AxisMap {
  double scale = 1, shift = 0;
};
using PlaneMap = std::array<AxisMap, 2>;  // height, width

// `inner` first.
PlaneMap Composed(const PlaneMap& outer, const PlaneMap& inner) {
  PlaneMap map;
  for (int axis : {0, 1}) {
    map[axis].scale = outer[axis].scale * inner[axis].scale;
    map[axis].shift = outer[axis].scale * inner[axis].shift + outer[axis].shift;
  }
  return map;
}

AxisMap WindowMap(double kernel, double stride, double pad, double dilation) {
  return {stride, dilation * (kernel - 1) / 2 - pad};
}

// The value of a field that is given once, once per axis, or by a pair of _h and _w fields.
double OfAxis(const google::protobuf::RepeatedField<uint32_t>& values, bool has_pair, uint32_t h,
              uint32_t w, int axis, double default_value) {
  if (has_pair) return axis == 0 ? h : w;
  if (values.empty()) return default_value;
  return values.Get(values.size() > 1 ? axis : 0);
}

PlaneMap MapOfConvolution(const caffe::ConvolutionParameter& p) {
  PlaneMap map;
  for (int axis : {0, 1}) {
    map[axis] =
        WindowMap(OfAxis(p.kernel_size(), p.has_kernel_h(), p.kernel_h(), p.kernel_w(), axis, 1),
                  OfAxis(p.stride(), p.has_stride_h(), p.stride_h(), p.stride_w(), axis, 1),
                  OfAxis(p.pad(), p.has_pad_h(), p.pad_h(), p.pad_w(), axis, 0),
                  OfAxis(p.dilation(), false, 0, 0, axis, 1));
  }
  return map;
}

PlaneMap MapOfPooling(const caffe::PoolingParameter& p) {
  return {WindowMap(p.has_kernel_h() ? p.kernel_h() : p.kernel_size(),
                    p.has_stride_h() ? p.stride_h() : p.stride(),
                    p.has_pad_h() ? p.pad_h() : p.pad(), 1),
          WindowMap(p.has_kernel_w() ? p.kernel_w() : p.kernel_size(),
                    p.has_stride_w() ? p.stride_w() : p.stride(),
                    p.has_pad_w() ? p.pad_w() : p.pad(), 1)};
}

PlaneMap Inverse(const PlaneMap& map) {
  PlaneMap inverse;
  for (int axis : {0, 1}) inverse[axis] = {1 / map[axis].scale, -map[axis].shift / map[axis].scale};
  return inverse;
}

// From places of a top of `layer` to places of its first bottom; none if they do not correspond.
std::optional<PlaneMap> MapOf(const LayerParameter& layer) {
  static const std::set<std::string> same_places = {
      "AbsVal", "BatchNorm", "Bias",    "BNLL",  "Concat", "Dropout",  "Eltwise", "ELU",
      "Exp",    "Log",       "LRN",     "MVN",   "Power",  "PReLU",    "ReLU",    "Scale",
      "Slice",  "Sigmoid",   "Softmax", "Split", "TanH",   "Threshold"};
  if (same_places.count(layer.type())) return PlaneMap();
  if (layer.type() == "Convolution") return MapOfConvolution(layer.convolution_param());
  if (layer.type() == "Deconvolution") return Inverse(MapOfConvolution(layer.convolution_param()));
  if (layer.type() == "Pooling" && !layer.pooling_param().global_pooling()) {
    return MapOfPooling(layer.pooling_param());
  }
  if (layer.type() != "Crop") return std::nullopt;
  const auto& offsets = layer.crop_param().offset();
  PlaneMap map;
  for (int axis : {0, 1}) map[axis].shift = OfAxis(offsets, false, 0, 0, axis, 0);
  return map;
}

// Where places of a blob lie in the blob that it comes from by layers whose places correspond.
struct Origin {
  std::string blob;
  PlaneMap map;
};
using Origins = std::map<std::string, Origin>;

Origin OriginOf(const Origins& origins, const std::string& blob) {
  const auto found = origins.find(blob);
  return found == origins.end() ? Origin{blob, {}} : found->second;
}

void SetOffsets(const Origins& origins, const std::string& field, LayerParameter* crop) {
  if (crop->bottom_size() != 2) {
    throw FieldError(field, crop->bottom_size(), " bottoms given, expected 2");
  }
  const Origin from = OriginOf(origins, crop->bottom(0)), over = OriginOf(origins, crop->bottom(1));
  if (from.blob != over.blob) {
    throw FieldError(field,
                     "the offset of a CROP layer follows from a blob that both bottoms come ",
                     "from, but '", crop->bottom(0), "' comes from '", from.blob, "' and '",
                     crop->bottom(1), "' from '", over.blob, "'");
  }
  for (int axis : {0, 1}) {
    const AxisMap &a = from.map[axis], &b = over.map[axis];
    const double offset = std::round((b.shift - a.shift) / a.scale);
    if (std::abs(a.scale - b.scale) > 1e-6 * std::abs(b.scale) || !(offset >= 0)) {
      throw FieldError(field, "'", crop->bottom(0), "' cannot be cropped to '", crop->bottom(1),
                       "': its places are ", a.scale, " apart in '", from.blob, "' and begin at ",
                       a.shift, ", those of the other ", b.scale, " and at ", b.shift);
    }
    crop->mutable_crop_param()->add_offset(static_cast<uint32_t>(offset));
  }
}

}  // namespace

void SetCropOffsets(const std::set<int>& crops, caffe::NetParameter* net) {
  if (crops.empty()) return;
  Origins origins;
  for (int i = 0; i < net->layer_size(); ++i) {
    LayerParameter* const layer = net->mutable_layer(i);
    if (crops.count(i)) SetOffsets(origins, StrCat("layers[", i, "]"), layer);
    const std::optional<PlaneMap> map = MapOf(*layer);
    for (const std::string& top : layer->top()) {
      if (!map || layer->bottom_size() == 0) {
        origins.erase(top);
      } else {
        const Origin below = OriginOf(origins, layer->bottom(0));
        origins[top] = {below.blob, Composed(below.map, *map)};
      }
    }
  }
}

}  // namespace millrace::inline proto
