// A program with the messages of Caffe and those of Millrace: both read the net file of its
// argument.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "caffe.pb.h"
#include "millrace/caffe.pb.h"
#include "millrace/error.h"
#include "millrace/net.h"

namespace {

template <typename NetParameter>
bool ReadAndPrint(const std::string& text, NetParameter* net) {
  if (!google::protobuf::TextFormat::ParseFromString(text, net)) return false;
  std::printf("%s: net %s, %d layers, file %s\n", net->GetTypeName().c_str(), net->name().c_str(),
              net->layer_size(), net->GetDescriptor()->file()->name().c_str());
  return google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
             net->GetTypeName()) == net->GetDescriptor();
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 2) return 2;
  std::ostringstream text;
  text << std::ifstream(arguments[1]).rdbuf();
  caffe::NetParameter theirs;
  millrace::caffe::NetParameter ours;
  if (!ReadAndPrint(text.str(), &theirs) || !ReadAndPrint(text.str(), &ours)) return 1;
  // The bytes of both are the same format.
  if (theirs.SerializeAsString() != ours.SerializeAsString()) return 1;
  const auto net = millrace::Net::Open(arguments[1]);
  std::printf("millrace::Net: %zu arrays of weights\n", net->arrays().size());
  return 0;
} catch (const millrace::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
