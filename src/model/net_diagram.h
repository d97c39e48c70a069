// Pictures of nets, drawn by Graphviz.
#ifndef MILLRACE_MODEL_NET_DIAGRAM_H_
#define MILLRACE_MODEL_NET_DIAGRAM_H_

#include <string>

#include "nn/net.h"
#include "proto/parse.h"

namespace millrace::inline model {

// Where the data flows: as Graphviz's attribute rankdir.
enum class DiagramDirection { kDown, kRight, kUp, kLeft };
// "TB", "LR", "BT" or "RL". Throws Error naming the flag.
DiagramDirection ParseDiagramDirection(const std::string& rankdir);

// The input of Graphviz's dot. Each layer is a box with its name, type, settings and number of
// weights, and below these the blobs that it writes, with their shapes; an arrow leads from a blob
// to each layer that reads it. A layer that works in place on a blob which no layer has read before
// is a row in the box of the layer that wrote the blob.
//
// `param`: in any of Caffe's formats; `state` chooses its layers. `net`: built from it in that
// state; null if the net could not be built, and then the picture has no shapes and no numbers of
// weights. Throws Error as SelectLayers (nn/net_param.h).
std::string NetDiagram(const caffe::NetParameter& param, const SourceMap& source,
                       const caffe::NetState& state, const BuiltNet* net,
                       DiagramDirection direction);

// Writes the picture to `path`: an SVG, PNG or PDF file, or `dot` itself, as the end of the name
// says. Throws Error if the name has another ending, before dot runs, and as Draw
// (base/drawing_program.h).
void DrawNetDiagram(const std::string& dot, const std::string& path);
// Throws that Error.
void CheckDiagramPath(const std::string& path);

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_NET_DIAGRAM_H_
