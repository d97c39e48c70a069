// What most files of the model, the nets, the data and the training include, compiled once by the
// Makefile (PCH). Files include what they use all the same: `make PCH=off` builds without this.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/caffe.pb.h"
