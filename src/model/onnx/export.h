// Nets as ONNX models (Open Neural Network Exchange, https://onnx.ai): the operators of opset 13,
// which runtimes since 2020 know.
#ifndef MILLRACE_MODEL_ONNX_EXPORT_H_
#define MILLRACE_MODEL_ONNX_EXPORT_H_

#include <onnx/onnx_pb.h>

#include <string>

#include "nn/net.h"

namespace millrace::inline model::onnx_export {

// The model computes what `net` computes in a test, on inputs of the same shapes. `net`: on the
// host, in plain memory order, its weights bound. Throws Error with one line that names all layers
// which ONNX has nothing for.
onnx::ModelProto ModelOf(const BuiltNet& net);

// Writes that model atomically. Throws Error naming the file.
void WriteOnnx(const BuiltNet& net, const std::string& path);

}  // namespace millrace::inline model::onnx_export

#endif  // MILLRACE_MODEL_ONNX_EXPORT_H_
