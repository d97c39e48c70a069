// Clusters of two and three nodes on this machine.
#ifndef MILLRACE_TEST_TRAIN_TWO_NODES_H_
#define MILLRACE_TEST_TRAIN_TWO_NODES_H_

#include <string>

#include "base/files/file.h"
#include "test/support/free_port.h"
#include "test/support/support.h"

namespace millrace::test {

// Writes a topology file with one segment into `folder` and returns its path. `nodes`: fields of
// the file, those of its nodes among them. `fields`: of the segment.
inline std::string WriteTopology(const std::string& folder, const std::string& nodes,
                                 const std::string& fields) {
  const std::string path = folder + "/topology.prototxt";
  WriteFile(path, StrCat("name: 'c' ", nodes, " segment { name: 's' transport: 'udp' port: ",
                         FreePort(), " ", fields, " }"));
  return path;
}

// The nodes a and b.
inline std::string TwoNodes(const std::string& folder, const std::string& fields = "") {
  return WriteTopology(folder,
                       "node { name: 'a' address: '127.0.0.1' } "
                       "node { name: 'b' address: '127.0.0.2' }",
                       fields);
}

// The nodes n1, n2 and n3. `run`: further fields of the file.
inline std::string ThreeNodes(const std::string& folder, const std::string& fields = "",
                              const std::string& run = "") {
  std::string nodes = run;
  for (int i = 1; i <= 3; ++i) {
    nodes += StrCat(" node { name: 'n", i, "' address: '127.0.0.", i, "' }");
  }
  return WriteTopology(folder, nodes, fields);
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TRAIN_TWO_NODES_H_
