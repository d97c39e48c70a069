// The Python that has other programs to compare with.
#ifndef MILLRACE_TEST_SUPPORT_PEER_PYTHON_H_
#define MILLRACE_TEST_SUPPORT_PEER_PYTHON_H_

#include <string>

#include "base/files/file.h"
#include "test/support/support.h"

namespace millrace::test {

// That of build/peers, an environment with packages of PyPI (docs/building.md), if it exists, else
// the system's.
inline std::string PeerPython() {
  const std::string own = Dirname(Binary()) + "peers/bin/python";
  return FileExists(own) ? own : "/usr/bin/python3";
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_PEER_PYTHON_H_
