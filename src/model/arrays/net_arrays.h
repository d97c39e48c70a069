// The parameters of nets as named arrays. Parameter K of a layer is the array LAYER.K; of a layer
// with at most two parameters, also LAYER.weight and LAYER.bias, as PyTorch names them.
#ifndef MILLRACE_MODEL_ARRAYS_NET_ARRAYS_H_
#define MILLRACE_MODEL_ARRAYS_NET_ARRAYS_H_

#include <string>
#include <vector>

#include "model/arrays/array_file.h"
#include "nn/net.h"

namespace millrace::inline model {

enum class ArrayNames {
  kNumbers,  // LAYER.0, LAYER.1
  kTorch,    // LAYER.weight, LAYER.bias, where that is possible
};

// Whether the file holds named arrays, and not a .caffemodel: by its first bytes, or a name that
// ends in .onnx. Throws Error if it cannot be read.
bool IsArrayFile(const std::string& path);

// The parameters of a .caffemodel, or of `net` for messages about the file `path`, with `type` for
// numbers. Throw Error naming `path` if two layers with parameters have one name.
std::vector<NamedArray> ArraysOfModel(const std::string& path, ArrayNames names, ElementType type);
std::vector<NamedArray> ArraysOfNet(const BuiltNet& net, const std::string& path, ArrayNames names,
                                    ElementType type);

// Sets all parameters of `net`, on the host and with its weights bound, from the arrays of the file
// `path`. A `/` in the name of a layer may be a `.` there. In an ONNX model the names may also be
// those that WriteOnnx gives, axes of length 1 may be missing or added, and constants that are no
// parameter of the net are left out, with a line in the log. Throws Error in one line that names
// all parameters without an array, all arrays without a parameter, or the first array of another
// shape; the weights are then undefined.
void SetWeights(const std::vector<NamedArray>& arrays, const std::string& path, BuiltNet* net);

// Writes a .caffemodel, in HDF5 if `path` ends in .h5. Throws Error naming the file.
void WriteCaffemodel(const BuiltNet& net, const std::string& path);

// Converts arrays of floating-point numbers to `type`.
void ConvertFloats(ElementType type, std::vector<NamedArray>* arrays);

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_ARRAYS_NET_ARRAYS_H_
