// The commands that rewrite files of Caffe's earlier formats.
#include "proto/parse.h"
#include "proto/upgrade.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

const char kOld[] =
    "name: 'n'\n"
    "layers { layer { name: 'd' type: 'data' source: 's' batchsize: 2 } top: 'd' }\n"
    "layers { layer { name: 'p' type: 'padding' pad: 1 } bottom: 'd' top: 'p' }\n"
    "layers { layer { name: 'c' type: 'conv' num_output: 3 blobs { num: 1 data: 0.1 } }\n"
    "         bottom: 'p' top: 'c' }\n";
const char kToday[] =
    "name: 'n'\n"
    "layer { name: 'd' type: 'Data' top: 'd' data_param { source: 's' batch_size: 2 } }\n"
    "layer { name: 'c' type: 'Convolution' bottom: 'd' top: 'c' blobs { num: 1 data: 0.1 }\n"
    "        convolution_param { num_output: 3 pad: 1 } }\n";

class UpgradeCommand : public testing::Test {
 protected:
  TempDir work_;
  const std::string in_ = work_ / "in", out_ = work_ / "out";
};

caffe::NetParameter Net(const std::string& text) {
  caffe::NetParameter net;
  ParseText(text, "net", &net, nullptr);
  return net;
}

TEST_F(UpgradeCommand, ANetFileIsWrittenInTodaysFormat) {
  WriteFile(in_, kOld);
  const CommandResult result = Millrace({"upgrade_net_proto_text", in_, out_});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, in_ + ": upgraded V0 layers");
  EXPECT_CONTAINS(result.errors, "Wrote " + out_);
  EXPECT_EQ(Net(ReadFile(out_)).DebugString(), Net(kToday).DebugString());
  // Again: nothing changes.
  const CommandResult again = Millrace({"upgrade_net_proto_text", out_, in_});
  EXPECT_EQ(again.status, 0);
  EXPECT_CONTAINS(again.errors, out_ + ": is in today's format already");
  EXPECT_EQ(ReadFile(in_), ReadFile(out_));
}

TEST_F(UpgradeCommand, ABinaryModelIsWrittenInTodaysFormat) {
  SaveBinary(in_, Net(kOld));
  const CommandResult result = Millrace({"upgrade_net_proto_binary", in_, out_});
  EXPECT_EQ(result.status, 0) << result.errors;
  caffe::NetParameter net;
  LoadBinary(out_, "a net", &net);
  EXPECT_EQ(net.DebugString(), Net(kToday).DebugString());
}

TEST_F(UpgradeCommand, ASolverFileIsWrittenWithTheNameOfItsType) {
  WriteFile(in_, "net: 'n'\nsolver_type: ADAGRAD base_lr: 0.01\n");
  const CommandResult result = Millrace({"upgrade_solver_proto_text", in_, out_});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(ReadFile(out_), "base_lr: 0.01\nnet: \"n\"\ntype: \"AdaGrad\"\n");
  WriteFile(in_, "net: 'n'\nsolver_type: SGD type: 'SGD'");
  ExpectOneLine(Millrace({"upgrade_solver_proto_text", in_, out_}),
                {in_ + ":2: solver_type: SGD given beside type"});
}

TEST_F(UpgradeCommand, WhatIsDroppedIsTold) {
  WriteFile(in_, "layers {\n  layer { name: 'r' type: 'relu' num_output: 2 } }");
  const CommandResult result = Millrace({"upgrade_net_proto_text", in_, out_});
  EXPECT_EQ(result.status, 1);
  EXPECT_CONTAINS(result.errors, in_ + ":2: layer 'r': num_output: a layer of type 'relu'");
  EXPECT_EQ(ReadFile(out_), "layer {\n  name: \"r\"\n  type: \"ReLU\"\n}\n");
}

TEST_F(UpgradeCommand, ErrorsAreOneLineAndLeaveNoFile) {
  WriteFile(in_, "layer { name: 'a' }\nlayers { name: 'b' }");
  ExpectOneLine(Millrace({"upgrade_net_proto_text", in_, out_}),
                {in_ + ":2: layers: the net has `layers`"});
  ExpectOneLine(Millrace({"upgrade_net_proto_text", in_}),
                {"1 arguments given, expected the file"});
  ExpectOneLine(Millrace({"upgrade_net_proto_binary", in_, out_}),
                {in_ + ": truncated or not a net in binary form"});
  ExpectOneLine(Millrace({"upgrade_solver_proto_text", in_, out_}),
                {in_ + ": is a NetParameter, expected a SolverParameter"});
  ExpectOneLine(Millrace({"upgrade_net_proto_text", work_ / "none", out_}), {"none: No such file"});
  EXPECT_FALSE(FileExists(out_));
}

}  // namespace
}  // namespace millrace::test
