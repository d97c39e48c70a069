// Reading net files.
#ifndef MILLRACE_NN_NET_TEXT_H_
#define MILLRACE_NN_NET_TEXT_H_

#include <string>

#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline nn {

// As LoadText and ParseText. If the net has fields that no message has, the error also names the
// layer types that this build lacks, in any phase: a user sees at once what of a net of another
// program is not supported.
void LoadNet(const std::string& path, caffe::NetParameter* net, SourceMap* source);
void ParseNet(const std::string& text, const std::string& name, caffe::NetParameter* net,
              SourceMap* source);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_NET_TEXT_H_
