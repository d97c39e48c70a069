// An ONNX graph that grows operator by operator.
#ifndef MILLRACE_MODEL_ONNX_GRAPH_H_
#define MILLRACE_MODEL_ONNX_GRAPH_H_

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "millrace/blob.h"

namespace millrace::inline model::onnx_export {

struct Attribute {
  std::string name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>> value;
};
using Attributes = std::vector<Attribute>;
using Names = std::vector<std::string>;

class Graph {
 public:
  // `proto` outlives the object.
  explicit Graph(onnx::GraphProto* proto) : proto_(*proto) {}

  // A name that no value and no operator of the graph has: `wanted`, or that with a number.
  std::string NewName(const std::string& wanted);

  // Appends an operator. Its name and the names of its outputs come from NewName.
  Names Add(const std::string& op, const std::string& name, const Names& inputs,
            const Names& outputs, const Attributes& attributes = {});
  int operators() const { return proto_.node_size(); }
  // Gives the value `from`, which one of the operators from number `first` on writes, the name
  // `to`, from NewName, there and in these operators' inputs. Returns false if none of them writes
  // it.
  bool Rename(int first, const std::string& from, const std::string& to);

  // Constants. `name` is one of NewName.
  void AddFloats(const std::string& name, const Shape& shape, const std::vector<float>& values);
  void AddInts(const std::string& name, const std::vector<int64_t>& values);  // one axis

  void AddInput(const std::string& name, const Shape& shape);
  void AddOutput(const std::string& name, const Shape& shape);
  bool has_output() const { return proto_.output_size() > 0; }

 private:
  onnx::GraphProto& proto_;
  std::set<std::string> names_;
};

}  // namespace millrace::inline model::onnx_export

#endif  // MILLRACE_MODEL_ONNX_GRAPH_H_
