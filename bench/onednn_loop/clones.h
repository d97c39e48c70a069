// Marks a function that GCC compiles for several instruction sets and chooses
// among when the program is loaded.
#ifndef MILLRACE_BENCH_ONEDNN_LOOP_CLONES_H_
#define MILLRACE_BENCH_ONEDNN_LOOP_CLONES_H_

#define CLONES                                                                 \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), \
                 optimize("O3", "fast-math")))

#endif  // MILLRACE_BENCH_ONEDNN_LOOP_CLONES_H_
