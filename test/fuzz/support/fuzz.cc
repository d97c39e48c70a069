#include "test/fuzz/support/fuzz.h"

#include <glog/logging.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "base/rng.h"

namespace {

void Mutate(std::string* input, const std::vector<std::string>& corpus, millrace::Rng* rng) {
  const int changes = 1 + static_cast<int>(rng->Below(8));
  for (int i = 0; i < changes; ++i) {
    const size_t at = input->empty() ? 0 : rng->Below(input->size());
    switch (rng->Below(7)) {
      case 0:  // flip a bit
        if (!input->empty()) (*input)[at] ^= static_cast<char>(1 << rng->Below(8));
        break;
      case 1:  // set a byte, often an extreme one
        if (!input->empty()) (*input)[at] = "\x00\xff\x7f\x80\x01{}:"[rng->Below(8)];
        break;
      case 2:
        input->insert(at, 1, static_cast<char>(rng->Next()));
        break;
      case 3:
        input->resize(at);
        break;
      case 4:
        if (!input->empty()) input->erase(at, 1 + rng->Below(16));
        break;
      case 5: {  // copy a piece of another seed
        const std::string& other = corpus[rng->Below(corpus.size())];
        const size_t from = other.empty() ? 0 : rng->Below(other.size());
        input->insert(at, other.substr(from, rng->Below(64)));
        break;
      }
      case 6:  // a random byte
        if (!input->empty()) (*input)[at] = static_cast<char>(rng->Next());
        break;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t runs = 20000, seed = 1;
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], "--runs=", 7) == 0) runs = strtoull(argv[i] + 7, nullptr, 10);
    if (strncmp(argv[i], "--seed=", 7) != 0) continue;
    const char* const text = argv[i] + 7;
    seed = strcmp(text, "random") == 0 ? std::random_device()() : strtoull(text, nullptr, 10);
  }
  FLAGS_logtostderr = true;
  FLAGS_minloglevel = google::GLOG_FATAL;
  google::InitGoogleLogging(argv[0]);
  printf("seed %llu\n", static_cast<unsigned long long>(seed));
  fflush(stdout);
  const std::vector<std::string> corpus = millrace::fuzz::Corpus();
  for (uint64_t run = 0; run < runs; ++run) {
    millrace::Rng rng(seed, {run});
    std::string input = corpus[rng.Below(corpus.size())];
    if (run >= corpus.size()) Mutate(&input, corpus, &rng);
    if (!millrace::fuzz::Target(input)) {
      printf("run %llu failed; input of %zu bytes\n", static_cast<unsigned long long>(run),
             input.size());
      return 1;
    }
  }
  printf("%llu runs, seed %llu\n", static_cast<unsigned long long>(runs),
         static_cast<unsigned long long>(seed));
  return 0;
}
