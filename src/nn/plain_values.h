// Copies of blobs on the host, in row-major order whatever the blob's memory order.
#ifndef MILLRACE_NN_PLAIN_VALUES_H_
#define MILLRACE_NN_PLAIN_VALUES_H_

#include <vector>

#include "millrace/blob.h"

namespace millrace::inline nn {

// The caller waits for queues that use the blob.
std::vector<float> PlainData(const Blob& blob);
std::vector<float> PlainDiff(const Blob& blob);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_PLAIN_VALUES_H_
