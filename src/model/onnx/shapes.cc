// Layers that change shapes or the order of values.
#include <algorithm>

#include "model/onnx/layer_export.h"

namespace millrace::inline model::onnx_export {
namespace {

// Flatten, Reshape and the like: the same values with the top's shape.
void ExportReshape(LayerExport& layer) {
  layer.Finish(layer.Reshaped(layer.in(), layer.bottom(), layer.top()));
}

void ExportFlatten(LayerExport& layer) {
  const caffe::FlattenParameter& param = layer.param().flatten_param();
  const int last = static_cast<int>(layer.bottom().size()) - 1;
  if (layer.Axis(param.axis()) != 1 || layer.Axis(param.end_axis()) != last) {
    return ExportReshape(layer);
  }
  layer.Finish(layer.Op("Flatten", {layer.in()}, {{"axis", int64_t{1}}}));
}

void ExportPermute(LayerExport& layer) {
  const auto& given = layer.param().permute_param().order();
  std::vector<int64_t> order(given.begin(), given.end());
  for (int64_t axis = 0; axis < static_cast<int64_t>(layer.bottom().size()); ++axis) {
    if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
  }
  layer.Finish(layer.Op("Transpose", {layer.in()}, {{"perm", order}}));
}

void ExportShuffleChannel(LayerExport& layer) {
  const Shape& shape = layer.bottom();
  const int64_t group = layer.param().shuffle_channel_param().group();
  const int64_t plane = ShapeCount(Shape(shape.begin() + 2, shape.end()));
  const Shape grouped = {shape[0], group, shape[1] / group, plane};
  const Shape mixed = {shape[0], shape[1] / group, group, plane};
  const std::string groups = layer.Reshaped(layer.in(), shape, grouped);
  const std::string result =
      layer.Op("Transpose", {groups}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  layer.Finish(layer.Reshaped(result, mixed, shape));
}

void ExportCrop(LayerExport& layer) {
  const caffe::CropParameter& param = layer.param().crop_param();
  const int first = layer.Axis(param.axis());
  std::vector<int64_t> begin, end, axes;
  for (int axis = first; axis < static_cast<int>(layer.bottom().size()); ++axis) {
    const int index = param.offset_size() == 1 ? 0 : axis - first;
    axes.push_back(axis);
    begin.push_back(param.offset_size() == 0 ? 0 : param.offset(index));
    end.push_back(begin.back() + layer.top()[axis]);
  }
  layer.Finish(axes.empty() ? layer.in() : layer.Part(layer.in(), begin, end, axes));
}

void ExportTile(LayerExport& layer) {
  const caffe::TileParameter& param = layer.param().tile_param();
  std::vector<int64_t> repeats(layer.bottom().size(), 1);
  repeats[layer.Axis(param.axis())] = param.tiles();
  layer.Finish(layer.Op("Tile", {layer.in(), layer.Ints(repeats)}));
}

// To the size of the top. The second input, a region of interest, is not used.
std::string Resize(LayerExport& layer, const std::string& value, const Attributes& attributes) {
  return layer.Op("Resize", {value, "", "", layer.Ints(layer.top())}, attributes);
}

void ExportInterp(LayerExport& layer) {
  const caffe::InterpParameter& param = layer.param().interp_param();
  std::string part = layer.in();
  const Shape& shape = layer.bottom();
  if (param.pad_beg() != 0 || param.pad_end() != 0) {
    const int64_t begin = -param.pad_beg(), cut = param.pad_end();
    part = layer.Part(layer.in(), {begin, begin}, {shape[2] + cut, shape[3] + cut}, {2, 3});
  }
  layer.Finish(Resize(layer, part,
                      {{"mode", std::string("linear")},
                       {"coordinate_transformation_mode", std::string("align_corners")}}));
}

// Each value goes to the place that bottom 1 gives, in a plane of zeros.
void ExportUnpooling(LayerExport& layer) {
  const Shape& shape = layer.bottom();
  const Shape& top = layer.top();
  const Shape planes = {shape[0] * shape[1], shape[2] * shape[3]};
  const Shape zeros = {planes[0], top[2] * top[3]};
  const std::string places = layer.Op("Cast", {layer.Reshaped(layer.in(1), shape, planes)},
                                      {{"to", int64_t{onnx::TensorProto::INT64}}});
  const std::string background = layer.Op("Expand", {layer.Scalar(0), layer.Ints(zeros)});
  const std::string result =
      layer.Op("ScatterElements", {background, places, layer.Reshaped(layer.in(0), shape, planes)},
               {{"axis", int64_t{1}}});
  layer.Finish(layer.Reshaped(result, zeros, top));
}

void ExportUpsample(LayerExport& layer) {
  if (layer.bottoms() > 1) return ExportUnpooling(layer);
  layer.Finish(Resize(layer, layer.in(),
                      {{"mode", std::string("nearest")},
                       {"nearest_mode", std::string("floor")},
                       {"coordinate_transformation_mode", std::string("asymmetric")}}));
}

}  // namespace

void AddShapes(ExportTable* table) {
  table->insert({{"Crop", ExportCrop},
                 {"Flatten", ExportFlatten},
                 {"Interp", ExportInterp},
                 {"Permute", ExportPermute},
                 {"Reshape", ExportReshape},
                 {"ShuffleChannel", ExportShuffleChannel},
                 {"Tile", ExportTile},
                 {"Upsample", ExportUpsample}});
}

}  // namespace millrace::inline model::onnx_export
