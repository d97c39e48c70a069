// The data set converters, with Caffe's names.
#include "data/convert.h"

#include <gflags/gflags.h>
#include <glog/logging.h>

#include "base/error.h"
#include "tools/command.h"

DEFINE_string(backend, "lmdb", "kind of database: lmdb");

namespace millrace {
namespace {

void CheckBackend() {
  if (FLAGS_backend != "lmdb") throw Error("--backend=", FLAGS_backend, ": expected lmdb");
}

int RunMnist(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 3, "an image file, a label file and the database to make");
  CheckBackend();
  ConvertMnist(arguments[0], arguments[1], arguments[2]);
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
  CheckBackend();
  ConvertCifar(arguments[0], arguments[1]);
  LOG(INFO) << "Made cifar10_train_lmdb and cifar10_test_lmdb in " << arguments[1];
  return 0;
}

int RunMean(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 2, "a database and the .binaryproto to write");
  CheckBackend();
  ComputeImageMean(arguments[0], arguments[1]);
  LOG(INFO) << "Wrote " << arguments[1];
  return 0;
}

const RegisterCommand mnist({"convert_mnist_data",
                             "IMAGES LABELS DATABASE",
                             "makes an LMDB of MNIST's idx files (also gzipped)",
                             {"backend"},
                             RunMnist});
const RegisterCommand cifar({"convert_cifar_data",
                             "INPUT_FOLDER OUTPUT_FOLDER",
                             "makes LMDBs of CIFAR-10's binary batches",
                             {"backend"},
                             RunCifar});
const RegisterCommand mean({"compute_image_mean",
                            "DATABASE OUTPUT",
                            "averages the images of an LMDB",
                            {"backend"},
                            RunMean});

}  // namespace
}  // namespace millrace
