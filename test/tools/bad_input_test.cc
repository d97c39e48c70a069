// Every invalid file gives one line that names it, exit status 1, and no partial output.
#include <algorithm>
#include <filesystem>

#include "data/lmdb_database.h"
#include "proto/parse.h"
#include "test/support/encode_images.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class BadInput : public testing::Test {
 protected:
  CommandResult Train(const std::string& solver, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"train", "--solver=" + solver});
    return Millrace(more);
  }
  CommandResult Train(const caffe::SolverParameter& solver, std::vector<std::string> more = {}) {
    return Train(work_.Write("run", solver), std::move(more));
  }
  // Trains with the solver's text in "run.prototxt", where `from` is replaced by `to`.
  CommandResult TrainEdited(const std::string& from, const std::string& to) {
    const std::string path = work_.Write("run", Workspace::Tested(Workspace::Solver(2), 2));
    Edit(path, from, to);
    return Train(path);
  }
  CommandResult TrainNetEdited(const std::string& from, const std::string& to) {
    Edit(work_ / "net.prototxt", from, to);
    return Train(Workspace::Tested(Workspace::Solver(2), 2));
  }
  static void Edit(const std::string& path, const std::string& from, const std::string& to) {
    std::string text = ReadFile(path);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << text;
    WriteFile(path, text.replace(at, from.size(), to));
  }
  // "net.prototxt:LINE: " of the first line that contains `text`.
  std::string NetLine(const std::string& text) const {
    const std::string net = ReadFile(work_ / "net.prototxt");
    const size_t at = net.find(text);
    EXPECT_NE(at, std::string::npos) << text;
    return StrCat("net.prototxt:", 1 + std::count(net.begin(), net.begin() + at, '\n'), ":");
  }
  void TearDown() override { EXPECT_TRUE(work_.FilesWith("run_iter").empty()); }

  Workspace work_;
};

// ---- Text files ----

TEST_F(BadInput, SolverFileMissingEmptyTruncatedOrSomethingElse) {
  ExpectOneLine(Train(work_ / "none.prototxt"), {"none.prototxt: No such file"});
  ExpectOneLine(Train(work_ / "train_lmdb"), {"train_lmdb: Is a directory"});
  WriteFile(work_ / "empty", "");
  ExpectOneLine(Train(work_ / "empty"), {"empty: is empty, expected a SolverParameter"});
  WriteFile(work_ / "cut", "net: 'x'\nbase_lr");
  ExpectOneLine(Train(work_ / "cut"), {"cut:2:"});
  WriteFile(work_ / "binary", std::string("\x7f"
                                          "ELF\x02\x01\x00\x00\x01\xff",
                                          10));
  ExpectOneLine(Train(work_ / "binary"), {"binary: is a binary file"});
  ExpectOneLine(Train(work_ / "net.prototxt"),
                {"net.prototxt: is a NetParameter, expected a SolverParameter"});
}

TEST_F(BadInput, NetFileMissingEmptyTruncatedOrSomethingElse) {
  caffe::SolverParameter solver = Workspace::Solver(2);
  solver.set_net(work_ / "none.prototxt");
  ExpectOneLine(Train(solver), {"run.prototxt:", "net: ", "none.prototxt: No such file"});
  work_.WriteNet(std::string(" \n"));
  ExpectOneLine(Train(Workspace::Solver(2)), {"net.prototxt: is empty, expected a NetParameter"});
  work_.WriteNet(std::string("layer {\n  name: 'x'\n"));
  ExpectOneLine(Train(Workspace::Solver(2)), {"net.prototxt:3:"});
  work_.WriteNet(std::string("base_lr: 1\n"));
  ExpectOneLine(Train(Workspace::Solver(2)),
                {"net.prototxt: is a SolverParameter, expected a NetParameter"});
  for (const char* command : {"time", "test"}) {
    std::vector<std::string> arguments = {command, "--model=" + work_ / "none.prototxt"};
    if (std::string(command) == "test") arguments.push_back("--weights=w");
    ExpectOneLine(Millrace(arguments), {"none.prototxt: No such file"});
  }
}

