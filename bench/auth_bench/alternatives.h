// Ways to authenticate a frame that were not taken, so that the choice can be measured
// again: each makes a tag of 16 bytes over a header and a payload, under a key of its own
// and with a nonce that no two frames share where the algorithm needs one.
#ifndef MILLRACE_BENCH_AUTH_BENCH_ALTERNATIVES_H_
#define MILLRACE_BENCH_AUTH_BENCH_ALTERNATIVES_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace auth_bench {

class Alternative {
 public:
  explicit Alternative(std::string name) : name_(std::move(name)) {}
  virtual ~Alternative() = default;
  const std::string& name() const { return name_; }
  virtual void Tag(std::span<const std::byte> header, std::span<const std::byte> payload,
                   std::byte* tag) = 0;

 private:
  std::string name_;
};

// Those that this machine can run.
std::vector<std::unique_ptr<Alternative>> Alternatives();

}  // namespace auth_bench

#endif  // MILLRACE_BENCH_AUTH_BENCH_ALTERNATIVES_H_
