#include "test/support/support.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/files/file.h"

namespace millrace::test {
namespace {

uint64_t seed = 0;

std::string Slurp(const std::string& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace

uint64_t Seed() { return seed; }

uint64_t ChooseSeed(const char* argument) {
  const char* text = argument ? argument : std::getenv("MILLRACE_TEST_SEED");
  if (!text || *text == 0) return 1;
  if (strcmp(text, "random") == 0) return std::random_device()();
  char* end = nullptr;
  const uint64_t number = strtoull(text, &end, 10);
  if (*end != 0) throw Error("seed '", text, "': expected a number or 'random'");
  return number;
}

TempDir::TempDir() {
  char name[] = "/tmp/millrace_test_XXXXXX";
  if (!mkdtemp(name)) abort();
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

void LeaveTemporary(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(path);
    file.Write("half");
    raise(SIGKILL);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
}

Process::Process(const std::vector<std::string>& arguments)
    : output_path_(folder_ / "stdout"), errors_path_(folder_ / "stderr") {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;
  const int out = open(output_path_.c_str(), O_WRONLY | O_CREAT, 0600);
  const int err = open(errors_path_.c_str(), O_WRONLY | O_CREAT, 0600);
  const int in = open("/dev/null", O_RDONLY);
  dup2(in, 0), dup2(out, 1), dup2(err, 2);
  execv(argv[0], argv.data());
  _exit(127);
}

Process::~Process() {
  if (pid_ > 0) Wait(0);
  if (killed_pid_ < 0) return;
  std::error_code ignored;
  std::filesystem::remove("/dev/shm/millrace_counters." + std::to_string(killed_pid_), ignored);
}

void Process::Signal(int signal) { kill(pid_, signal); }

CommandResult Process::Wait(double timeout_seconds) {
  CommandResult result;
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) killed_pid_ = pid_;
  pid_ = -1;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.output = Slurp(output_path_);
  result.errors = Slurp(errors_path_);
  return result;
}

std::string Process::ErrorsSoFar() const { return Slurp(errors_path_); }

CommandResult Run(const std::vector<std::string>& arguments, double timeout_seconds) {
  return Process(arguments).Wait(timeout_seconds);
}

std::string Binary() {
  const char* build = getenv("BUILD");
  return std::string(build ? build : "build") + "/millrace";
}

int Patience() {
  const char* const text = std::getenv("MILLRACE_TEST_PATIENCE");
  return text ? std::max(std::atoi(text), 1) : 1;
}

std::vector<std::string> PlainLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const bool log_line = line.size() > 5 && strchr("IWEF", line[0]) &&
                          isdigit(static_cast<unsigned char>(line[1])) &&
                          isdigit(static_cast<unsigned char>(line[4]));
    if (!log_line) lines.push_back(line);
  }
  return lines;
}

}  // namespace millrace::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  FLAGS_logtostderr = true;
  FLAGS_minloglevel = google::GLOG_WARNING;
  google::InitGoogleLogging(argv[0]);
  // Set once, before there are threads, to a name: otherwise every log line, which needs the local
  // time, would read the file again.
  setenv("TZ", ":/etc/localtime", 0);
  tzset();
  // Tests on a GPU, and programs that they start, keep nothing in the user's home.
  setenv("MILLRACE_CONVOLUTION_CACHE", "off", 0);
  const char* argument = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], "--seed=", 7) == 0) argument = argv[i] + 7;
  }
  try {
    millrace::test::seed = millrace::test::ChooseSeed(argument);
  } catch (const millrace::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  std::cout << "random seed: " << millrace::test::seed
            << " (repeat with --seed=" << millrace::test::seed << ")" << std::endl;
  return RUN_ALL_TESTS();
}
