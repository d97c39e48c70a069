// One layer of a net on its way into an ONNX graph.
#ifndef MILLRACE_MODEL_ONNX_LAYER_EXPORT_H_
#define MILLRACE_MODEL_ONNX_LAYER_EXPORT_H_

#include <map>
#include <string>
#include <vector>

#include "millrace/layer.h"
#include "model/onnx/graph.h"

namespace millrace::inline model::onnx_export {

// The constants made of learned arrays. Layers that share an array share the constant.
using SharedConstants = std::map<std::pair<const float*, std::string>, std::string>;

class LayerExport {
 public:
  // All references outlive the object. `inputs` and `outputs` are names of values of the graph.
  LayerExport(Graph* graph, SharedConstants* constants, Layer* layer, const Blobs& bottom,
              const Blobs& top, const Names& inputs, const Names& outputs)
      : graph_(*graph),
        constants_(*constants),
        layer_(*layer),
        bottom_(bottom),
        top_(top),
        inputs_(inputs),
        outputs_(outputs),
        first_(graph->operators()) {}

  const caffe::LayerParameter& param() const { return layer_.param(); }
  int bottoms() const { return static_cast<int>(bottom_.size()); }
  int tops() const { return static_cast<int>(top_.size()); }
  int params() const { return static_cast<int>(layer_.params().size()); }
  const Shape& bottom(int i = 0) const { return bottom_[i]->shape(); }
  const Shape& top(int i = 0) const { return top_[i]->shape(); }
  const Shape& param_shape(int i) const { return layer_.params()[i].blob->shape(); }
  // An axis that may be negative, of bottom 0.
  int Axis(int axis) const { return axis < 0 ? axis + static_cast<int>(bottom().size()) : axis; }

  const std::string& in(int i = 0) const { return inputs_[i]; }
  // Appends an operator with one output; returns the output.
  std::string Op(const std::string& op, const Names& inputs, const Attributes& attributes = {});
  // The same with several outputs.
  Names Ops(const std::string& op, const Names& inputs, int outputs,
            const Attributes& attributes = {});
  // Makes `value` the top.
  void Finish(const std::string& value, int top = 0);
  // Makes learned array `i` the top.
  void FinishConstant(int i);

  // ---- Constants ----
  std::string Scalar(float value) { return Floats({}, {value}); }
  std::string Floats(const Shape& shape, const std::vector<float>& values);
  std::string Ints(const std::vector<int64_t>& values);
  // Learned array `i` with another shape of the same number of values; its own by default.
  std::string Weights(int i) { return Weights(i, param_shape(i)); }
  std::string Weights(int i, const Shape& shape);
  std::vector<float> WeightValues(int i) const;

  // ---- Steps that several layers need ----
  // `value` of shape `from` with the shape `to`. An unchanged first axis keeps any size.
  std::string Reshaped(const std::string& value, const Shape& from, const Shape& to);
  // Planes with zeros around them: `rows` above and below, `columns` at the left and the right.
  std::string Padded(const std::string& planes, int64_t rows, int64_t columns);
  // The part of `value` from `begin` up to `end` along `axes`.
  std::string Part(const std::string& value, const std::vector<int64_t>& begin,
                   const std::vector<int64_t>& end, const std::vector<int64_t>& axes);
  // value * factor + shift, without the steps that change nothing.
  std::string Linear(const std::string& value, float factor, float shift);

 private:
  Graph& graph_;
  SharedConstants& constants_;
  Layer& layer_;
  const Blobs& bottom_;
  const Blobs& top_;
  const Names inputs_, outputs_;
  const int first_;  // of the layer's operators
};

// Appends what a layer computes. Throws FieldError for settings that ONNX has nothing for.
using ExportLayer = void (*)(LayerExport& layer);
// By layer type.
using ExportTable = std::map<std::string, ExportLayer>;

// Each adds the layers of its file.
void AddNeurons(ExportTable* table);
void AddConvolutions(ExportTable* table);
void AddPooling(ExportTable* table);
void AddNormalisations(ExportTable* table);
void AddCombinations(ExportTable* table);
void AddShapes(ExportTable* table);
void AddReductions(ExportTable* table);

}  // namespace millrace::inline model::onnx_export

#endif  // MILLRACE_MODEL_ONNX_LAYER_EXPORT_H_
