// Modules: shared objects with parts of Millrace that not every machine needs. A module is loaded
// when something names what it holds; its objects at namespace scope then register it. A program
// without a module is the same program with fewer names in its registries.
#ifndef MILLRACE_BASE_MODULE_H_
#define MILLRACE_BASE_MODULE_H_

#include <span>
#include <string>
#include <string_view>

namespace millrace::inline base {

struct Module {
  std::string_view name;   // "cuda"; the file is cuda.so
  std::string_view holds;  // for people: "NVIDIA GPUs, NCCL"
};

// The modules of Millrace, in the order of their names.
std::span<const Module> Modules();

// Loads a module from the first of these folders that has its file: those in the environment
// variable MILLRACE_MODULES, separated by ':'; or, where that is not set, `millrace` and `modules`
// beside the library. Returns "" if it is loaded, otherwise the reason: "module mpi, which is not
// installed (...)" or "module mpi, which cannot be loaded (...)". Later calls return the same.
// Thread-safe. Registries that modules add to call it without locks that registration takes.
std::string LoadModule(std::string_view name);

// The address of a C symbol of a loaded module; null if it has none.
void* ModuleSymbol(std::string_view module, const std::string& symbol);

// The path of a module's file; "" if no folder has it.
std::string ModuleFile(std::string_view name);

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_MODULE_H_
