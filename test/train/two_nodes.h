// A cluster of two nodes on this machine.
#ifndef MILLRACE_TEST_TRAIN_TWO_NODES_H_
#define MILLRACE_TEST_TRAIN_TWO_NODES_H_

#include <string>

#include "base/files/file.h"
#include "test/support/free_port.h"
#include "test/support/support.h"

namespace millrace::test {

// Writes a topology file of the nodes a and b into `folder` and returns its path. `fields`: of the
// segment.
inline std::string TwoNodes(const std::string& folder, const std::string& fields = "") {
  const std::string path = folder + "/topology.prototxt";
  WriteFile(path,
            StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' }",
                   " node { name: 'b' address: '127.0.0.2' }",
                   " segment { name: 's' transport: 'udp' port: ", FreePort(), " ", fields, " }"));
  return path;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TRAIN_TWO_NODES_H_
