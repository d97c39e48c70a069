#include "metrics/gnuplot.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "millrace/file_descriptor.h"

namespace millrace {
namespace {

// An unnamed file in memory with `content`, read from its beginning.
FileDescriptor MemoryFile(const std::string& content) {
  FileDescriptor file(memfd_create("gnuplot", MFD_CLOEXEC));
  size_t done = 0;
  while (file.get() >= 0 && done < content.size()) {
    const ssize_t written = write(file.get(), content.data() + done, content.size() - done);
    if (written < 0 && errno != EINTR) break;
    done += written > 0 ? written : 0;
  }
  if (file.get() < 0 || done < content.size() || lseek(file.get(), 0, SEEK_SET) != 0) {
    throw Error("gnuplot: no memory for its script: ", ErrnoText(errno));
  }
  return file;
}

// Returns the exit status as waitpid() gives it.
int SpawnAndWait(int input, int output, int errors) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  char program[] = "gnuplot", no_start_up_files[] = "-d";
  char* const arguments[] = {program, no_start_up_files, nullptr};
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, program, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) {
    throw Error("gnuplot, which draws figures, is not installed: install the package gnuplot-nox");
  }
  if (error != 0) throw Error("gnuplot cannot be started: ", ErrnoText(error));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw Error("gnuplot: waiting for it failed: ", ErrnoText(errno));
  }
  return status;
}

// gnuplot's last line says what is wrong; the lines before show where.
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

void RunGnuplot(const std::string& script, const std::string& path) {
  AtomicFile file(path);
  const FileDescriptor input = MemoryFile(script), errors = MemoryFile("");
  const int status = SpawnAndWait(input.get(), file.fd(), errors.get());
  struct stat picture {};
  const bool empty = fstat(file.fd(), &picture) != 0 || picture.st_size == 0;
  if (status != 0 || empty) {
    throw Error(path, ": not drawn: gnuplot ",
                WIFSIGNALED(status) ? StrCat("was ended by signal ", WTERMSIG(status))
                                    : StrCat("ended with status ", WEXITSTATUS(status)),
                ": ", LastLine(ReadFile(StrCat("/proc/self/fd/", errors.get()))));
  }
  file.Commit();
}

std::string GnuplotText(const std::string& text) {
  std::string literal = "\"";
  for (char c : OneLine(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ' || std::isalpha(byte) || byte >= 0x80) {
      literal += c;
    } else {
      literal += '\\';
      for (int shift : {6, 3, 0}) literal += static_cast<char>('0' + (byte >> shift & 7));
    }
  }
  return literal + '"';
}

}  // namespace millrace
