// Files with the secret that the nodes of a segment share.
#ifndef MILLRACE_TOPOLOGY_KEY_FILE_H_
#define MILLRACE_TOPOLOGY_KEY_FILE_H_

#include <cstddef>
#include <string>

namespace millrace {

inline constexpr size_t kLeastKeyBytes = 32;
inline constexpr size_t kMostKeyFileBytes = 4096;

// The key that a file's content is, of kLeastKeyBytes or more. Content of nothing but hex
// digits, and blanks or line breaks at its end, is read as hex; any other stands for
// itself, to the last byte. Throws Error beginning with `path`, which never holds any of
// the content.
std::string ParseKey(const std::string& content, const std::string& path);

// The key in a regular file that nobody but its owner may read or write. Throws Error.
std::string LoadKeyFile(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_KEY_FILE_H_
