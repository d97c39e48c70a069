// Which layers of a net an ONNX graph needs, and what their values are called. Pure functions of
// the net.
#ifndef MILLRACE_MODEL_ONNX_VALUES_H_
#define MILLRACE_MODEL_ONNX_VALUES_H_

#include <string>
#include <vector>

#include "nn/net.h"

namespace millrace::inline model::onnx_export {

// What one layer wrote to one blob: a layer that works in place makes another value of its blob.
// Layers that pass values on unchanged (Split, Dropout) make none.
struct Value {
  std::string blob;
  int node = -1;           // of BuiltNet::nodes()
  int top = 0;             // of that node
  bool is_input = false;   // of the graph, if it is wanted
  bool is_output = false;  // of the graph
  bool is_wanted = false;  // an output depends on it
  bool is_label = false;   // made of labels only
  std::string name;        // wanted in the graph; not yet unique
};

struct NetValues {
  // A node of the net.
  struct Node {
    std::vector<int> bottom, top;  // indices in `values`
    bool is_wanted = false;        // to be exported
  };
  std::vector<Value> values;
  std::vector<Node> nodes;
};

// Data layers and Input layers make inputs. Losses, scores, and what only they need (labels) are
// not wanted. What no other layer reads is an output. An input has the name of its blob, and so
// have an output and the last value of a blob, if no input has it.
NetValues FindValues(const BuiltNet& net);

}  // namespace millrace::inline model::onnx_export

#endif  // MILLRACE_MODEL_ONNX_VALUES_H_
