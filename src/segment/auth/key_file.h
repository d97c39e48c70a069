// The secret that the nodes of a cluster share, and the keys made from it.
#ifndef MILLRACE_SEGMENT_AUTH_KEY_FILE_H_
#define MILLRACE_SEGMENT_AUTH_KEY_FILE_H_

#include <cstdint>
#include <string>

#include "base/node_id.h"
#include "segment/auth/nonce.h"
#include "segment/auth/openssl_mac.h"

namespace millrace {

// 32 raw bytes, or 64 hexadecimal digits that may end with a line break. Throws Error with
// one line that begins with `path` and holds nothing of the content: it cannot be read, is
// no regular file, is of another length, has something else than digits, or grants its
// group or others anything.
SecretKey ReadKeyFile(const std::string& path);

// Authenticates the handshake messages of a run.
SecretKey HandshakeKey(const SecretKey& cluster, uint64_t run);

// Authenticates the frames that a node sends in one life.
SecretKey SessionKey(const SecretKey& cluster, uint64_t run, NodeId node, const Nonce& session_id);

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_AUTH_KEY_FILE_H_