TEST_F(BadInput, MisspeltSolverFieldsAndValues) {
  ExpectOneLine(TrainEdited("base_lr:", "base_rl:"), {"run.prototxt:", "base_rl"});
  ExpectOneLine(TrainEdited("max_iter: 2", "max_iter: two"), {"run.prototxt:", "two"});
  ExpectOneLine(TrainEdited("\"fixed\"", "\"fixd\""),
                {"run.prototxt:", "lr_policy", "fixd", "fixed"});
  ExpectOneLine(TrainEdited("max_iter: 2", "max_iter: 2 iter_size: 0"), {"iter_size", "0", ">= 1"});
  ExpectOneLine(TrainEdited("lr_policy: \"fixed\"", ""), {"lr_policy", "missing"});
  ExpectOneLine(TrainEdited("momentum: 0.9", "momentum: 0.9 type: 'Adamm'"), {"type", "Adamm"});
  ExpectOneLine(TrainEdited("test_iter: 2", "test_iter: 2 average_loss: 0"),
                {"average_loss", "0", ">= 1"});
  ExpectOneLine(TrainEdited("test_iter: 2", "snapshot_format: XML"), {"snapshot_format", "XML"});
}

TEST_F(BadInput, TopologyOfOneNodeWithoutASegment) {
  WriteFile(work_ / "one.prototxt", "name: 'one'\nnode { name: 'a' }\n");
  const std::string topology = "--topology=" + (work_ / "one.prototxt");
  ExpectOneLine(Train(Workspace::Solver(2), {topology}),
                {"one.prototxt: segment: missing, expected at least one"});
  ExpectOneLine(Millrace({"bench", topology}), {"one.prototxt"});
}

TEST_F(BadInput, MisspeltLayerField) {
  const std::string place = NetLine("num_output: 16");
  ExpectOneLine(TrainNetEdited("num_output: 16", "num_outputs: 16"),
                {place.substr(0, place.size() - 1), "num_outputs"});
}

TEST_F(BadInput, UnknownLayerType) {
  const std::string place = NetLine("'relu'");
  ExpectOneLine(TrainNetEdited("'ReLU'", "'RELU'"),
                {place, "layer 'relu': type: there is no layer type 'RELU'", "ReLU"});
}

TEST_F(BadInput, UnknownBottom) {
  const std::string place = NetLine("'relu'");
  ExpectOneLine(TrainNetEdited("bottom: 'hidden'", "bottom: 'hiden'"),
                {place, "layer 'relu': bottom[0]: there is no blob 'hiden'"});
}

TEST_F(BadInput, ShapesThatDoNotFit) {
  work_.WriteNet(work_.Net().Text() +
                 "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'\n"
                 "  convolution_param { num_output: 2 kernel_size: 9 } }\n");
  ExpectOneLine(Train(Workspace::Solver(2)),
                {NetLine("'conv'").substr(0, 13), "layer 'conv'", "9"});
}

// ---- Databases and means ----

TEST_F(BadInput, DatabaseMissingEmptyTruncatedOrSomethingElse) {
  const auto train_on = [&](const std::string& source) {
    SmallNet net = work_.Net();
    net.train_sources = {source};
    work_.WriteNet(net);
    return Train(Workspace::Solver(2));
  };
  const std::string place = NetLine("data_param { source");
  const std::vector<std::string> named = {place, "layer 'images': data_param.source[0]"};
  const auto with = [&](std::vector<std::string> parts) {
    parts.insert(parts.end(), named.begin(), named.end());
    return parts;
  };
  ExpectOneLine(train_on(work_ / "none_lmdb"), with({"none_lmdb"}));
  EXPECT_FALSE(FileExists(work_ / "none_lmdb"));
  MakeDirectories(work_ / "folder");
  ExpectOneLine(train_on(work_ / "folder"), with({"folder"}));
  EXPECT_FALSE(FileExists(work_ / "folder/data.mdb"));
  WriteFile(work_ / "folder/data.mdb", "");
  ExpectOneLine(train_on(work_ / "folder"), with({"folder"}));
  WriteFile(work_ / "folder/data.mdb", std::string(9000, 'x'));
  ExpectOneLine(train_on(work_ / "folder"), with({"folder"}));
  const std::string whole = ReadFile(work_ / "train_lmdb/data.mdb");
  for (size_t bytes : {size_t{100}, size_t{4096}, size_t{8192}, whole.size() / 2}) {
    WriteFile(work_ / "folder/data.mdb", whole.substr(0, bytes));
    ExpectOneLine(train_on(work_ / "folder"), with({"folder"}));
  }
}

