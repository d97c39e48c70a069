// The secret that the nodes of a cluster share, and the keys derived from it.
#ifndef MILLRACE_SEGMENT_AUTH_KEY_FILE_H_
#define MILLRACE_SEGMENT_AUTH_KEY_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/node_id.h"
#include "segment/auth/nonce.h"
#include "segment/auth/openssl_mac.h"

namespace millrace::inline segment {

// Reads 32 raw bytes, or 64 hexadecimal digits with an optional line break. Throws Error with one
// line that begins with `path` and reveals nothing of the content, if the file cannot be read, is
// not a regular file, has another length or other characters, or grants any permission to group or
// others.
SecretKey ReadKeyFile(const std::string& path);

// A key of 32 raw bytes or 64 hexadecimal digits in memory; `name` stands for the file in errors.
SecretKey ParseKey(std::string_view content, const std::string& name);

// Key of the handshake messages of a run.
SecretKey HandshakeKey(const SecretKey& cluster, uint64_t run);

// Key of the frames that a node sends in one session.
SecretKey SessionKey(const SecretKey& cluster, uint64_t run, NodeId node, const Nonce& session_id);

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_AUTH_KEY_FILE_H_
