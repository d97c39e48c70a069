#include "base/drawing_program.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "base/error.h"
#include "base/files/file.h"
#include "millrace/file_descriptor.h"

namespace millrace::inline base {
namespace {

// An unnamed file in memory with `content`, read from its beginning.
FileDescriptor MemoryFile(const DrawingProgram& program, const std::string& content) {
  FileDescriptor file(memfd_create(program.name.c_str(), MFD_CLOEXEC));
  size_t done = 0;
  while (file.get() >= 0 && done < content.size()) {
    const ssize_t written = write(file.get(), content.data() + done, content.size() - done);
    if (written < 0 && errno != EINTR) break;
    done += written > 0 ? written : 0;
  }
  if (file.get() < 0 || done < content.size() || lseek(file.get(), 0, SEEK_SET) != 0) {
    throw Error(program.name, ": no memory for its script: ", ErrnoText(errno));
  }
  return file;
}

// Returns the exit status as waitpid() gives it.
int SpawnAndWait(const DrawingProgram& program, int input, int output, int errors) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  std::vector<std::string> words = {program.name};
  words.insert(words.end(), program.arguments.begin(), program.arguments.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) {
    throw Error(program.name, ", ", program.purpose, ", is not installed: install the package ",
                program.package);
  }
  if (error != 0) throw Error(program.name, " cannot be started: ", ErrnoText(error));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw Error(program.name, ": waiting for it failed: ", ErrnoText(errno));
  }
  return status;
}

// The last line says what is wrong; the lines before show where.
std::string LastLine(const std::string& text) {
  std::istringstream in(text);
  std::string last = "no message";
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find_first_not_of(" \t^");
    if (begin != line.npos) last = line.substr(begin);
  }
  return last;
}

}  // namespace

void Draw(const DrawingProgram& program, const std::string& script, const std::string& path) {
  AtomicFile file(path);
  const FileDescriptor input = MemoryFile(program, script), errors = MemoryFile(program, "");
  const int status = SpawnAndWait(program, input.get(), file.fd(), errors.get());
  struct stat picture {};
  const bool empty = fstat(file.fd(), &picture) != 0 || picture.st_size == 0;
  if (status != 0 || empty) {
    throw Error(path, ": not drawn: ", program.name, " ",
                WIFSIGNALED(status) ? StrCat("was ended by signal ", WTERMSIG(status))
                                    : StrCat("ended with status ", WEXITSTATUS(status)),
                ": ", LastLine(ReadFile(StrCat("/proc/self/fd/", errors.get()))));
  }
  file.Commit();
}

}  // namespace millrace::inline base
