// The stream of batches that a layer's parameters describe, for each type of layer that has one:
//
//   Data        databases and registered sources; in order or shuffled
//   AnnotatedData  as Data, of AnnotatedDatums (data/annotated)
//   ImageData   the images of a list file; in order or shuffled
//   DenseImageData  the pairs of images of a list file; in order or shuffled
//   ImageSegData  the images and labels of a list file; in order or shuffled
//   WindowData  windows of a window file; background and object windows drawn at random
//   HDF5Data    the rows of HDF5 files; in order, or files and rows shuffled
#ifndef MILLRACE_DATA_STREAM_OPTIONS_H_
#define MILLRACE_DATA_STREAM_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/batch_stream.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

struct LayerStream {
  BatchStreamOptions options;  // without shard, seed, stream and errors
  std::string source_field;    // for errors in the sources
  // Whether the layer's shuffle is a field of Caffe, which shuffles each layer on its own.
  bool shuffles_as_caffe = true;
  // Whether a sampler may choose the order of the records.
  bool any_order = false;
  // The label of every record of a source; null: records do not have one label each. May read all
  // of the source. Throws Error.
  std::function<std::vector<int32_t>(DataSource* source)> labels = nullptr;
  std::vector<int32_t> read_labels = {};  // of all records, in the order of the stream's numbers
};

// Checks the fields and opens the sources. Throws FieldError.
LayerStream OpenLayerStream(const caffe::LayerParameter& layer);

// The examples per batch of such a layer; not checked.
uint32_t BatchSizeOf(const caffe::LayerParameter& layer);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_STREAM_OPTIONS_H_
