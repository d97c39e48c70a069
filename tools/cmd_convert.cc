// The data set converters, with Caffe's names.
#include "data/convert.h"

#include <gflags/gflags.h>
#include <glog/logging.h>

#include <thread>

#include "base/error.h"
#include "data/images/convert_images.h"
#include "tools/command.h"

DEFINE_string(backend, "lmdb", "kind of database: lmdb or leveldb; features also: hdf5");
DEFINE_bool(gray, false, "store one channel of grey instead of three of colour");
DEFINE_bool(shuffle, false, "store the images in a random order, of --seed");
DEFINE_uint64(seed, 1, "of --shuffle, of a simulation, or of random changes to served images");
DEFINE_int32(resize_width, 0, "resize images to this width, with --resize_height");
DEFINE_int32(resize_height, 0, "resize images to this height, with --resize_width");
DEFINE_bool(check_size, false, "fail unless all images have one size");
DEFINE_bool(encoded, false, "store image files instead of pixels");
DEFINE_string(encode_type, "", "the format of stored image files, jpg or png; implies --encoded");
DEFINE_bool(strict, false, "fail at an image that cannot be used, instead of skipping it");
DEFINE_int32(min_dim, 0, "enlarge images whose shorter side is shorter than this");
DEFINE_int32(max_dim, 0, "shrink images whose longer side is longer than this");
DEFINE_string(anno_type, "classification", "classification: a label per image; detection: boxes");
DEFINE_string(label_type, "xml", "the format of files with boxes: xml, json or txt");
DEFINE_string(label_map_file, "", "the file that gives classes their numbers");
DEFINE_bool(check_label, false, "fail if the label map gives a number twice");
DEFINE_int32(threads, 0, "threads that decode or compute; 0: one per core");

namespace millrace {
namespace {

int RunMnist(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 3, "an image file, a label file and the database to make");
  ConvertMnist(arguments[0], arguments[1], arguments[2], ParseDatabaseKind(FLAGS_backend));
  LOG(INFO) << "Made " << arguments[2];
  return 0;
}

int RunCifar(const std::vector<std::string>& arguments) {
  // Caffe's tool takes the kind of database as the third argument.
  if (arguments.size() == 3) {
    FLAGS_backend = arguments[2];
  } else {
    ExpectArguments(arguments, 2,
                    "the folder with the binary batches and the folder for the databases");
  }
  const DatabaseKind kind = ParseDatabaseKind(FLAGS_backend);
  ConvertCifar(arguments[0], arguments[1], kCifarRecordsPerFile, kind);
  LOG(INFO) << "Made cifar10_train_" << FLAGS_backend << " and cifar10_test_" << FLAGS_backend
            << " in " << arguments[1];
  return 0;
}

// The flags that both converters of image files take.
ConvertImagesOptions ImageOptions() {
  ConvertImagesOptions options;
  options.kind = ParseDatabaseKind(FLAGS_backend);
  options.gray = FLAGS_gray;
  options.shuffle = FLAGS_shuffle;
  options.seed = FLAGS_seed;
  options.resize_height = FLAGS_resize_height;
  options.resize_width = FLAGS_resize_width;
  options.check_size = FLAGS_check_size;
  options.encoded = FLAGS_encoded;
  options.encode_type = FLAGS_encode_type;
  options.strict = FLAGS_strict;
  if (FLAGS_threads < 0) throw Error("--threads=", FLAGS_threads, ": expected 0 or more");
  options.threads =
      FLAGS_threads > 0 ? FLAGS_threads : static_cast<int>(std::thread::hardware_concurrency());
  return options;
}

int Report(const std::string& database, const ConvertImagesResult& result) {
  LOG(INFO) << "Made " << database << " of " << result.converted << " images; skipped "
            << result.skipped;
  return 0;
}

int RunImages(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 3,
                  "the images' root folder, a list of images and labels, and the "
                  "database to make");
  return Report(arguments[2],
                ConvertImages(arguments[0], arguments[1], arguments[2], ImageOptions()));
}

int RunAnnotated(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 3,
                  "the files' root folder, a list of images and annotation files, and the "
                  "database to make");
  ConvertAnnotatedOptions options;
  options.images = ImageOptions();
  options.images.min_dim = FLAGS_min_dim;
  options.images.max_dim = FLAGS_max_dim;
  if (FLAGS_anno_type != "classification" && FLAGS_anno_type != "detection") {
    throw Error("--anno_type: '", FLAGS_anno_type, "', expected classification or detection");
  }
  options.detection = FLAGS_anno_type == "detection";
  options.label_type = FLAGS_label_type;
  options.label_map_file = FLAGS_label_map_file;
  options.check_label = FLAGS_check_label;
  return Report(arguments[2],
                FindAnnotatedConverter()(arguments[0], arguments[1], arguments[2], options));
}

int RunMean(const std::vector<std::string>& arguments) {
  // As in Caffe, the output may be missing: then only the means of the channels are logged.
  if (arguments.size() != 1)
    ExpectArguments(arguments, 2, "a database and the .binaryproto to write");
  ParseDatabaseKind(FLAGS_backend);  // what the folder holds decides
  const ImageMean mean = ComputeImageMean(arguments[0], arguments.size() > 1 ? arguments[1] : "");
  LOG(INFO) << "Processed " << mean.images << " images";
  for (size_t i = 0; i < mean.channels.size(); ++i) {
    LOG(INFO) << "mean_value channel [" << i << "]: " << mean.channels[i];
  }
  if (arguments.size() > 1) LOG(INFO) << "Wrote " << arguments[1];
  return 0;
}

const RegisterCommand mnist({"convert_mnist_data",
                             "IMAGES LABELS DATABASE",
                             "makes a database of MNIST's idx files (also gzipped)",
                             {"backend"},
                             RunMnist});
const RegisterCommand cifar({"convert_cifar_data",
                             "INPUT_FOLDER OUTPUT_FOLDER",
                             "makes databases of CIFAR-10's binary batches",
                             {"backend"},
                             RunCifar});
const RegisterCommand images({"convert_imageset",
                              "ROOT_FOLDER/ LIST DATABASE",
                              "makes a database of image files and labels",
                              {"backend", "gray", "shuffle", "seed", "resize_width",
                               "resize_height", "check_size", "encoded", "encode_type", "strict",
                               "threads"},
                              RunImages});
const RegisterCommand annotated({"convert_annoset",
                                 "ROOT_FOLDER/ LIST DATABASE",
                                 "makes a database of image files and boxes, as SSD's tool does",
                                 {"backend", "gray", "shuffle", "seed", "resize_width",
                                  "resize_height", "check_size", "encoded", "encode_type", "strict",
                                  "threads", "min_dim", "max_dim", "anno_type", "label_type",
                                  "label_map_file", "check_label"},
                                 RunAnnotated});
const RegisterCommand mean({"compute_image_mean",
                            "DATABASE [OUTPUT]",
                            "averages the images of a database",
                            {"backend"},
                            RunMean});

}  // namespace
}  // namespace millrace