// The run ends and keeps its snapshots.
TEST(BadInputInUse, ADatabaseTruncatedWhileItIsTrainedOn) {
  for (const char* fields : {"", "shuffle: true"}) {
    for (const int64_t left : {int64_t{0}, int64_t{20'001}}) {
      const Workspace work;
      SmallNet net = work.Net();
      net.data_fields = fields;
      work.WriteNet(net);
      caffe::SolverParameter solver = Workspace::Solver(1'000'000'000);
      solver.set_snapshot(100);
      Process process(Command({"train", "--solver=" + work.Write("run", solver), "--cpu=2"}));
      ASSERT_TRUE(WaitForLog(process, "Snapshotting solver state"));
      const std::string file = work / "train_lmdb/data.mdb";
      ASSERT_EQ(truncate(file.c_str(), left), 0);
      ExpectOneLine(process.Wait(), {StrCat(work / "train_lmdb",
                                            ": data.mdb was truncated while it was in use: ", left,
                                            " bytes, expected at least ")});
      EXPECT_FALSE(work.FilesWith("run_iter_100.solverstate").empty());
      EXPECT_FALSE(work.FilesWith("run_iter_100.caffemodel").empty());
    }
  }
}

TEST_F(BadInput, BackendOfAnotherDatabase) {
  ExpectOneLine(TrainNetEdited("backend: LMDB", "backend: LEVELDB"),
                {"layer 'images': data_param.backend", "LEVELDB", "LMDB"});
}

TEST_F(BadInput, MeanFileMissingEmptyTruncatedOrOfAnotherShape) {
  const auto train_with = [&](const std::string& mean) {
    std::string text = work_.Net().Text();
    const std::string value = "mean_value: 128";
    text.replace(text.find(value), value.size(), "mean_file: '" + mean + "'");
    work_.WriteNet(text);
    return Train(Workspace::Solver(2));
  };
  const std::string field = "layer 'images': transform_param.mean_file";
  ExpectOneLine(train_with(work_ / "none.mean"), {field, "none.mean: No such file"});
  WriteFile(work_ / "empty.mean", "");
  ExpectOneLine(train_with(work_ / "empty.mean"), {field, "empty.mean: is empty"});
  ASSERT_EQ(Millrace({"compute_image_mean", work_ / "train_lmdb", work_ / "mean"}).status, 0);
  const std::string whole = ReadFile(work_ / "mean");
  WriteFile(work_ / "cut.mean", whole.substr(0, whole.size() - 7));
  ExpectOneLine(train_with(work_ / "cut.mean"), {field, "cut.mean: truncated or not a mean"});
  WriteFile(work_ / "text.mean", "channels: 1");
  ExpectOneLine(train_with(work_ / "text.mean"), {field, "text.mean"});
  caffe::BlobProto mean;
  mean.ParseFromString(whole);
  mean.set_width(4);
  mean.set_height(16);
  SaveBinary(work_ / "other.mean", mean);
  ExpectOneLine(train_with(work_ / "other.mean"), {field, "1 x 16 x 4", "1 x 8 x 8"});
}

TEST_F(BadInput, AnEncodedImageThatIsDamagedUnknownOrOfAnotherSize) {
  const auto datum = [](const std::string& file) {
    caffe::Datum datum;
    datum.set_label(1);
    datum.set_encoded(true);
    datum.set_data(file);
    return datum.SerializeAsString();
  };
  const auto png = [](int size) { return EncodePng(SmoothPixels(1, size, size), {0}); };
  const std::string jpeg = EncodeJpeg(SmoothPixels(1, 8, 8));
  const std::pair<std::string, std::string> cases[] = {
      {jpeg.substr(0, jpeg.find("\xff\xda")), "is a damaged JPEG: "},
      {"RIFF....WEBP", "is a WebP file"},
      {png(9), "is 1 x 9 x 9, expected 1 x 8 x 8 like the first record"}};
  for (size_t i = 0; i < std::size(cases); ++i) {
    const std::string path = work_ / StrCat("encoded", i);
    LmdbWriter writer(path);
    for (int record = 0; record < 40; ++record) {
      const std::string file = record == 25 ? cases[i].first : record % 2 ? jpeg : png(8);
      writer.Add(StrCat("0", 10 + record, "_image.jpg"), datum(file));
    }
    writer.Commit();
    SmallNet net = work_.Net();
    net.train_sources = {path};
    work_.WriteNet(net);
    ExpectOneLine(Train(Workspace::Solver(50)),
                  {path + ": record '035_image.jpg': " + cases[i].second});
    ExpectOneLine(Millrace({"compute_image_mean", path, work_ / "mean"}),
                  {path + ": record '035_image.jpg': " + cases[i].second});
  }
}

TEST_F(BadInput, ALabelOutsideTheClasses) {
  Images images;
  images.first_label = 9;
  images.WriteDatabase(work_ / "odd_lmdb");
  SmallNet net = work_.Net();
  net.train_sources = {work_ / "odd_lmdb"};
  work_.WriteNet(net);
  for (const char* cpu : {"--cpu=1", "--cpu=3"}) {
    ExpectOneLine(Train(Workspace::Solver(50), {cpu}), {"layer 'loss'", "label 9", "4"});
  }
}

TEST_F(BadInput, ALossThatIsNotFinite) {
  caffe::SolverParameter solver = Workspace::Solver(1000);
  solver.set_base_lr(1e25f);
  for (const char* cpu : {"--cpu=1", "--cpu=3"}) {
    ExpectOneLine(Train(solver, {cpu}), {"iteration ", "the loss is not finite", "layer '"});
  }
}

// ---- Converters ----

TEST_F(BadInput, ConvertersRefuseWhatIsNoDataSetAndLeaveNoDatabase) {
  Images images;
  images.WriteIdx(work_ / "images", work_ / "labels");
  const auto convert = [&](const std::string& image_file, const std::string& label_file) {
    return Millrace({"convert_mnist_data", work_ / image_file, work_ / label_file, work_ / "out"});
  };
  ExpectOneLine(convert("none", "labels"), {"none: No such file"});
  ExpectOneLine(convert("labels", "labels"), {"labels: is not an IDX file of images"});
  ExpectOneLine(convert("images", "images"), {"images: is not an IDX file of labels"});
  const std::string whole = ReadFile(work_ / "images");
  WriteFile(work_ / "cut", whole.substr(0, whole.size() - 1));
  ExpectOneLine(convert("cut", "labels"), {"cut: is truncated"});
  WriteFile(work_ / "empty", "");
  ExpectOneLine(convert("empty", "labels"), {"empty"});
  EXPECT_TRUE(work_.FilesWith("out").empty());
  ExpectOneLine(Millrace({"compute_image_mean", work_ / "none_lmdb", work_ / "out"}),
                {"none_lmdb"});
  EXPECT_TRUE(work_.FilesWith("out").empty());
}

// ---- Errors do not abort ----

TEST_F(BadInput, NoErrorComesWithAStackTrace) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"train", "--solver=" + work_ / "none"},
           {"time", "--model=" + work_ / "train_lmdb/data.mdb"},
           {"test", "--model=" + work_ / "net.prototxt", "--weights=" + work_ / "net.prototxt"}}) {
    const CommandResult result = Millrace(arguments);
    EXPECT_EQ(result.status, 1) << result.errors;
    for (const char* sign : {"*** ", "terminate", "Check failed", "libprotobuf", "    @ "}) {
      EXPECT_EQ(result.errors.find(sign), std::string::npos) << result.errors;
    }
  }
}

}  // namespace
}  // namespace millrace::test
